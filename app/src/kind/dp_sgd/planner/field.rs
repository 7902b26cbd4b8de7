//! The planner's inputs. The number field is the form's; the slider beside it is there only with wasm and moves in equal
//! ratios, because a doubling means the same everywhere on it.

#![expect(unreachable_pub, reason = "the component macro makes what it generates public")]

use leptos::prelude::*;

use crate::words;

/// Positions of a slider.
const STEPS: f64 = 400.0;

/// The value at a slider's position, to three significant digits.
fn value_at(position: f64, low: f64, high: f64, whole: bool) -> f64 {
    let value = low * (high / low).powf((position / STEPS).clamp(0.0, 1.0));
    if whole {
        return value.round();
    }
    let digit = 10_f64.powf(value.log10().floor() - 2.0);
    ((value / digit).round() * digit * 1e9).round() / 1e9
}

/// The position of a value.
fn position_of(value: f64, low: f64, high: f64) -> f64 {
    ((value.clamp(low, high) / low).ln() / (high / low).ln() * STEPS).round()
}

/// A number with a slider.
#[component]
pub(super) fn Slider(
    #[prop(into)] name: String,
    label: &'static str,
    help: &'static str,
    value: f64,
    low: f64,
    high: f64,
    whole: bool,
    get: Signal<f64>,
    set: Callback<f64>,
) -> impl IntoView {
    let slide = move |event| {
        if let Ok(position) = event_target_value(&event).parse() {
            set.run(value_at(position, low, high, whole));
        }
    };
    let enter = move |event| {
        if let Ok(value) = event_target_value(&event).parse::<f64>() {
            set.run(value);
        }
    };
    let step = if whole { "1" } else { "any" };
    view! {
        <div class="field slider">
            <label><span title=help>{label}</span>
                <input type="number" name=name required min=low.to_string() max=high.to_string() step=step
                    value=value.to_string() prop:value=move || get.get().to_string() on:change=enter/>
            </label>
            <input class="live-only" type="range" min="0" max=STEPS.to_string() step="1" aria-label=format!("{label}, slider")
                aria-valuetext=move || words::number(get.get())
                value=position_of(value, low, high).to_string()
                prop:value=move || position_of(get.get(), low, high).to_string() on:input=slide/>
        </div>
    }
}

/// A number.
#[component]
pub(super) fn Number(
    #[prop(into)] name: String,
    #[prop(into)] label: String,
    value: f64,
    low: f64,
    high: f64,
    #[prop(into)] step: String,
    set: Callback<f64>,
) -> impl IntoView {
    let enter = move |event| {
        if let Ok(value) = event_target_value(&event).parse() {
            set.run(value);
        }
    };
    view! {
        <label class="field inline"><span>{label}</span>
            <input type="number" name=name required min=low.to_string() max=high.to_string() step=step value=value.to_string() on:change=enter/>
        </label>
    }
}

/// One of several.
#[component]
pub(super) fn Choice(
    #[prop(into)] name: String,
    #[prop(into)] label: String,
    #[prop(into)] chosen: String,
    options: Vec<(String, String)>,
    set: Callback<String>,
) -> impl IntoView {
    view! {
        <label class="field"><span>{label}</span>
            <select name=name on:change=move |event| set.run(event_target_value(&event))>
                {options.into_iter().map(move |(value, text)| {
                    let selected = value == chosen;
                    view! { <option value=value selected=selected>{text}</option> }
                }).collect_view()}
            </select>
        </label>
    }
}

#[cfg(test)]
mod tests {
    use super::{STEPS, position_of, value_at};

    #[test]
    fn a_slider_spans_its_range_and_finds_its_place_again() {
        assert!((value_at(0.0, 0.1, 100.0, false) - 0.1).abs() < 1e-12);
        assert!((value_at(STEPS, 0.1, 100.0, false) - 100.0).abs() < 1e-9);
        for position in [0.0, 17.0, 200.0, 399.0, 400.0] {
            let value = value_at(position, 0.1, 100.0, false);
            assert!((position_of(value, 0.1, 100.0) - position).abs() <= 1.0, "{position}: {value}");
        }
    }

    #[test]
    fn a_whole_number_stays_whole() {
        for position in [0.0, 33.0, 250.0, 400.0] {
            assert!(value_at(position, 1.0, 1000.0, true).fract().abs() < 1e-12);
        }
    }
}
