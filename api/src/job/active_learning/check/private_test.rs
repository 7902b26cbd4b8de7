//! Limits of a private test set.

use undertone_privacy::PrivacyUnit;

use super::{check_classes, find};
use crate::dataset::{Dataset, DatasetContent, Visibility};
use crate::job::active_learning::{MOST_MEASUREMENTS, PrivateTest, Spec};
use crate::job::check::check_range;
use crate::job::evaluation::MOST_CLASSES;

/// The noise multipliers for which a site can draw noise exactly.
const NOISE: (f64, f64) = (1.0 / 1024.0, 1024.0);
/// The most results of one label in a report: a report has at most 1 MiB, and a result up to 8 KiB.
const MOST_RESULTS: u64 = 128;

/// Checks the private test set, if the job has one.
pub(super) fn check(spec: &Spec, datasets: &[Dataset], say: &mut impl FnMut(&str, String)) {
    let Some(test) = &spec.private_test else { return };
    let at = |field: &str| format!("private_test.{field}");
    check_range(say, &at("noise_multiplier"), test.noise_multiplier.get(), NOISE.0, NOISE.1);
    check_measurements(spec, test, say);
    let labels = spec.labels.len();
    if labels > MOST_CLASSES {
        let fewer = format!("a private test set measures at most {MOST_CLASSES} labels, not {labels}: name fewer");
        say("labels", fewer);
    }
    if spec.party(test.dataset).is_some() {
        let apart = "the test set is a dataset of its own, prepared from other rows than those that lead or ask";
        say(&at("dataset"), apart.to_owned());
    }
    let Some(dataset) = find(datasets, test.dataset) else {
        say(&at("dataset"), "no such dataset in this consortium".to_owned());
        return;
    };
    let name = &dataset.name;
    if dataset.content != DatasetContent::Queries {
        say(&at("dataset"), format!("`{name}` contains {}; measure on labelled queries", dataset.content.noun()));
    } else if dataset.visibility == Visibility::Public {
        say(&at("dataset"), format!("`{name}` is public and needs no noise: name it in `tests`"));
    } else {
        check_classes(spec, dataset, &at("dataset"), say);
        let is_kept_apart = dataset.keeps_apart(spec.unit);
        if matches!(spec.unit, PrivacyUnit::Record | PrivacyUnit::User) && !is_kept_apart {
            say("unit", format!("`{name}` does not keep these units apart; use a unit that it does"));
        }
    }
}

fn check_measurements(spec: &Spec, test: &PrivateTest, say: &mut impl FnMut(&str, String)) {
    let most = MOST_MEASUREMENTS.min(spec.rounds.saturating_add(1));
    let measurements = u64::from(test.measurements);
    let labels = spec.labels.len() as u64;
    check_range(say, "private_test.measurements", f64::from(test.measurements), 1.0, f64::from(most));
    if measurements <= u64::from(most) && measurements > 1 && measurements * labels > MOST_RESULTS {
        let fewer = format!(
            "with {labels} labels at most {}, not {measurements}: a report holds {MOST_RESULTS} results of a label",
            (MOST_RESULTS / labels).max(1)
        );
        say("private_test.measurements", fewer);
    }
}
