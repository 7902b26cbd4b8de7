//! The result: the metrics of every class with their 95 % intervals, and the scores beside the rates.

use leptos::prelude::*;
use undertone_api::job::evaluation::{ClassMetrics, ClassResult, MetricEstimate, Report};

use crate::words;

/// Returns the result in a sentence.
#[cfg(feature = "ssr")]
pub(super) fn summarize(report: &Report) -> String {
    let metrics = report.classes.iter().find_map(|class| Some((class.class, class.metrics.as_ref()?)));
    let sites = words::plural(report.sites.into(), "site");
    match metrics {
        Some((class, metrics)) => {
            format!("AUROC {} for class {class}, at {sites} together.", format_estimate(&metrics.auroc))
        }
        None => format!("The test sets of {sites} are too small for the noise."),
    }
}

/// Formats an estimate: `0.912 (0.903 to 0.921)`.
pub(in crate::kind) fn format_estimate(estimate: &MetricEstimate) -> String {
    format!("{:.3} ({:.3} to {:.3})", estimate.value, estimate.low, estimate.high)
}

/// Renders the metrics of all classes.
pub(super) fn render_result(report: &Report) -> AnyView {
    let accuracy = report.accuracy.as_ref().map(|accuracy| {
        let text = format!("The model’s first choice is right for {} of the units.", format_estimate(accuracy));
        view! { <p>{text}</p> }
    });
    let note = format!(
        "The noisy histograms of {} together, with noise of deviation {} in each number of their sum. Intervals hold for \
         95 % of repetitions with other test data and other noise.",
        words::plural(report.sites.into(), "site"),
        words::number(report.deviation)
    );
    view! {
        {accuracy}
        {render_classes(&report.classes, ("Class", "class"), &|class| class.to_string())}
        <p class="hint">{note}</p>
        <p class="quiet">"Model "<code>{report.model.clone()}</code></p>
    }
    .into_any()
}

/// Renders the metrics of each class. `title` and `noun` are its word in a column's head and in a sentence.
pub(in crate::kind) fn render_classes(
    classes: &[ClassResult],
    (title, noun): (&'static str, &'static str),
    name: &dyn Fn(u32) -> String,
) -> AnyView {
    let rows = classes.iter().map(|class| render_class(class, name(class.class))).collect_view();
    let details = classes
        .iter()
        .filter_map(|class| Some(render_details(noun, &name(class.class), class.metrics.as_ref()?)))
        .collect_view();
    view! {
        <table class="cards">
            <caption>{format!("Each {noun} against the rest, with 95 % intervals")}</caption>
            <thead>
                <tr>
                    <th scope="col">{title}</th>
                    <th scope="col" class="number">"Units"</th>
                    <th scope="col" class="number">"AUROC"</th>
                    <th scope="col" class="number">"PR-AUC"</th>
                    <th scope="col" class="number">"Accuracy at ½"</th>
                    <th scope="col" class="number">"Calibration error"</th>
                </tr>
            </thead>
            <tbody>{rows}</tbody>
        </table>
        {details}
    }
    .into_any()
}

fn render_class(class: &ClassResult, name: String) -> AnyView {
    let Some(metrics) = &class.metrics else {
        let problem = class.problem.clone().unwrap_or_else(|| "no metrics".to_owned());
        return view! { <tr><th scope="row">{name}</th><td colspan="5">{problem}</td></tr> }.into_any();
    };
    let units = format!("{:.0} of {:.0}", metrics.positives, metrics.positives + metrics.negatives);
    let area = metrics.pr_auc.as_ref().map_or_else(|| "–".to_owned(), format_estimate);
    view! {
        <tr>
            <th scope="row">{name}</th>
            <td data-label="units" class="number">{units}</td>
            <td data-label="AUROC" class="number">{format_estimate(&metrics.auroc)}</td>
            <td data-label="PR-AUC" class="number">{area}</td>
            <td data-label="accuracy" class="number">{format_estimate(&metrics.accuracy)}</td>
            <td data-label="calibration error" class="number">{format_estimate(&metrics.calibration_error)}</td>
        </tr>
    }
    .into_any()
}

/// Renders the operating points and the calibration of a class.
fn render_details(noun: &str, name: &str, metrics: &ClassMetrics) -> AnyView {
    let points = metrics.operating_points.iter().map(|point| {
        view! {
            <tr>
                <th scope="row" class="number">{words::number(point.specificity)}</th>
                <td class="number">{format!("{:.3}", point.threshold)}</td>
                <td class="number">{format_estimate(&point.sensitivity)}</td>
            </tr>
        }
    });
    let groups = metrics.calibration.iter().map(|group| {
        view! {
            <tr>
                <th scope="row" class="number">{format!("{:.3} to {:.3}", group.from, group.to)}</th>
                <td class="number">{format!("{:.0}", group.units)}</td>
                <td class="number">{format!("{:.3}", group.score)}</td>
                <td class="number">{format_estimate(&group.rate)}</td>
            </tr>
        }
    });
    view! {
        <details>
            <summary>{format!("Operating points and calibration of {noun} {name}")}</summary>
            <table class="dense">
                <caption>"Sensitivity by specificity"</caption>
                <thead><tr><th scope="col" class="number">"Specificity"</th><th scope="col" class="number">"Threshold"</th><th scope="col" class="number">"Sensitivity"</th></tr></thead>
                <tbody>{points.collect_view()}</tbody>
            </table>
            <table class="dense">
                <caption>"Scores and rates"</caption>
                <thead><tr><th scope="col" class="number">"Scores"</th><th scope="col" class="number">"Units"</th><th scope="col" class="number">"Mean score"</th><th scope="col" class="number">"Rate"</th></tr></thead>
                <tbody>{groups.collect_view()}</tbody>
            </table>
        </details>
    }
    .into_any()
}
