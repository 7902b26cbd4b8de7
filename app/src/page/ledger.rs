//! The ledger: every reservation, payment and return, with receipts and the chain of hashes.

use leptos::prelude::*;
use time::OffsetDateTime;
use undertone_api::budget::{Entry, EntryKind};
use undertone_api::dataset::Visibility;
use undertone_api::id::{ConsortiumId, DatasetId, JobId};
use undertone_api::page::PageQuery;
use undertone_api::problem::Code;
use undertone_privacy::Event;

use super::nothing;
use crate::component::said::{Digest, When};
use crate::screen::{Place, Sheet, screen};
use crate::{path, words};

/// The rows of one dataset, or the newest of all.
pub(crate) fn ledger() -> AnyView {
    #[derive(Default, serde::Deserialize)]
    struct Query {
        dataset: Option<DatasetId>,
        cursor: Option<String>,
    }
    screen(Place::Ledger, async |desk| {
        let consortium = desk.consortium()?.id;
        desk.member()?;
        let query = crate::query::parse::<Query>(&desk.query).unwrap_or_default();
        let datasets: Vec<_> = desk
            .backend
            .datasets(consortium)
            .await?
            .into_iter()
            .filter(|d| d.visibility != Visibility::Public)
            .collect();
        let jobs = desk.backend.jobs(consortium, PageQuery { cursor: None, limit: Some(PageQuery::MAX) }).await?.items;
        let title = |job: JobId| jobs.iter().find(|known| known.id == job).map(|known| known.title.clone());
        let (mut found, mut closed, mut next) = (Vec::new(), 0, None);
        for dataset in datasets.iter().filter(|dataset| query.dataset.is_none_or(|wanted| wanted == dataset.id)) {
            let page = PageQuery { cursor: query.cursor.clone().filter(|_| query.dataset.is_some()), limit: Some(50) };
            match desk.backend.entries(dataset.id, page).await {
                Ok(page) => {
                    found.extend(page.items.into_iter().map(|entry| (dataset.name.clone(), entry)));
                    next = page.next.map(|cursor| (dataset.id, cursor));
                }
                // Other organizations' rows may be theirs alone to read.
                Err(problem) if matches!(problem.code, Code::Forbidden | Code::NotFound) => closed += 1,
                Err(problem) => return Err(problem),
            }
        }
        found.sort_by(|a, b| b.1.at.cmp(&a.1.at).then(b.1.sequence.cmp(&a.1.sequence)));
        if query.dataset.is_none() {
            found.truncate(50);
            next = None;
        }
        let here = path::ledger(consortium);
        let choices = datasets.iter().map(|dataset| {
            let current = (query.dataset == Some(dataset.id)).then_some("true");
            view! { <li><a href=format!("{here}?dataset={}", dataset.id) aria-current=current>{dataset.name.clone()}</a></li> }
        });
        let list = if found.is_empty() {
            nothing(
                "Rows appear when a job reserves its worst case, pays for a release, or gives back what never left.",
                (),
            )
        } else {
            rows(&found, consortium, &title, desk.now)
        };
        Ok(Sheet::new(
            "Ledger",
            view! {
                <p class="lead">"Rows are never changed or deleted. Every payment carries the hash of a receipt that the site signed before the release left; every row carries the hash of all before it."</p>
                <nav aria-label="Datasets"><ul class="tabs">
                    <li><a href=here.clone() aria-current=query.dataset.is_none().then_some("true")>"Newest of all"</a></li>
                    {choices.collect_view()}
                </ul></nav>
                {list}
                {next.map(|(dataset, cursor)| view! { <p><a rel="next" href=format!("{here}?dataset={dataset}&cursor={cursor}")>"Older rows"</a></p> })}
                {(closed > 0).then(|| view! { <p class="hint">{format!("The rows of {} are not yours to read.", words::plural(closed, "dataset"))}</p> })}
            },
        ))
    })
}

/// Rows of ledgers as a table.
pub(super) fn rows(
    entries: &[(String, Entry)],
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
                <td data-label="row" class="number">{words::count(entry.sequence)}</td>
                <td data-label="when"><When at=entry.at now/></td>
                <td data-label="dataset">{dataset.clone()}</td>
                <td data-label="what"><span class=class>{kind}</span></td>
                <td data-label="job"><span><a href=path::job(consortium, entry.job)>{job}</a>{entry.round.clone().map(|round| format!(", {round}"))}</span></td>
                <td data-label="releases">{format!("{} × {}", words::count(entry.count), event(&entry.event))}</td>
                <td data-label="receipt">{entry.receipt.clone().map(|digest| view! { <Digest digest/> })}</td>
                <td data-label="hash"><Digest digest=entry.hash.clone()/></td>
            </tr>
        }
    });
    view! {
        <div class="scroll">
            <table class="cards dense">
                <thead><tr>
                    <th scope="col" class="number">"Row"</th><th scope="col">"When"</th><th scope="col">"Dataset"</th><th scope="col">"What"</th>
                    <th scope="col">"Job"</th><th scope="col">"Releases"</th><th scope="col">"Receipt"</th><th scope="col">"Hash"</th>
                </tr></thead>
                <tbody>{rows.collect_view()}</tbody>
            </table>
        </div>
    }
    .into_any()
}

/// A release in words, with its parameters.
pub(super) fn event(event: &Event) -> String {
    match event {
        Event::Gaussian { noise_multiplier } => format!("Gaussian, z {}", words::number(noise_multiplier.get())),
        Event::PoissonSampledGaussian { sampling_rate, noise_multiplier } => {
            format!(
                "Gaussian of a Poisson sample, q {}, z {}",
                words::number(sampling_rate.get()),
                words::number(noise_multiplier.get())
            )
        }
        Event::Laplace { epsilon } => format!("Laplace, ε {}", words::epsilon(epsilon.get())),
        Event::Pure { epsilon } => format!("pure, ε {}", words::epsilon(epsilon.get())),
        Event::Approximate { epsilon, delta } => {
            format!("ε {} with δ {}", words::epsilon(epsilon.get()), words::delta(delta.get()))
        }
        Event::NonPrivate => "exact, without noise".to_owned(),
        Event::Composed { events } => events.iter().map(self::event).collect::<Vec<_>>().join(" and "),
        Event::Repeated { count, of } => format!("{} × ({})", words::count(*count), self::event(of)),
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
        Event::SampledThreshold { sampling_rate, threshold, epsilon, .. } => format!(
            "a sample, β {}, shown where at least {} are alike, ε {}",
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
        Event::Selected { of, runs } => format!(
            "the best of a secret number of runs, {} on average, each {}",
            words::number((runs.mean() * 10.0).round() / 10.0),
            self::event(of)
        ),
    }
}
