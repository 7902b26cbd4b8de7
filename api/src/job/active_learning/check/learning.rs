//! Limits of the classifier, of the selection of questions, and of the rehearsal.

use crate::job::active_learning::{Acquisition, Aggregation, Rehearsal, Spec};
use crate::job::check::{check_positive, check_range};

/// The most numbers in the embedding table.
const MAX_TABLE: u64 = 1 << 26;

/// Checks the lead's part.
pub(super) fn check(spec: &Spec, say: &mut impl FnMut(&str, String)) {
    check_range(say, "golden", f64::from(spec.golden), 1.0, 1e6);
    let of = spec.classifier;
    check_range(say, "classifier.buckets", f64::from(of.buckets), 256.0, 1_048_576.0);
    check_range(say, "classifier.embedding", f64::from(of.embedding), 1.0, 1024.0);
    let table = u64::from(of.buckets) * u64::from(of.embedding);
    if table > MAX_TABLE && of.buckets <= 1_048_576 && of.embedding <= 1024 {
        say(
            "classifier.buckets",
            format!("with the embedding {table} numbers, more than {MAX_TABLE}: make one of them smaller"),
        );
    }
    check_range(say, "classifier.hidden", f64::from(of.hidden), 1.0, 2048.0);
    check_range(say, "classifier.dropout", of.dropout, 0.0, 0.9);
    check_range(say, "classifier.passes", f64::from(of.passes), 1.0, 1000.0);
    check_range(say, "classifier.epochs", f64::from(of.epochs), 1.0, 1000.0);
    check_range(say, "classifier.batch", f64::from(of.batch), 1.0, 4096.0);
    check_positive(say, "classifier.learning_rate", of.learning_rate, 1.0);
    if spec.acquisition == Acquisition::Bald && (of.dropout == 0.0 || of.passes < 2) {
        let needs = "`bald` asks where passes disagree: use a dropout above 0 and at least 2 passes, or `entropy`";
        say("acquisition", needs.to_owned());
    }
    if spec.aggregation == Aggregation::DawidSkene && spec.annotators < 2 {
        let needs = "`dawid_skene` compares annotators: ask at least 2 for each question, or use `majority`";
        say("aggregation", needs.to_owned());
    }
    if let Some(rehearsal) = &spec.rehearsal {
        check_rehearsal(rehearsal, say);
    }
}

fn check_rehearsal(rehearsal: &Rehearsal, say: &mut impl FnMut(&str, String)) {
    let ascending = |values: &mut dyn Iterator<Item = f64>| {
        let values: Vec<f64> = values.collect();
        (1..=10).contains(&values.len()) && values.windows(2).all(|pair| pair[0] < pair[1])
    };
    let rates = &rehearsal.rates;
    if !ascending(&mut rates.iter().copied()) || !rates.iter().all(|rate| *rate > 0.0 && *rate < 1.0) {
        let range = "1 to 10 rates above 0 and below 1, ascending; 1 is tried beside them";
        say("rehearsal.rates", range.to_owned());
    }
    let thresholds = &rehearsal.thresholds;
    let fits = |threshold: &u32| (1..=100_000).contains(threshold);
    if !ascending(&mut thresholds.iter().map(|k| f64::from(*k))) || !thresholds.iter().all(fits) {
        say("rehearsal.thresholds", "1 to 10 thresholds from 1 to 100000, ascending".to_owned());
    }
    check_range(say, "rehearsal.questions", f64::from(rehearsal.questions), 1.0, 100_000.0);
    check_range(say, "rehearsal.repeats", f64::from(rehearsal.repeats), 1.0, 20.0);
    check_positive(say, "rehearsal.annotator_accuracy", rehearsal.annotator_accuracy, 1.0);
    check_range(say, "rehearsal.annotator_deviation", rehearsal.annotator_deviation, 0.0, 0.5);
}
