//! The parts of a card that a classifier of queries has in its own words.

use undertone_api::job::active_learning::{Classifier, Encoder};

/// The limits of a classifier.
pub(super) const LIMITS: &str = "## Limits\n\n\
     * The figures hold for the listed test sets. Queries of other sources or times were not measured.\n\
     * Rare labels have few answered questions. Queries below the threshold of the releases were never asked about.\n\
     * The guarantee of privacy covers the model file. It does not cover the queries that a user gives to the model.\n";

/// Describes the layers of a classifier in words.
pub(super) fn describe_layers(settings: &Classifier, labels: usize) -> String {
    let Classifier { buckets, embedding, hidden, .. } = settings;
    let encoder = match settings.encoder {
        Encoder::Bag => format!("their mean, a dense layer of {hidden} units"),
        Encoder::Lstm => format!("an LSTM of {hidden} units over the words"),
    };
    format!("an embedding of {buckets} vectors of {embedding} numbers for n-grams, {encoder}, {labels} labels")
}

/// Describes what a classifier is for.
pub(super) fn render_uses(labels: &[String]) -> String {
    let labels: Vec<String> = labels.iter().map(|label| format!("`{}`", label.replace('`', "'"))).collect();
    format!(
        "## Intended use\n\n\
         The model gives a query one of the labels {}, with a probability. It is meant for queries like those of its training \
         data. Its labels alone are no basis for decisions about persons.",
        labels.join(", ")
    )
}
