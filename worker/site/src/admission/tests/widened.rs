//! An honest manifest with random changes, signed by the server's own key. A change is rejected, or it costs the site
//! exactly the stated charge and is a document that has no approval here.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};
use undertone_api::dataset::Visibility;
use undertone_api::id::JobId;
use undertone_api::job::PartyTerms;
use undertone_api::signed::{Signed, SiteDecision};
use uuid::Uuid;

use super::{Foreign, honest, identity, now, sign};
use crate::admission::examine;
use crate::jobs::{self, DecisionOrigin};
use crate::store::Store;
use crate::testing::{JOB, OURS, local, server_key};

/// One change of a JSON document; indexes beyond its sizes are taken modulo them.
#[derive(Debug, Clone)]
enum ManifestChange {
    /// Replaces a number.
    Number(Index, f64),
    /// Replaces a whole number.
    Whole(Index, i64),
    /// Replaces a string by another one of the document, or by a new one.
    Text(Index, Option<Index>),
    /// Replaces a value by null or a boolean.
    Blank(Index, Option<bool>),
    /// Removes a key or an element.
    Remove(Index),
    /// Duplicates an element.
    Double(Index),
    /// Swaps two elements.
    Swap(Index),
    /// Adds an unknown key.
    Add(Index),
    /// Replaces a value by another one of the document.
    Graft(Index, Index),
    /// Shifts the date of issue or of the end.
    Date(Index, i64),
}

fn change() -> impl Strategy<Value = ManifestChange> {
    let index = any::<Index>;
    prop_oneof![
        (index(), prop_oneof![Just(0.0), Just(-1.0), 0.0..10.0, Just(1e300)])
            .prop_map(|(at, x)| ManifestChange::Number(at, x)),
        (index(), prop_oneof![Just(0), Just(-1), 1_i64..20, Just(i64::MAX)])
            .prop_map(|(at, x)| ManifestChange::Whole(at, x)),
        (index(), proptest::option::of(index())).prop_map(|(at, from)| ManifestChange::Text(at, from)),
        (index(), any::<Option<bool>>()).prop_map(|(at, value)| ManifestChange::Blank(at, value)),
        index().prop_map(ManifestChange::Remove),
        index().prop_map(ManifestChange::Double),
        index().prop_map(ManifestChange::Swap),
        index().prop_map(ManifestChange::Add),
        (index(), index()).prop_map(|(at, from)| ManifestChange::Graft(at, from)),
        (index(), -100_000_i64..100_000).prop_map(|(at, days)| ManifestChange::Date(at, days)),
    ]
}

/// Returns the JSON pointers of all values for which `wanted` is true.
fn places(document: &Value, wanted: impl Fn(&Value) -> bool) -> Vec<String> {
    fn walk(value: &Value, at: String, wanted: &dyn Fn(&Value) -> bool, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    walk(value, format!("{at}/{key}"), wanted, found);
                }
            }
            Value::Array(elements) => {
                for (index, value) in elements.iter().enumerate() {
                    walk(value, format!("{at}/{index}"), wanted, found);
                }
            }
            _ => {}
        }
        if wanted(value) {
            found.push(at);
        }
    }
    let mut places = Vec::new();
    walk(document, String::new(), &wanted, &mut places);
    places
}

/// Returns a mutable reference to one of the `wanted` values; `None` when there is none.
fn find_value(document: &mut Value, index: Index, wanted: impl Fn(&Value) -> bool) -> Option<&mut Value> {
    let places = places(document, wanted);
    if places.is_empty() {
        return None;
    }
    document.pointer_mut(index.get(places.as_slice()).as_str())
}

fn is_date(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.ends_with('Z') && text.contains('T'))
}

fn apply(document: &mut Value, change: &ManifestChange) -> Option<()> {
    let every = |_: &Value| true;
    match change {
        ManifestChange::Number(index, number) => *find_value(document, *index, Value::is_number)? = json!(number),
        ManifestChange::Whole(index, number) => *find_value(document, *index, Value::is_u64)? = json!(number),
        ManifestChange::Text(index, from) => {
            let text = match from {
                Some(from) => find_value(document, *from, Value::is_string)?.clone(),
                None => json!(Uuid::from_u128(0xfeed).to_string()),
            };
            *find_value(document, *index, Value::is_string)? = text;
        }
        ManifestChange::Blank(index, value) => *find_value(document, *index, every)? = json!(value),
        ManifestChange::Remove(index) => {
            match find_value(document, *index, |value| value.is_object() || value.is_array())? {
                Value::Object(fields) => {
                    let key = fields.keys().nth(index.index(fields.len().max(1)))?.clone();
                    fields.remove(&key);
                }
                Value::Array(elements) if !elements.is_empty() => {
                    elements.remove(index.index(elements.len()));
                }
                _ => return None,
            }
        }
        ManifestChange::Double(index) => {
            let Value::Array(elements) = find_value(document, *index, Value::is_array)? else { return None };
            let element = elements.get(index.index(elements.len().max(1)))?.clone();
            elements.push(element);
        }
        ManifestChange::Swap(index) => {
            let Value::Array(elements) = find_value(document, *index, Value::is_array)? else { return None };
            let (last, other) = (elements.len().checked_sub(1)?, index.index(elements.len()));
            elements.swap(last, other);
        }
        ManifestChange::Add(index) => {
            let Value::Object(fields) = find_value(document, *index, Value::is_object)? else { return None };
            fields.insert("raw".to_owned(), json!(true));
        }
        ManifestChange::Graft(index, from) => {
            let value = find_value(document, *from, every)?.clone();
            *find_value(document, *index, every)? = value;
        }
        ManifestChange::Date(index, days) => {
            let date = now() + time::Duration::days(*days);
            let text = date.format(&time::format_description::well_known::Rfc3339).ok()?;
            *find_value(document, *index, is_date)? = json!(text);
        }
    }
    Some(())
}

/// Returns the parts of a manifest that determine this site's releases: its own entry, the series it contributes to,
/// the form of the model, the limits. Names of people and consortia are for the people who approve the document.
fn parse_given(document: &Value) -> Value {
    let mut entry = document["participants"][1].clone();
    // The only field of the entry that is for display.
    entry["organization_name"] = Value::Null;
    json!({
        "entry": entry,
        "rounds": document["spec"]["private"]["rounds"],
        "own": document["spec"]["participants"][1]["noise"]["noise_multiplier"],
        "rate": document["spec"]["participants"][1]["sampling_rate"],
        "unit": document["spec"]["unit"],
        "spare": document["spec"]["spare_releases"],
        "kind": document["kind"],
        "limits": { "releases": document["limits"]["releases"], "rounds": document["limits"]["rounds"] },
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn changed_manifest_is_refused_or_charged_and_unapproved(
        changes in proptest::collection::vec(change(), 1..4)
    ) {
        let approved = sign(&honest());
        let before: Value = serde_json::from_str(&approved.payload).expect("it is JSON");
        let mut after = before.clone();
        for change in &changes {
            // A change without a target changes nothing.
            let _ = apply(&mut after, change);
        }
        prop_assume!(after != before);
        let signed = Signed::new(&Foreign(after.clone()), &server_key()).expect("it has a JSON form");
        let site = [local(Visibility::Private)];
        let Ok(examined) = examine(&signed, OURS, &identity(), &site, now()) else { return Ok(()) };

        // The charge is computed here from the spec, and the limits agree with it.
        let cost = examined.manifest.spec.cost(&examined.dataset);
        prop_assert_eq!(&examined.charge, &cost);
        prop_assert_eq!(&examined.own().charge, &cost);
        let limits = examined.manifest.limits.as_ref().expect("a manifest without limits is refused");
        prop_assert!(cost.as_ref().is_none_or(|charge| charge.releases <= limits.releases));
        prop_assert!(limits.not_after >= now());
        // Another part of the manifest contradicts any single change to this site's releases.
        if changes.len() == 1 {
            prop_assert_eq!(parse_given(&after), parse_given(&before));
        }

        // It is another document: no approval applies to it, and under the same job it is rejected.
        let folder = tempfile::tempdir().expect("a temporary folder");
        let store = Store::create(&folder.path().join("ledger.db")).expect("the folder is writable");
        jobs::remember(&store, JOB, OURS, &approved, now()).expect("it is open");
        let yes = SiteDecision {
            manifest: approved.digest(), job: JOB, dataset: OURS, approve: true, reason: String::new(), terms: PartyTerms::default(), at: now(),
        };
        jobs::decide(&store, &yes, DecisionOrigin::Terminal).expect("it is open");
        let job: JobId = examined.manifest.job;
        let decision = jobs::decision(&store, job, OURS, &examined.digest).expect("it is open");
        prop_assert!(decision.is_none(), "an approval is for one document");
        let first = jobs::remember(&store, job, OURS, &signed, now()).expect("it is open");
        prop_assert_eq!(first, (job == JOB).then(|| approved.digest()));
    }
}
