//! Description of a spec in words: for the facts of a proposed job, and for the steward's approval.

use undertone_api::job::Charge;
use undertone_api::job::analytics::{Spec, TableQuery};

use crate::words;

/// Returns the facts of the job, as pairs of a term and its description.
pub(super) fn list_facts(spec: &Spec) -> Vec<(&'static str, String)> {
    let length = spec.layout().map_or(0, |layout| layout.length()) as u64;
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
                "one, closed when each site has contributed, or after {} with {}",
                words::duration(f64::from(spec.deadline_seconds)),
                words::plural(spec.quorum.into(), "site")
            ),
        ),
    ];
    facts.extend(spec.queries.iter().map(|query| ("Query", describe_query(query))));
    facts
}

fn describe_query(query: &TableQuery) -> String {
    let aggregates: Vec<String> = query.aggregates.iter().map(|one| one.measure.label()).collect();
    let keys: Vec<&str> = query.group_by.iter().map(undertone_api::job::analytics::GroupKey::column).collect();
    let filter = if query.filter.is_some() { " of rows that a filter admits" } else { "" };
    let groups = if keys.is_empty() { String::new() } else { format!(", by {}", keys.join(", ")) };
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
        "1 release is charged. Means, variances, quantiles and intervals are computed from the sum over the sites, and \
         cost nothing more."
            .to_owned(),
    ];
    sentences.extend(own);
    sentences
}
