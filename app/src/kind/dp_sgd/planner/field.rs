//! The planner's inputs. The number field belongs to the form. The slider beside it exists only with wasm and moves in
//! equal ratios, because a doubling has the same meaning everywhere on it.

#![expect(unreachable_pub, reason = "the component macro makes what it generates public")]

use leptos::prelude::*;
use undertone_api::problem::Violation;

use crate::kind::dp_sgd::TrainingPlan;
use crate::words;

/// Positions of a slider.
const STEPS: f64 = 400.0;

/// Returns the value at a slider's position, to three significant digits.
fn value_at_position(position: f64, low: f64, high: f64, whole: bool) -> f64 {
    let value = low * (high / low).powf((position / STEPS).clamp(0.0, 1.0));
    if whole {
        return value.round();
    }
    let digit = 10_f64.powf(value.log10().floor() - 2.0);
    ((value / digit).round() * digit * 1e9).round() / 1e9
}

/// Returns the position of a value.
fn find_position(value: f64, low: f64, high: f64) -> f64 {
    ((value.clamp(low, high) / low).ln() / (high / low).ln() * STEPS).round()
}

/// Returns the value after a move of the slider. A move by one position changes a whole number by one at least:
/// otherwise keys could not leave a small number, whose neighbours are many positions away.
fn move_slider(position: f64, from: f64, low: f64, high: f64, whole: bool) -> f64 {
    let value = value_at_position(position, low, high, whole);
    if !whole || (value - from).abs() >= 0.5 {
        return value;
    }
    let direction = position - find_position(from, low, high);
    if direction == 0.0 { from } else { (from + direction.signum()).clamp(low, high) }
}

/// Returns a number as the typed text, if that is the number.
fn show_number(value: f64, typed: &str) -> String {
    let is_same = typed.parse::<f64>().is_ok_and(|typed| typed.to_bits() == value.to_bits());
    if is_same { typed.to_owned() } else { value.to_string() }
}

/// The plan's violations, which the fields display.
#[derive(Clone, Copy)]
pub(super) struct PlanViolations(pub(super) Memo<Vec<Violation>>);

impl PlanViolations {
    /// Renders the message of a path that has no field of its own.
    pub(super) fn render_at(at: &'static str) -> AnyView {
        render_violation(watch_violation(at.into()))
    }
}

impl PlanViolations {
    /// Renders the first violation of a field of any party.
    pub(super) fn render_for_parties(field: &'static str) -> AnyView {
        let Self(all) = expect_context();
        let is_here = move |violation: &&Violation| {
            let place = field_path(violation).strip_prefix("participants.").and_then(|rest| rest.split_once('.'));
            place.is_some_and(|(_, place)| place.starts_with(field))
        };
        render_violation(Memo::new(move |_| all.read().iter().find(is_here).map(|violation| violation.message.clone())))
    }
}

/// Returns the path of a violation in the fields' form: both arms share their fields.
fn field_path(violation: &Violation) -> &str {
    let inside = violation.field.trim_start_matches("spec.");
    inside.strip_prefix("private.").or_else(|| inside.strip_prefix("open.")).unwrap_or(inside)
}

/// Returns whether a path equals a field's, or is an entry of the field's list.
fn matches_path(place: &str, at: &str) -> bool {
    let entry = |rest: &str| rest.strip_prefix('.').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    place.strip_prefix(at).is_some_and(|rest| rest.is_empty() || entry(rest))
}

/// Counts the violations at paths that begin with one of these.
pub(super) fn count_violations(violations: &[Violation], places: &[&str]) -> usize {
    violations.iter().filter(|violation| places.iter().any(|within| field_path(violation).starts_with(within))).count()
}

/// Returns the message of a violation at a path, if there is one.
fn watch_violation(path: Signal<String>) -> Memo<Option<String>> {
    let PlanViolations(all) = expect_context();
    Memo::new(move |_| {
        let path = path.read();
        let all = all.read();
        let here = |violation: &&Violation| !path.is_empty() && matches_path(field_path(violation), &path);
        all.iter().find(here).map(|violation| violation.message.clone())
    })
}

/// Renders the message under an invalid field.
fn render_violation(wrong: Memo<Option<String>>) -> AnyView {
    (move || wrong.get().map(|message| view! { <small class="fault">{message}</small> })).into_any()
}

/// Renders a number with a slider.
#[component]
pub(super) fn Slider(
    #[prop(into)] name: String,
    #[prop(into)] at: Signal<String>,
    label: &'static str,
    help: &'static str,
    value: f64,
    low: f64,
    high: f64,
    whole: bool,
    get: Signal<f64>,
    set: Callback<f64>,
) -> impl IntoView {
    let wrong = watch_violation(at);
    let slide = move |event| {
        if let Ok(position) = event_target_value(&event).parse() {
            set.run(move_slider(position, get.get_untracked(), low, high, whole));
        }
    };
    // The text as typed: 0.0 must not become 0 before its last digit.
    let typed = RwSignal::new(String::new());
    let enter = move |event| {
        let text = event_target_value(&event);
        if let Ok(value) = text.parse::<f64>() {
            typed.set(text);
            set.run(value);
        }
    };
    let shown = move || show_number(get.get(), &typed.read());
    let step = if whole { "1" } else { "any" };
    view! {
        <div class="field slider">
            <label><span title=help>{label}</span>
                <input type="number" name=name required min=low.to_string() max=high.to_string() step=step
                    aria-invalid=move || wrong.read().is_some().then_some("true")
                    value=value.to_string() prop:value=shown on:input=enter/>
            </label>
            <input class="live-only" type="range" min="0" max=STEPS.to_string() step="1" aria-label=format!("{label}, slider")
                aria-valuetext=move || words::number(get.get())
                value=find_position(value, low, high).to_string()
                prop:value=move || find_position(get.get(), low, high).to_string() on:input=slide/>
            {render_violation(wrong)}
        </div>
    }
}

/// Makes the handler of an input: one kind of closure for all fields, because each kind adds code to the bundle.
pub(super) fn make_setter<T: 'static>(plan: RwSignal<TrainingPlan>, set: fn(&mut TrainingPlan, T)) -> Callback<T> {
    Callback::new(move |value| plan.update(|plan| set(plan, value)))
}

/// A field of the form: its name there, its path in the spec, its label. Plain functions with one type of view keep the
/// bundle small.
#[derive(Debug, Clone, Copy)]
pub(super) struct FormField {
    /// Name in the form.
    pub(super) name: &'static str,
    /// Path in the spec, within either arm; empty if no value can be invalid.
    pub(super) at: &'static str,
    /// Its label.
    pub(super) label: &'static str,
}

impl FormField {
    /// Renders a number within a range.
    pub(super) fn number(self, value: f64, range: (f64, f64), whole: bool, set: Callback<f64>) -> AnyView {
        let wrong = watch_violation(self.at.into());
        let enter = move |event| {
            if let Ok(value) = event_target_value(&event).parse() {
                set.run(value);
            }
        };
        let step = if whole { "1" } else { "any" };
        view! {
            <label class="field inline"><span>{self.label}</span>
                <input type="number" name=self.name required min=range.0.to_string() max=range.1.to_string() step=step value=value.to_string()
                    aria-invalid=move || wrong.read().is_some().then_some("true") on:change=enter/>
                {render_violation(wrong)}
            </label>
        }
        .into_any()
    }

    /// Renders a line of text.
    pub(super) fn words(self, value: String, set: Callback<String>) -> AnyView {
        let wrong = watch_violation(self.at.into());
        view! {
            <label class="field"><span>{self.label}</span>
                <input type="text" name=self.name required maxlength="400" autocomplete="off" value=value
                    aria-invalid=move || wrong.read().is_some().then_some("true")
                    on:change=move |event| set.run(event_target_value(&event))/>
                {render_violation(wrong)}
            </label>
        }
        .into_any()
    }

    /// Renders several lines of text.
    pub(super) fn text(self, value: String, set: Callback<String>) -> AnyView {
        let wrong = watch_violation(self.at.into());
        view! {
            <label class="field"><span>{self.label}</span>
                <textarea name=self.name class="code" rows="12" spellcheck="false" aria-invalid=move || wrong.read().is_some().then_some("true")
                    on:change=move |event| set.run(event_target_value(&event))>{value}</textarea>
                {render_violation(wrong)}
            </label>
        }
        .into_any()
    }

    /// Renders a choice of several options, each with its word in the form and its label.
    pub(super) fn choice(self, chosen: &str, options: Vec<(String, String)>, set: Callback<String>) -> AnyView {
        let wrong = watch_violation(self.at.into());
        let option = |(value, text): (String, String)| {
            let selected = value == chosen;
            view! { <option value=value selected=selected>{text}</option> }
        };
        let options = options.into_iter().map(option).collect_view();
        view! {
            <label class="field choice"><span>{self.label}</span>
                <select name=self.name aria-invalid=move || wrong.read().is_some().then_some("true")
                    on:change=move |event| set.run(event_target_value(&event))>{options}</select>
                {render_violation(wrong)}
            </label>
        }
        .into_any()
    }
}

/// Renders a checkbox.
pub(super) fn render_checkbox(name: String, label: &'static str, value: bool, set: Callback<bool>) -> AnyView {
    view! {
        <label class="check"><input type="checkbox" name=name value="true" checked=value
            on:change=move |event| set.run(event_target_checked(&event))/>{label}</label>
    }
    .into_any()
}

/// The options of a choice: the value, its word in the form and in the spec, its label.
pub(super) type ChoiceTable<T> = [(T, &'static str, &'static str)];

/// Returns a table's options for a choice.
pub(super) fn table_options<T>(table: &ChoiceTable<T>) -> Vec<(String, String)> {
    table.iter().map(|(_, word, text)| ((*word).to_owned(), (*text).to_owned())).collect()
}

/// Returns the word of a value.
pub(super) fn find_word<T: PartialEq>(table: &ChoiceTable<T>, choice: &T) -> &'static str {
    table.iter().find(|(known, ..)| known == choice).map_or("", |(_, word, _)| word)
}

/// Returns the value of a word; `None` for an unknown word.
pub(super) fn parse_word<T: Copy>(table: &ChoiceTable<T>, text: &str) -> Option<T> {
    table.iter().find(|(_, word, _)| *word == text).map(|(choice, ..)| *choice)
}

#[cfg(test)]
mod tests {
    use undertone_api::problem::Violation;

    use super::{
        STEPS, count_violations, field_path, find_position, matches_path, move_slider, show_number, value_at_position,
    };

    #[test]
    fn violation_of_either_arm_is_at_the_shared_field() {
        let violation = |field: &str| Violation::new(field, "");
        let all = ["spec.private.schedule.warmup", "spec.open.schedule.warmup", "spec.model.context"].map(violation);
        assert_eq!(all.each_ref().map(field_path), ["schedule.warmup", "schedule.warmup", "model.context"]);
        assert!(matches_path("selection.candidates.1.clip", "selection.candidates") && matches_path("unit", "unit"));
        assert!(!matches_path("selection.candidates", "selection") && !matches_path("units", "unit"));
        assert_eq!((count_violations(&all, &["model."]), count_violations(&all, &["schedule", "selection"])), (1, 2));
    }

    #[test]
    fn slider_spans_its_range_and_round_trips() {
        assert!((value_at_position(0.0, 0.1, 100.0, false) - 0.1).abs() < 1e-12);
        assert!((value_at_position(STEPS, 0.1, 100.0, false) - 100.0).abs() < 1e-9);
        for position in [0.0, 17.0, 200.0, 399.0, 400.0] {
            let value = value_at_position(position, 0.1, 100.0, false);
            assert!((find_position(value, 0.1, 100.0) - position).abs() <= 1.0, "{position}: {value}");
        }
    }

    #[test]
    fn typed_numbers_stay_as_typed() {
        assert_eq!(show_number(0.0, "0.0"), "0.0");
        assert_eq!(show_number(0.05, "0.050"), "0.050");
        assert_eq!(show_number(2.0, "0.05"), "2", "the slider has moved since");
        assert_eq!(show_number(2.0, ""), "2");
    }

    #[test]
    fn keys_reach_each_whole_number() {
        let (low, high) = (1.0, 10_000.0);
        for start in [1.0, 42.0, 900.0] {
            let next = move_slider(find_position(start, low, high) + 1.0, start, low, high, true);
            assert!(next > start, "{start}: {next}");
            let back = move_slider(find_position(start, low, high) - 1.0, start, low, high, true);
            assert!(back < start || start <= low, "{start}: {back}");
        }
        assert_eq!(move_slider(find_position(42.0, low, high), 42.0, low, high, true).to_bits(), 42_f64.to_bits());
        let mut value: f64 = 1.0;
        for expected in 2..=60 {
            value = move_slider(find_position(value, low, high) + 1.0, value, low, high, true);
            assert!((value - f64::from(expected)).abs() < 0.5 || value > 43.0, "{expected}: {value}");
        }
    }

    #[test]
    fn slider_of_whole_numbers_yields_whole_numbers() {
        for position in [0.0, 33.0, 250.0, 400.0] {
            assert!(value_at_position(position, 1.0, 1000.0, true).fract().abs() < 1e-12);
        }
    }
}
