//! A draft of any kind that is opened in a planner: the part that the planner can represent, and a notice about the
//! rest.
//!
//! A draft is JSON and may be incomplete; a planner's form has fields. The draft is read over the plan of the datasets,
//! so that missing values are filled in as in a new plan. Values without a field are listed, because saving changes
//! them.

use leptos::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use undertone_api::job::JobDraft;

use crate::path;

/// A draft to open in a planner.
#[derive(Clone)]
pub struct OpenedDraft {
    /// The present draft.
    pub draft: JobDraft,
    /// Its version when it was first opened; different from the present one if another member has changed it since.
    pub seen: u64,
}

/// The most listed values; of further ones only the number is displayed.
const NAMED: usize = 12;

/// Reads a draft's spec as a plan; also returns the paths that the plan cannot represent. `spec` converts a plan into a
/// spec, `of` a spec into a plan; an unreadable draft leaves the first plan unchanged.
pub(super) fn restore_plan<P, S: Serialize + DeserializeOwned>(
    draft: &Value,
    first: P,
    spec: impl Fn(&P) -> Option<S>,
    of: impl FnOnce(&S, P) -> P,
) -> (P, Vec<String>) {
    let read: Option<S> = spec(&first).and_then(|first| complete_spec(draft, &first));
    let plan = match &read {
        Some(read) => of(read, first),
        None => first,
    };
    let lost = list_unrepresented(draft, read.as_ref(), spec(&plan).as_ref());
    (plan, lost)
}

/// Completes a draft's spec with the values of an initial spec; `None` if it does not have the form of a spec.
fn complete_spec<S: Serialize + DeserializeOwned>(draft: &Value, first: &S) -> Option<S> {
    serde_json::from_value(draft.clone()).ok().or_else(|| {
        let mut whole = serde_json::to_value(first).ok()?;
        overlay(&mut whole, draft);
        serde_json::from_value(whole).ok()
    })
}

/// Writes the values of `over` into `under`: objects name by name, other values as a whole.
fn overlay(under: &mut Value, over: &Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (name, value) in over {
                overlay(under.entry(name).or_insert(Value::Null), value);
            }
        }
        (under, over) => *under = over.clone(),
    }
}

/// Returns the paths where the draft differs from the planned spec. `read` is the parsed draft: a number that parsing
/// rounds is not a difference.
fn list_unrepresented<S: Serialize>(draft: &Value, read: Option<&S>, planned: Option<&S>) -> Vec<String> {
    let value = |spec: Option<&S>| spec.and_then(|spec| serde_json::to_value(spec).ok()).unwrap_or_default();
    let mut places = Vec::new();
    collect_differences("spec", [draft, &value(read), &value(planned)], &mut places);
    places.sort();
    places
}

/// Collects the paths where the draft's value equals the planned one neither before nor after parsing (`read`).
fn collect_differences(place: &str, [draft, read, planned]: [&Value; 3], places: &mut Vec<String>) {
    let inside = |name: &str| format!("{place}.{name}");
    match (draft, planned) {
        (Value::Object(fields), Value::Object(others)) => {
            for (name, value) in fields {
                let read = read.get(name).unwrap_or(&Value::Null);
                collect_differences(&inside(name), [value, read, others.get(name).unwrap_or(&Value::Null)], places);
            }
        }
        (Value::Array(items), Value::Array(others)) if items.len() == others.len() => {
            for (index, (value, other)) in items.iter().zip(others).enumerate() {
                let read = read.get(index).unwrap_or(&Value::Null);
                collect_differences(&inside(&index.to_string()), [value, read, other], places);
            }
        }
        _ if is_equal(draft, planned) || (!read.is_null() && is_equal(read, planned)) => {}
        _ => places.push(place.to_owned()),
    }
}

/// Returns whether two values are equal; 1 and 1.0 are the same number.
fn is_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (one, other) => one == other,
    }
}

/// Renders the notice above a planner with an opened draft.
pub(super) fn render_notice(opened: &OpenedDraft, form: &'static str, save: &'static str, lost: &[String]) -> AnyView {
    let OpenedDraft { draft, seen } = opened;
    let page = path::draft(draft.consortium, draft.id);
    let title = if draft.content.title.is_empty() { "(untitled)" } else { &draft.content.title }.to_owned();
    let changed = (*seen != draft.version).then(|| {
        view! {
            <p class="notice bad" role="alert">
                "The draft was changed after you opened it. Your version is below; "<a href=page.clone()>"the draft’s page"</a>
                " shows the current version. Saving again overwrites it with yours."
            </p>
        }
    });
    let more = lost.len().saturating_sub(NAMED);
    let paths = lost.iter().take(NAMED).map(|place| view! { <li><code>{place.clone()}</code></li> }).collect_view();
    let lacks = (!lost.is_empty()).then(|| {
        view! {
            <p>"The planner has no field for these values of the draft, or reads them differently. Saving here replaces them with the planner’s values; edit the draft’s page to keep them."</p>
            <ul>{paths}{(more > 0).then(|| view! { <li>{format!("and {more} more")}</li> })}</ul>
        }
    });
    view! {
        <section class="panel">
            <h3>{format!("Draft {title}")}</h3>
            {changed}
            <p>"Saving updates this draft, and proposing turns it into a job. "<a href=page>"Show the draft"</a></p>
            {lacks}
            <input type="hidden" form=form name="draft" value=draft.id.to_string()/>
            <input type="hidden" form=form name="version" value=draft.version.to_string()/>
            <button type="submit" form=form formmethod="post" formaction=save formnovalidate>"Save the draft"</button>
        </section>
    }
    .into_any()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{complete_spec, list_unrepresented};

    #[test]
    fn incomplete_draft_is_completed_from_the_first_plan() {
        let first = json!({ "rounds": 5, "model": { "hidden": 10, "cell": "lstm" }, "parts": [1, 2] });
        let draft = json!({ "model": { "hidden": 7 }, "parts": [3] });
        let whole: Value = complete_spec(&json!({}), &first).expect("any value is a value");
        assert_eq!(whole, json!({}), "what can be read as it stands is left as it is");
        let mut whole = first.clone();
        super::overlay(&mut whole, &draft);
        assert_eq!(whole, json!({ "rounds": 5, "model": { "hidden": 7, "cell": "lstm" }, "parts": [3] }));
    }

    #[test]
    fn only_changed_values_are_listed() {
        let draft =
            json!({ "rate": 1, "seed": 7, "model": { "cell": "gru", "odd": true }, "parts": [1, 2], "none": null });
        let planned = json!({ "rate": 1.0, "seed": 1, "model": { "cell": "gru" }, "parts": [1], "more": 3 });
        let paths = list_unrepresented(&draft, Some(&draft), Some(&planned));
        assert_eq!(paths, ["spec.model.odd", "spec.parts", "spec.seed"]);
        assert!(list_unrepresented(&draft, Some(&draft), Some(&draft)).is_empty());
        assert_eq!(list_unrepresented::<Value>(&json!({}), None, None), ["spec"], "nothing of it could be read");
        let rough = json!({ "rate": 0.1 });
        let fine = json!({ "rate": 0.125 });
        assert!(list_unrepresented(&rough, Some(&fine), Some(&fine)).is_empty(), "reading rounded it, not the planner");
    }
}
