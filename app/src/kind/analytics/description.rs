//! Description of a spec in words: for the facts of a proposed job, and for the steward's approval.

use undertone_api::job::Charge;
use undertone_api::job::analytics::{GroupKey, Spec, TableQuery};

use crate::words;

/// Returns the facts of the job, as pairs of a term and its description.
pub(super) fn list_facts(spec: &Spec) -> Vec<(&'static str, String)> {
    let length = spec.layout().map_or(0, |layout| layout.length()) as u64;
    let key_length = spec.key_layout().map_or(0, |layout| layout.length()) as u64;
    let columns: Vec<&str> = spec.columns.iter().map(|column| column.name.as_str()).collect();
    let mut facts = vec![
        ("Protects", format!("each {} in every table", words::unit(spec.unit))),
        ("Columns", columns.join(", ")),
        ("Vector", format!("{} of each site", words::plural(length, "number"))),
        (
            "Noise",
            format!("z = {}, relative to the most that one unit adds", words::number(spec.noise_multiplier.get())),
        ),
        (
            "Round",
            format!(
                "{}, closed when each site has contributed, or after {} with {}",
                if spec.selects_keys() { "two, each" } else { "one" },
                words::duration(f64::from(spec.deadline_seconds)),
                words::plural(spec.quorum.into(), "site")
            ),
        ),
    ];
    if spec.selects_keys() {
        facts.push((
            "Choice of keys",
            format!(
                "a first vector of {} of each site, from which the most frequent keys are read: {}",
                words::plural(key_length, "number"),
                describe_least_units(spec)
            ),
        ));
    }
    facts.extend(spec.queries.iter().map(|query| ("Query", describe_query(query))));
    facts
}

/// Returns how frequent a key must be to be found.
pub(super) fn describe_least_units(spec: &Spec) -> String {
    let sites = spec.participants.len() as u32;
    let least = spec.key_layout().map_or(0.0, |layout| layout.least_units(spec.noise_multiplier.get(), sites));
    format!(
        "a key of {} or more over the sites together is found in at least 9 of 10 jobs, unless a more frequent one hides it",
        words::plural(least.ceil() as u64, words::unit(spec.unit))
    )
}

fn describe_query(query: &TableQuery) -> String {
    let aggregates: Vec<String> = query.aggregates.iter().map(|one| one.measure.label()).collect();
    let keys: Vec<&str> = query.group_by.iter().map(GroupKey::column).collect();
    let filter = if query.filter.is_some() { " of rows that a filter admits" } else { "" };
    let groups = if keys.is_empty() { String::new() } else { format!(", by {}", keys.join(", ")) };
    let chosen = query.group_by.iter().find_map(|key| match key {
        GroupKey::Selected { column, most } => {
            Some(format!(", of {column} the {} most frequent", words::count(u64::from(*most))))
        }
        _ => None,
    });
    let groups = groups + &chosen.unwrap_or_default();
    let sites = if query.by_site { ", each site on its own" } else { "" };
    let limits = query.limits;
    format!(
        "{}: {}{filter}{groups}{sites}; a unit counts with {} in a group and in {}",
        query.name,
        aggregates.join(", "),
        words::plural(limits.rows.into(), "row"),
        words::plural(limits.groups.into(), "group")
    )
}

/// Returns the effects of an approval by the owner of a table, sentence by sentence. Empty without a charge, which is
/// described elsewhere.
pub(super) fn describe_consent(spec: &Spec, charge: Option<&Charge>) -> Vec<String> {
    if charge.is_none() {
        return Vec::new();
    }
    let own: Vec<&str> = spec.queries.iter().filter(|query| query.by_site).map(|query| query.name.as_str()).collect();
    let own = (!own.is_empty()).then(|| {
        format!(
            "The result shows the numbers of your table alone, with the noise of your site alone: of {}. A sum over the \
             sites does not hide them.",
            own.join(", ")
        )
    });
    let keys = spec.selects_keys().then(|| {
        "Before it another vector leaves your table, once, with noise as strong. From the average of the sites the most \
         frequent keys are read, which become groups of the result: their texts are shown."
            .to_owned()
    });
    let releases = if spec.selects_keys() { "2 releases are charged." } else { "1 release is charged." };
    let mut sentences = vec![
        format!(
            "One vector leaves your table, once: the sums of {}, with noise.",
            words::plural(spec.queries.len() as u64, "query").replace("querys", "queries")
        ),
        format!(
            "The rows of each {} that count are limited, and your site adds noise relative to the most that one can add \
             to the whole vector, before it leaves.",
            words::unit(spec.unit)
        ),
        "The spec lists the filters, groups and aggregates. Your site computes them, and runs no text of another site."
            .to_owned(),
        format!(
            "{releases} Means, variances, quantiles and intervals are computed from the sum over the sites, and cost \
             nothing more."
        ),
    ];
    if let Some(keys) = keys {
        sentences.insert(1, keys);
    }
    sentences.extend(own);
    sentences
}
