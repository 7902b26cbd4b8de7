//! The pages. Each is a function that queries the server and renders the answers; none makes decisions.

mod account;
mod accounts;
mod audit;
mod audit_log;
mod certificate;
mod compare;
mod dataset;
mod datasets;
mod draft;
mod drafts;
mod enter;
mod job;
mod job_log;
mod jobs;
mod keys;
mod ledger;
mod model;
mod model_comparison;
mod models;
mod notifications;
mod organization;
mod organizations;
mod overlap;
mod overview;
mod period;
mod plan;
mod provider;
mod questions;
mod report;
mod review;
mod thresholds;

use leptos::prelude::*;
use leptos_router::params::ParamsMap;
use undertone_api::id::ConsortiumId;
use undertone_api::job::JobSummary;
use undertone_api::page::PageQuery;
use undertone_server_core::service;

pub(crate) use account::{security, settings};
pub(crate) use accounts::accounts;
pub(crate) use audit_log::{consortium_log, organization_log, server_log};
pub(crate) use certificate::certificate;
pub(crate) use compare::compare;
pub(crate) use dataset::dataset;
pub(crate) use datasets::datasets;
pub(crate) use draft::draft;
pub use enter::{OfferedAccount, offer_accounts};
pub(crate) use enter::{accept, home, new_consortium, reset, second_factor, sign_in};
pub(crate) use job::job;
pub(crate) use job_log::job_log;
pub(crate) use jobs::jobs;
pub(crate) use keys::keys;
pub(crate) use ledger::{ledger, ledger_row};
pub(crate) use model::model;
pub(crate) use model_comparison::model_comparison;
pub(crate) use models::models;
pub(crate) use notifications::notifications;
pub(crate) use organization::organization;
pub(crate) use organizations::organizations;
pub(crate) use overview::overview;
pub(crate) use plan::plan;
pub(crate) use questions::{annotate, questions};
pub use report::document as report_document;
pub(crate) use report::report;
pub(crate) use review::review;
pub(crate) use thresholds::thresholds;

use crate::page_context::{PageContent, PageContext, PagePlace};
use crate::request::Answer;
use crate::screen::render_page_with;

/// Renders the page for an unknown address.
pub(crate) fn missing_page() -> AnyView {
    render_page_with(PagePlace::Outside, ParamsMap::new(), async |_| {
        use undertone_api::problem::{Code, Problem};
        Err::<PageContent, _>(Problem::new(Code::NotFound, "There is no page at this address."))
    })
}

/// Returns the newest jobs of a consortium, as many as one answer contains.
async fn list_newest_jobs(context: &PageContext, consortium: ConsortiumId) -> Answer<Vec<JobSummary>> {
    let page = PageQuery { cursor: None, limit: Some(PageQuery::MAX) };
    Ok(service::job::list(context.ctx(), context.actor()?, consortium, &page).await?.items)
}

/// Renders an empty list: its purpose, and the next step.
fn render_empty(text: &'static str, then: impl IntoAny) -> AnyView {
    view! { <div class="empty"><p>{text}</p>{then.into_any()}</div> }.into_any()
}

#[cfg(test)]
mod tests;
