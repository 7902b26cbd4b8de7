//! One dataset: its gauges, its facts, its budget, the cost of each job, its ledger.

mod budget;
pub(super) mod history;
mod limit;

use std::collections::BTreeMap;

use leptos::prelude::*;
use undertone_api::budget::{Account, EntryKind, LedgerEntry, PromisedLimit};
use undertone_api::dataset::{Dataset, DatasetContent, Visibility};
use undertone_api::id::{DatasetId, JobId};
use undertone_api::page::PageQuery;
use undertone_api::problem::{Code, Problem};
use undertone_privacy::ledger::FilterKind;
use undertone_server_core::error::Error;
use undertone_server_core::service;

use super::certificate::{describe_adjacency, render_promises};
use super::ledger::{describe_event, render_rows};
use super::{list_newest_jobs, overlap, render_empty};
use crate::component::gauge::{Gauge, GaugeReading};
use crate::component::said::RelativeTime;
use crate::page_context::{PageContent, PageContext, PagePlace};
use crate::screen::render_page;
use crate::{path, standing, viewer, words};

/// The most pages of the ledger that are read for the composition by job.
const PAGES: usize = 25;

/// Renders the page.
pub(crate) fn dataset() -> AnyView {
    render_page(PagePlace::Datasets, async |context| {
        let consortium = context.consortium()?.id;
        let rule = context.consortium()?.overlap.overlap;
        let member = context.member()?;
        let id: DatasetId = context.id("dataset")?;
        let ctx = context.ctx();
        let actor = context.actor()?;
        let datasets = service::dataset::list(ctx, actor, consortium).await?;
        let dataset = datasets.iter().find(|dataset| dataset.id == id).cloned();
        let dataset = dataset.ok_or_else(|| {
            Problem::new(Code::NotFound, "There is no such dataset in this consortium, or you have no access to it.")
        })?;
        let shared = describe_shared_accounts(&dataset, &datasets);
        let public = dataset.visibility == Visibility::Public;
        let read = if public { Some((Vec::new(), true)) } else { read_entries(&context, id).await? };
        // A viewer without access to the rows sees the rest.
        let closed = read.is_none();
        let (entries, whole) = read.unwrap_or_default();
        let history = if public || closed {
            Vec::new()
        } else {
            let history = service::ledger::history(ctx, actor, id).await;
            history.map_err(Error::into_problem).unwrap_or_default()
        };
        let jobs = list_newest_jobs(&context, consortium).await?;
        let title = |job: JobId| jobs.iter().find(|known| known.id == job).map(|known| known.title.clone());
        let steward = viewer::stewards(member, dataset.organization);
        let freezes = service::freeze::list(ctx, actor, id).await?;
        let freeze = super::audit::render_freeze(consortium, &dataset, &freezes, steward, context.now);

        let gauges = if public {
            view! { <p class="headline">"Public: no budget is needed"</p> }.into_any()
        } else {
            let none = !dataset.accounts.iter().any(standing::budgeted);
            let without = match dataset.content {
                DatasetContent::Speech => "No budget is set; no job can train on it privately",
                DatasetContent::Queries => "No budget is set; no job can ask questions about it",
                DatasetContent::Recordings => "No budget is set; no job can have it transcribed by recognizers",
                DatasetContent::Table => "No budget is set; no job can query it",
            };
            let promises =
                |id| history.iter().find(|told| told.account == id).map_or(&[][..], |told| &told.promises[..]);
            let accounts = dataset.accounts.iter().map(|one| render_account(one, promises(one.id))).collect_view();
            view! {
                {none.then(|| view! { <p class="headline">{without}</p> })}
                {accounts}
                {shared.map(|shared| view! { <p class="hint">{shared}</p> })}
                <p class="hint">{overlap::describe_rule(rule)}" "<a href=format!("{}#overlap", path::overview(consortium))>"Source"</a></p>
            }
            .into_any()
        };
        let latest: Vec<_> = entries.iter().take(20).cloned().map(|entry| (dataset.name.clone(), entry)).collect();
        let job_title = |job: JobId| title(job).unwrap_or_else(|| format!("job {}", words::short(&job.to_string())));
        let over_time = history::render_section(&history, &dataset.name, &job_title, context.now);
        let limits = if !public && (steward || viewer::runs(member, dataset.organization)) {
            let limits = service::approval::limits(ctx, actor, id).await?;
            limit::render_section(consortium, &dataset, &limits, steward, context.now)
        } else {
            ().into_any()
        };
        let about = render_facts(&dataset, context.now);
        Ok(PageContent::new(
            dataset.name.clone(),
            view! {
                {freeze}
                {gauges}
                {(steward && !public).then(|| budget::render_forms(consortium, &dataset))}
                {limits}
                <section class="panel"><h2>"Properties"</h2>{about}</section>
                {over_time}
                {closed.then(|| view! { <p class="hint">"The ledger rows are visible to the owner's stewards, auditors and consortium admins."</p> })}
                {(!public && !closed).then(|| view! {
                    <section class="panel"><h2>"Cost by job"</h2>{render_composition(&entries, whole, consortium, title)}</section>
                    <section class="panel">
                        <div class="panel-head"><h2>"Ledger"</h2><a href=format!("{}?dataset={id}", path::ledger(consortium))>"All rows"</a></div>
                        {if latest.is_empty() { render_empty("No ledger rows yet.", ()) } else { render_rows(&latest, consortium, &title, context.now) }}
                    </section>
                })}
            },
        ))
    })
}

/// Names the datasets that are charged to the same accounts; `None` if there are no others.
fn describe_shared_accounts(dataset: &Dataset, all: &[Dataset]) -> Option<String> {
    let same = |other: &&Dataset| {
        (other.organization, other.lineage) == (dataset.organization, dataset.lineage) && other.id != dataset.id
    };
    let names: Vec<&str> = all.iter().filter(same).map(|other| other.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!("Shares its accounts with {}: the owner's sites report the same data or people.", names.join(", "))
    })
}

/// Renders an account: its gauge, its promises, and its releases in the clear.
fn render_account(account: &Account, promises: &[PromisedLimit]) -> AnyView {
    let has_budget = standing::budgeted(account);
    let each = words::each(account.unit);
    let title = if has_budget { format!("Budget for {each}") } else { format!("No budget for {each}") };
    view! {
        <section class="panel"><h2>{title}</h2>
            {has_budget.then(|| view! { <Gauge reading=GaugeReading::from(account)/> })}
            {render_promises(promises)}
            {(account.filter == FilterKind::Gaussian).then(|| view! {
                <p class="hint">"Gaussian filter: each job is charged as a whole with its first release, and nothing is returned when it stops early."</p>
            })}
            {(account.released_in_the_clear > 0).then(|| view! {
                <p class="in-the-clear">{format!(
                    "Also {}, because the owner opened the dataset for a comparison. No ε covers them.",
                    words::plural(account.released_in_the_clear, "exact release")
                )}</p>
            })}
            {account.uncovered.iter().filter(|_| has_budget).map(|known| view! {
                <p class="bad-text">{format!(
                    "Not covered: {} of {} that protect {}, made before every job was charged to this limit. The limit bounds every other release.",
                    words::plural(known.releases, "release"),
                    words::plural(known.jobs, "job"),
                    words::each(known.unit)
                )}</p>
            }).collect_view()}
            <p class="hint">{words::unit_meaning(account.unit)}" "{describe_adjacency(account.adjacency, account.unit)}</p>
        </section>
    }
    .into_any()
}

/// Returns the dataset's rows, newest first, and whether these are all; `None` without access to them.
async fn read_entries(context: &PageContext, id: DatasetId) -> Result<Option<(Vec<LedgerEntry>, bool)>, Problem> {
    let mut all = Vec::new();
    let mut query = PageQuery { cursor: None, limit: Some(PageQuery::MAX) };
    for _ in 0..PAGES {
        let page = match service::ledger::entries(context.ctx(), context.actor()?, id, &query).await {
            Err(error) if error.code() == Code::Forbidden => return Ok(None),
            page => page?,
        };
        all.extend(page.items);
        if page.next.is_none() {
            return Ok(Some((all, true)));
        }
        query.cursor = page.next;
    }
    Ok(Some((all, false)))
}

fn render_facts(dataset: &Dataset, now: time::OffsetDateTime) -> AnyView {
    let rough = |count: u64| if count == 0 { "none".to_owned() } else { format!("about {}", words::count(count)) };
    let speech = dataset.content == DatasetContent::Speech;
    let records = match dataset.content {
        DatasetContent::Speech | DatasetContent::Recordings => "Recordings",
        DatasetContent::Queries => "Rows of the query log",
        DatasetContent::Table => "Rows",
    };
    let transcribed = dataset.content == DatasetContent::Recordings;
    let is_table = dataset.content == DatasetContent::Table;
    let records_label = match dataset.content {
        DatasetContent::Recordings => format!("{records} to transcribe"),
        DatasetContent::Table => records.to_owned(),
        DatasetContent::Speech | DatasetContent::Queries => format!("{records} to train on"),
    };
    let classes = words::count(dataset.classes.into());
    let content_fact = match (dataset.content, dataset.classes) {
        (DatasetContent::Speech, _) => Some(("Frames", format!("{} coefficients, {classes} classes", dataset.inputs))),
        // Whether a private log has labels is not public.
        (DatasetContent::Queries, 0) | (DatasetContent::Recordings, _) => None,
        (DatasetContent::Queries, _) => Some(("Labels", classes)),
        (DatasetContent::Table, _) => dataset.table.as_ref().map(|table| {
            let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
            ("Columns", names.join(", "))
        }),
    };
    let encoder = dataset.table.as_ref().and_then(|table| table.encoder.clone());
    view! {
        <dl class="facts">
            <div><dt>"Owner"</dt><dd>{dataset.organization_name.clone()}</dd></div>
            <div><dt>"Visibility"</dt><dd>{words::visibility(dataset.visibility)}". "{words::visibility_meaning(dataset.visibility)}</dd></div>
            {speech.then(|| view! { <div><dt>"Speakers"</dt><dd>{rough(dataset.speakers.0)}</dd></div> })}
            {dataset.users.map(|users| view! { <div><dt>"Users, by the owner's ids"</dt><dd>{rough(users.0)}</dd></div> })}
            <div><dt>{records_label}</dt><dd>{rough(dataset.records.0)}</dd></div>
            {dataset.seconds.map(|seconds| view! { <div><dt>"Total length"</dt><dd>{format!("about {}", words::duration(seconds.0 as f64))}</dd></div> })}
            {(!transcribed && !is_table).then(|| view! { <div><dt>{format!("{records} held out")}</dt><dd>{rough(dataset.test_records)}</dd></div> })}
            {content_fact.map(|(term, said)| view! { <div><dt>{term}</dt><dd>{said}</dd></div> })}
            {encoder.map(|digest| view! { <div><dt>"Encoder"</dt><dd><code>{digest}</code></dd></div> })}
            <div><dt>"Registered"</dt><dd><RelativeTime at=dataset.created_at now/></dd></div>
        </dl>
        <p class="hint">"Sizes are size classes only: 1, 2 or 5 times a power of ten. Exact sizes would be a release."</p>
    }
    .into_any()
}

/// Renders releases by job and event: reserved, charged, returned.
fn render_composition(
    entries: &[LedgerEntry],
    whole: bool,
    consortium: undertone_api::id::ConsortiumId,
    title: impl Fn(JobId) -> Option<String>,
) -> AnyView {
    let mut sums: BTreeMap<(JobId, String), [u64; 3]> = BTreeMap::new();
    for entry in entries {
        let sum = sums.entry((entry.job, describe_event(&entry.event))).or_default();
        let place = match entry.kind {
            EntryKind::Reserve => 0,
            EntryKind::Commit => 1,
            EntryKind::Settle => 2,
        };
        sum[place] += entry.count;
    }
    if sums.is_empty() {
        return render_empty("No job has used it.", ());
    }
    let rows = sums.into_iter().rev().map(|((job, event), [reserved, paid, back])| {
        let name = title(job).unwrap_or_else(|| format!("job {}", words::short(&job.to_string())));
        view! {
            <tr>
                <th scope="row"><a href=path::job(consortium, job)>{name}</a></th>
                <td data-label="releases of">{event}</td>
                <td data-label="reserved" class="number">{words::count(reserved)}</td>
                <td data-label="paid" class="number">{words::count(paid)}</td>
                <td data-label="given back" class="number">{words::count(back)}</td>
            </tr>
        }
    });
    view! {
        <table class="cards">
            <thead><tr>
                <th scope="col">"Job"</th><th scope="col">"Releases of"</th>
                <th scope="col" class="number">"Reserved"</th><th scope="col" class="number">"Paid"</th><th scope="col" class="number">"Given back"</th>
            </tr></thead>
            <tbody>{rows.collect_view()}</tbody>
        </table>
        {(!whole).then(|| view! { <p class="hint">{format!("From the newest {} ledger rows; there are more.", words::count(entries.len() as u64))}</p> })}
    }
    .into_any()
}

#[cfg(all(test, feature = "ssr"))]
mod tests {
    use super::describe_shared_accounts;
    use crate::testing::example::datasets;

    #[test]
    fn datasets_of_one_lineage_name_each_other() {
        let mut all = datasets();
        assert_eq!(describe_shared_accounts(&all[1], &all), None);
        (all[2].organization, all[2].lineage) = (all[1].organization, all[1].lineage);
        let shared = describe_shared_accounts(&all[1], &all).expect("there is another account");
        assert!(shared.contains(&all[2].name) && !shared.contains(&all[1].name), "{shared}");
        // The same id at another organization is another lineage.
        all[2].organization = all[0].organization;
        assert_eq!(describe_shared_accounts(&all[1], &all).is_some(), all[0].organization == all[1].organization);
    }
}
