//! Description of a spec in words: for the facts of a proposed job, and for the steward's approval.

use undertone_api::id::DatasetId;
use undertone_api::job::Charge;
use undertone_api::job::dp_sgd::RowColumns;
use undertone_api::job::evaluation::Spec;

use crate::words;

/// Returns the facts of the job, as pairs of a term and its description.
pub(super) fn list_facts(spec: &Spec) -> Vec<(&'static str, String)> {
    let points: Vec<String> = spec.specificities.iter().map(|value| words::number(*value)).collect();
    let mut facts = vec![
        ("Protects", format!("each {} in every private test set", words::unit(spec.unit))),
        ("Model", format!("the file with the SHA-256 {}", spec.model)),
        ("Classes", describe_classes(spec)),
        (
            "Histograms",
            format!(
                "{} of width {} in the logit of the score, for each class and for the rest",
                words::plural(spec.bins.count.into(), "bin"),
                words::number(spec.bins.width)
            ),
        ),
        (
            "Noise",
            format!(
                "z = {}: deviation {} in each number of a site's vector",
                words::number(spec.noise_multiplier.get()),
                words::number(spec.histograms().pooled_deviation(1))
            ),
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
    if let Some(columns) = &spec.columns {
        facts.push(("Columns", describe_columns(columns)));
    }
    if !points.is_empty() {
        facts.push(("Specificities", points.join(", ")));
    }
    if spec.accuracy {
        facts.push(("Accuracy", "also the share of units whose class is the model’s first choice".to_owned()));
    }
    facts
}

/// Describes the columns of a graph.
fn describe_columns(columns: &RowColumns) -> String {
    format!(
        "the graph predicts {} from {} ({}); at most {} of each unit",
        columns.target.name,
        words::plural(columns.features.len() as u64, "column"),
        words::plural(columns.inputs().into(), "input"),
        words::plural(columns.rows_per_unit.into(), "row"),
    )
}

fn describe_classes(spec: &Spec) -> String {
    let names: Vec<String> = spec.classes.iter().map(u32::to_string).collect();
    format!("{}, each against the rest", names.join(", "))
}

/// Returns the effects of an approval by the owner of a test set, sentence by sentence. Empty without a charge, which is
/// described elsewhere.
pub(super) fn describe_consent(spec: &Spec, dataset: DatasetId, charge: Option<&Charge>) -> Vec<String> {
    if charge.is_none() || spec.is_lead(dataset) {
        return Vec::new();
    }
    vec![
        format!(
            "One vector leaves your test set, once: for {}, histograms of the scores that the model gives it, with noise.",
            words::plural(spec.classes.len() as u64, "class").replace("classs", "classes")
        ),
        format!(
            "Each {} counts once in every histogram. Your site adds noise of deviation {} to each number before the \
             vector leaves.",
            words::unit(spec.unit),
            words::number(spec.histograms().pooled_deviation(1))
        ),
        "The model comes from the lead. Your site checks its digest before it reads your data, and runs no code of it."
            .to_owned(),
        "1 release is charged. Accuracy, AUROC, calibration and operating points are computed from the sum over the \
         sites, and cost nothing more."
            .to_owned(),
    ]
}
