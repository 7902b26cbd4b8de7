//! Two models side by side: quality on shared test sets with intervals, privacy cost, and the data and settings that
//! differ.

use leptos::prelude::*;
use undertone_api::id::ArtifactId;
use undertone_api::model::record::{ModelComparison, PrivacyDifference, QualityDifference, SettingDifference};
use undertone_api::signed::certificate::LineageSum;
use undertone_server_core::service;

use super::render_empty;
use crate::page_context::{PageContent, PagePlace};
use crate::screen::render_page;
use crate::{path, words};

/// Renders the page.
pub(crate) fn model_comparison() -> AnyView {
    render_page(PagePlace::Models, async |context| {
        let consortium = context.consortium()?.id;
        let first: ArtifactId = context.id("model")?;
        let second: ArtifactId = context.id("other")?;
        let comparison = service::model::compare(context.ctx(), context.actor()?, first, second).await?;
        let ModelComparison { first, second, quality, privacy, settings } = &comparison;
        let body = view! {
            <p class="lead">
                <a href=path::model(consortium, first.file.id)>{format!("{}, version {}", first.job.title, first.version)}</a>" and "
                <a href=path::model(consortium, second.file.id)>{format!("{}, version {}", second.job.title, second.version)}</a>
            </p>
            {render_quality(quality)}
            {render_privacy(privacy)}
            {render_settings(settings)}
        };
        Ok(PageContent::new("Compare two models", body))
    })
}

fn render_quality(quality: &[QualityDifference]) -> AnyView {
    if quality.is_empty() {
        return render_empty("These models were not measured on the same test set.", ());
    }
    let cell = |value: f64, low: f64, high: f64| {
        format!("{} ({} to {})", words::percent(value), words::percent(low), words::percent(high))
    };
    let rows = quality.iter().map(|one| {
        let verdict = match (one.is_distinct(), one.difference > 0.0) {
            (false, _) => "no clear difference",
            (true, true) => "the second is better",
            (true, false) => "the first is better",
        };
        view! {
            <tr>
                <th scope="row">{format!("{}, {}", one.first.test, one.first.metric)}</th>
                <td data-label="first" class="number">{cell(one.first.value, one.first.low, one.first.high)}</td>
                <td data-label="second" class="number">{cell(one.second.value, one.second.low, one.second.high)}</td>
                <td data-label="difference" class="number">{format!(
                    "{} ({} to {})",
                    words::points(one.difference),
                    words::points(one.low),
                    words::points(one.high)
                )}</td>
                <td data-label="verdict">{verdict}</td>
            </tr>
        }
    });
    view! {
        <section class="panel"><h2>"Quality"</h2>
            <table class="cards">
                <thead><tr><th scope="col">"Test set"</th><th scope="col" class="number">"First"</th><th scope="col" class="number">"Second"</th><th scope="col" class="number">"Difference"</th><th scope="col">"Verdict"</th></tr></thead>
                <tbody>{rows.collect_view()}</tbody>
            </table>
            <p class="hint">"In parentheses: 95 % intervals. That of the difference treats both figures as independent."</p>
        </section>
    }
    .into_any()
}

fn render_privacy(privacy: &[PrivacyDifference]) -> AnyView {
    let cell = |sum: Option<&LineageSum>| match sum.map(|sum| sum.figure.and_then(|figure| figure.epsilon)) {
        None => "not charged".to_owned(),
        Some(None) => "–".to_owned(),
        Some(Some(epsilon)) => words::epsilon(epsilon),
    };
    let rows = privacy.iter().filter_map(|one| {
        let sum = one.first.as_ref().or(one.second.as_ref())?;
        let name = format!("{}, {}, {}", sum.organization_name, sum.dataset_names.join(", "), words::any_one(sum.unit));
        Some(view! {
            <tr>
                <th scope="row">{name}</th>
                <td data-label="first" class="number">{cell(one.first.as_ref())}</td>
                <td data-label="second" class="number">{cell(one.second.as_ref())}</td>
            </tr>
        })
    });
    let rows = rows.collect_view();
    if rows.is_empty() {
        return view! { <section class="panel"><h2>"Privacy cost"</h2><p>"Neither model charged an account."</p></section> }.into_any();
    }
    view! {
        <section class="panel"><h2>"Privacy cost"</h2>
            <table class="cards">
                <thead><tr><th scope="col">"Account"</th><th scope="col" class="number">"ε of the first"</th><th scope="col" class="number">"ε of the second"</th></tr></thead>
                <tbody>{rows}</tbody>
            </table>
        </section>
    }
    .into_any()
}

fn render_settings(settings: &[SettingDifference]) -> AnyView {
    if settings.is_empty() {
        return view! { <section class="panel"><h2>"Data and settings"</h2><p>"They are identical."</p></section> }
            .into_any();
    }
    let cell = |value: &Option<String>| value.clone().unwrap_or_else(|| "–".to_owned());
    let rows = settings.iter().map(|one| {
        view! {
            <tr>
                <th scope="row"><code>{one.field.clone()}</code></th>
                <td data-label="first">{cell(&one.first)}</td>
                <td data-label="second">{cell(&one.second)}</td>
            </tr>
        }
    });
    view! {
        <section class="panel"><h2>"Data and settings"</h2>
            <div class="scroll" tabindex="0" role="region" aria-label="Data and settings">
                <table class="cards dense">
                    <thead><tr><th scope="col">"Field"</th><th scope="col">"First"</th><th scope="col">"Second"</th></tr></thead>
                    <tbody>{rows.collect_view()}</tbody>
                </table>
            </div>
        </section>
    }
    .into_any()
}
