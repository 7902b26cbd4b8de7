//! The ledger: every reservation, charge and return, with receipts and the hash chain; filtered by dataset, job, kind
//! and time.

mod row;

use leptos::prelude::*;
use std::fmt::Write as _;
use time::OffsetDateTime;
use undertone_api::budget::{EntryKind, LedgerEntry};
use undertone_api::dataset::{Dataset, Visibility};
use undertone_api::id::{ConsortiumId, DatasetId, JobId};
use undertone_api::job::JobSummary;
use undertone_api::ledger::EntryFilter;
use undertone_api::page::PageQuery;
use undertone_api::problem::{Code, Problem, Violation};
use undertone_privacy::Event;
use undertone_server_core::service;

use super::period::parse_period;
use super::{list_newest_jobs, render_empty};
use crate::component::said::{Digest, RelativeTime};
use crate::page_context::{PageContent, PageContext, PagePlace};
use crate::screen::render_page;
use crate::{path, words};

pub(crate) use row::row as ledger_row;

/// Renders the rows of one dataset, or the newest of all.
pub(crate) fn ledger() -> AnyView {
    render_page(PagePlace::Ledger, async |context| {
        let consortium = context.consortium()?.id;
        context.member()?;
        let query = crate::query::parse::<LedgerQuery>(&context.query).unwrap_or_default();
        let (dataset, filter) = query.parse()?;
        let all = service::dataset::list(context.ctx(), context.actor()?, consortium).await?;
        let datasets: Vec<_> = all.iter().filter(|d| d.visibility != Visibility::Public).cloned().collect();
        let jobs = list_newest_jobs(&context, consortium).await?;
        let title = |job: JobId| jobs.iter().find(|known| known.id == job).map(|known| known.title.clone());
        let LedgerRows { rows: entries, closed, next } = match dataset {
            Some(dataset) => read_dataset_rows(&context, &datasets, dataset, filter, query.cursor.clone()).await?,
            None => read_newest_rows(&context, consortium, &all, filter).await?,
        };
        let here = path::ledger(consortium);
        let bundle = path::ledger_file(consortium);
        let filter_form = render_filters(&query, &datasets, &jobs, &here);
        let rest = query.to_suffix();
        let list = if entries.is_empty() {
            render_empty(
                if query.is_empty() {
                    "Rows appear when a job reserves its worst case, charges a release, or returns the unused reservation."
                } else {
                    "No matching rows. Change the filter."
                },
                (),
            )
        } else {
            render_rows(&entries, consortium, &title, context.now)
        };
        Ok(PageContent::new(
            "Ledger",
            view! {
                <p class="lead">"Rows are never changed or deleted. Every charge includes the hash of a receipt that the site signed before the release left; every row includes the hash of all earlier rows."</p>
                {filter_form}
                {list}
                {next.map(|(dataset, cursor)| view! { <p><a rel="next" href=format!("{here}?dataset={dataset}{rest}&cursor={cursor}")>"Older rows"</a></p> })}
                {(closed > 0).then(|| view! { <p class="hint">{format!("You have no access to the rows of {}.", words::plural(closed, "dataset"))}</p> })}
                <section class="panel"><h2>"Verify offline"</h2>
                    <p>"The bundle contains every row visible to you, with receipts, keys, manifests and the server's log. Verifying it needs no access to this server and no trust in it."</p>
                    <p class="take"><a href=bundle download>"Download the bundle"</a></p>
                    <p><code>"undertone-server verify --bundle FILE"</code></p>
                </section>
            },
        ))
    })
}

/// The number of rows of all datasets together.
const NEWEST_ROWS: u64 = 50;

/// Rows with the names of their datasets, the number of datasets hidden from the viewer, and the cursor of older rows.
struct LedgerRows {
    rows: Vec<(String, LedgerEntry)>,
    closed: u64,
    next: Option<(DatasetId, String)>,
}

/// Returns the rows of one dataset, from a cursor on.
async fn read_dataset_rows(
    context: &PageContext,
    datasets: &[Dataset],
    chosen: DatasetId,
    wanted: EntryFilter,
    cursor: Option<String>,
) -> Result<LedgerRows, Problem> {
    let none = |closed| LedgerRows { rows: Vec::new(), closed, next: None };
    let Some(dataset) = datasets.iter().find(|dataset| dataset.id == chosen) else { return Ok(none(0)) };
    let page = PageQuery { cursor, limit: Some(50) };
    match service::ledger::search(context.ctx(), context.actor()?, chosen, &wanted, &page).await {
        Ok(page) => Ok(LedgerRows {
            rows: page.items.into_iter().map(|entry| (dataset.name.clone(), entry)).collect(),
            closed: 0,
            next: page.next.map(|cursor| (chosen, cursor)),
        }),
        // Another organization's rows may be hidden from the viewer.
        Err(error) if matches!(error.code(), Code::Forbidden | Code::NotFound) => Ok(none(1)),
        Err(error) => Err(error.into_problem()),
    }
}

/// Returns the newest rows of all datasets.
async fn read_newest_rows(
    context: &PageContext,
    consortium: ConsortiumId,
    datasets: &[Dataset],
    wanted: EntryFilter,
) -> Result<LedgerRows, Problem> {
    let newest = service::ledger::newest(context.ctx(), context.actor()?, consortium, &wanted, NEWEST_ROWS).await?;
    let name = |id| datasets.iter().find(|dataset| dataset.id == id).map(|dataset| dataset.name.clone());
    Ok(LedgerRows {
        rows: newest.rows.into_iter().map(|(id, entry)| (name(id).unwrap_or_default(), entry)).collect(),
        closed: newest.closed as u64,
        next: None,
    })
}

/// The form's filters: an empty field is no filter.
#[derive(Default, serde::Deserialize)]
struct LedgerQuery {
    #[serde(default)]
    dataset: String,
    #[serde(default)]
    job: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    since: String,
    #[serde(default)]
    until: String,
    cursor: Option<String>,
}

impl LedgerQuery {
    const fn is_empty(&self) -> bool {
        self.dataset.is_empty()
            && self.job.is_empty()
            && self.kind.is_empty()
            && self.since.is_empty()
            && self.until.is_empty()
    }

    /// Parses the dataset and the filter.
    fn parse(&self) -> Result<(Option<DatasetId>, EntryFilter), Problem> {
        let mut violations = Vec::new();
        let mut wrong = |field: &str, message: &str| violations.push(Violation::new(field, message));
        let filled = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let dataset = filled(&self.dataset)
            .and_then(|id| id.parse().map_err(|_| wrong("dataset", "choose one from the list")).ok());
        let job =
            filled(&self.job).and_then(|id| id.parse().map_err(|_| wrong("job", "choose one from the list")).ok());
        let kind = filled(&self.kind).and_then(|word| {
            serde_json::from_value(word.into()).map_err(|_| wrong("kind", "reserve, commit or settle")).ok()
        });
        let (since, until) = parse_period(&self.since, &self.until, wrong);
        if !violations.is_empty() {
            return Err(Problem::validation(violations));
        }
        Ok((dataset, EntryFilter { kind, job, since, until }))
    }

    /// Returns all fields but dataset and cursor as a suffix of an address. All were parsed as an id, a word or a day.
    fn to_suffix(&self) -> String {
        let fields = [("job", &self.job), ("kind", &self.kind), ("since", &self.since), ("until", &self.until)];
        let filled = fields.into_iter().filter(|(_, value)| !value.trim().is_empty());
        filled.fold(String::new(), |mut all, (name, value)| {
            let _ = write!(all, "&{name}={}", value.trim());
            all
        })
    }
}

fn render_filters(query: &LedgerQuery, datasets: &[Dataset], jobs: &[JobSummary], here: &str) -> AnyView {
    let option = |value: String, chosen: &str, name: String| {
        let selected = value == chosen;
        view! { <option value=value selected=selected>{name}</option> }
    };
    let of_datasets =
        datasets.iter().map(|dataset| option(dataset.id.to_string(), &query.dataset, dataset.name.clone()));
    let of_jobs = jobs.iter().map(|job| option(job.id.to_string(), &query.job, job.title.clone()));
    let kinds = [("reserve", "reserved"), ("commit", "paid"), ("settle", "given back")];
    let kinds = kinds.into_iter().map(|(word, name)| option(word.to_owned(), &query.kind, name.to_owned()));
    view! {
        <form class="filters" method="get" action=here.to_owned() role="search" aria-label="Filter the rows">
            <label class="field"><span>"Dataset"</span>
                <select name="dataset"><option value="">"all datasets"</option>{of_datasets.collect_view()}</select>
            </label>
            <label class="field"><span>"Job"</span>
                <select name="job"><option value="">"all jobs"</option>{of_jobs.collect_view()}</select>
            </label>
            <label class="field"><span>"Kind"</span>
                <select name="kind"><option value="">"everything"</option>{kinds.collect_view()}</select>
            </label>
            <label class="field"><span>"From"</span><input type="date" name="since" value=query.since.clone()/></label>
            <label class="field"><span>"To"</span><input type="date" name="until" value=query.until.clone()/></label>
            <div class="actions">
                <button type="submit">"Show"</button>
                {(!query.is_empty()).then(|| view! { <a href=here.to_owned()>"Clear the filter"</a> })}
            </div>
        </form>
    }
    .into_any()
}

/// Renders rows of ledgers as a table.
pub(super) fn render_rows(
    entries: &[(String, LedgerEntry)],
    consortium: ConsortiumId,
    title: &impl Fn(JobId) -> Option<String>,
    now: OffsetDateTime,
) -> AnyView {
    let rows = entries.iter().map(|(dataset, entry)| {
        let (class, kind) = match entry.kind {
            EntryKind::Reserve => ("state waiting", "◔ reserved"),
            EntryKind::Commit => ("state done", "● paid"),
            EntryKind::Settle => ("state over", "○ given back"),
        };
        let job = title(entry.job).unwrap_or_else(|| format!("job {}", words::short(&entry.job.to_string())));
        view! {
            <tr>
                <td data-label="row" class="number"><a href=path::ledger_row(consortium, entry.account, entry.sequence) title="This row with its proofs">{words::count(entry.sequence)}</a></td>
                <td data-label="when"><RelativeTime at=entry.at now/></td>
                <td data-label="dataset">{dataset.clone()}</td>
                <td data-label="what"><span class=class>{kind}</span></td>
                <td data-label="job"><span><a href=path::job(consortium, entry.job)>{job}</a>{entry.round.clone().map(|round| format!(", {round}"))}</span></td>
                <td data-label="releases">{format!("{} × {}", words::count(entry.count), describe_event(&entry.event))}</td>
                <td data-label="receipt">{entry.receipt.clone().map(|digest| view! { <Digest digest/> })}</td>
                <td data-label="hash"><Digest digest=entry.hash.clone()/></td>
            </tr>
        }
    });
    view! {
        <div class="scroll" tabindex="0" role="region" aria-label="Rows of the ledger">
            <table class="cards dense">
                <thead><tr>
                    <th scope="col" class="number">"Row"</th><th scope="col">"When"</th><th scope="col">"Dataset"</th><th scope="col">"Kind"</th>
                    <th scope="col">"Job"</th><th scope="col">"Releases"</th><th scope="col">"Receipt"</th><th scope="col">"Hash"</th>
                </tr></thead>
                <tbody>{rows.collect_view()}</tbody>
            </table>
        </div>
    }
    .into_any()
}

/// Describes a release in words, with its parameters.
pub(super) fn describe_event(event: &Event) -> String {
    match event {
        Event::Gaussian { noise_multiplier } => format!("Gaussian, z {}", words::number(noise_multiplier.get())),
        Event::PoissonSampledGaussian { sampling_rate, noise_multiplier } => {
            format!(
                "Gaussian of a Poisson sample, q {}, z {}",
                words::number(sampling_rate.get()),
                words::number(noise_multiplier.get())
            )
        }
        Event::BandedGaussian { sampling_rate, noise_multiplier, bands, releases } => format!(
            "{} Gaussian releases together, noise correlated over {bands} of them, q {} in turn, z {}",
            words::count(u64::from(releases.get())),
            words::number(sampling_rate.get()),
            words::number(noise_multiplier.get())
        ),
        Event::Laplace { epsilon } => format!("Laplace, ε {}", words::epsilon(epsilon.get())),
        Event::Pure { epsilon } => format!("pure, ε {}", words::epsilon(epsilon.get())),
        Event::Approximate { epsilon, delta } => {
            format!("ε {} with δ {}", words::epsilon(epsilon.get()), words::delta(delta.get()))
        }
        Event::NonPrivate => "exact, no noise".to_owned(),
        Event::Composed { events } => events.iter().map(self::describe_event).collect::<Vec<_>>().join(" and "),
        Event::Repeated { count, of } => format!("{} × ({})", words::count(*count), self::describe_event(of)),
        Event::DiscreteGaussian { noise_multiplier, .. } => {
            format!("discrete Gaussian, z {}", words::number(noise_multiplier.get()))
        }
        Event::PoissonSampledDiscreteGaussian { sampling_rate, noise_multiplier, .. } => format!(
            "discrete Gaussian of a Poisson sample, q {}, z {}",
            words::number(sampling_rate.get()),
            words::number(noise_multiplier.get())
        ),
        Event::DistributedDiscreteGaussian(noise) => {
            format!("discrete Gaussian noise of {} together", words::count(noise.contributors.get().into()))
        }
        Event::PoissonSampledDistributedDiscreteGaussian { sampling_rate, noise } => format!(
            "discrete Gaussian noise of {} together on Poisson samples, q {}",
            words::count(noise.contributors.get().into()),
            words::number(sampling_rate.get())
        ),
        Event::SampledThreshold { sampling_rate, threshold, epsilon, .. } => format!(
            "a sample, β {}, shown where at least {} are equal, ε {}",
            words::number(sampling_rate.get()),
            words::count(threshold.get().into()),
            words::epsilon(epsilon.get())
        ),
        Event::TruncatedLaplace { distance, partition, .. } => format!(
            "dummy words, distance {}, against {} of {} providers",
            words::count(distance.get().into()),
            words::count(partition.colluding().get().into()),
            words::count(partition.providers().get().into())
        ),
        Event::Substituted { of } => format!("one contribution replaced in: {}", self::describe_event(of)),
        Event::Selected { of, runs } => format!(
            "the best of a secret number of runs, {} on average, each {}",
            words::number((runs.mean() * 10.0).round() / 10.0),
            self::describe_event(of)
        ),
    }
}
