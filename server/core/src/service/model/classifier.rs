//! The measured quality of a classifier of queries, from the report of its job.

use undertone_api::job::Report;
use undertone_api::job::active_learning::{self, LearningPoint, PrivateTestResult};
use undertone_api::model::record::{ModelQuality, QualityOrigin};
use undertone_api::report::ReportFile;

/// Returns the figures of the classifier that a job kept: the lead's on public test sets, and those that the private test
/// set released.
pub(super) fn quality(spec: &active_learning::Spec, report: &ReportFile) -> Vec<ModelQuality> {
    let Some(Report::ActiveLearning(outcome)) = &report.outcome else { return Vec::new() };
    let kept = outcome.learning.iter().find(|point| Some(point.round) == outcome.best).or(outcome.learning.last());
    let Some(point) = kept else { return Vec::new() };
    let mut quality = public_figures(spec, report, point);
    if let (Some(test), Some(result)) = (&spec.private_test, &point.private_test) {
        let named = report.datasets.iter().find(|used| used.dataset == test.dataset);
        let name = named.map(|used| format!("{} of {}", used.name, used.organization_name)).unwrap_or_default();
        let base = ModelQuality {
            origin: QualityOrigin::Evaluation,
            job: report.job.id,
            title: report.job.title.clone(),
            test: name,
            test_key: format!("{} in active learning", test.dataset),
            metric: String::new(),
            value: 0.0,
            low: 0.0,
            high: 1.0,
            frames: None,
        };
        quality.extend(private_figures(spec, result, &base));
    }
    quality
}

fn public_figures(spec: &active_learning::Spec, report: &ReportFile, point: &LearningPoint) -> Vec<ModelQuality> {
    let figures = point.tests.iter().filter_map(|result| {
        let test = spec.tests.iter().find(|test| test.name == result.name)?;
        let (low, high) = ModelQuality::wilson_interval(result.accuracy, result.examples);
        Some(ModelQuality {
            origin: QualityOrigin::Training,
            job: report.job.id,
            title: report.job.title.clone(),
            test: result.name.clone(),
            test_key: test.dataset.to_string(),
            metric: "accuracy".to_owned(),
            value: result.accuracy,
            low,
            high,
            frames: Some(result.examples),
        })
    });
    figures.collect()
}

fn private_figures(spec: &active_learning::Spec, result: &PrivateTestResult, base: &ModelQuality) -> Vec<ModelQuality> {
    let figure =
        |metric: String, value: f64, low: f64, high: f64| ModelQuality { metric, value, low, high, ..base.clone() };
    let accuracy = result.accuracy.iter().map(|own| figure("accuracy".to_owned(), own.value, own.low, own.high));
    let classes = result.classes.iter().filter_map(|class| {
        let auroc = class.metrics.as_ref()?.auroc;
        let label = spec.labels.get(class.class as usize)?;
        Some(figure(format!("auroc of {}", label.name), auroc.value, auroc.low, auroc.high))
    });
    accuracy.chain(classes).collect()
}
