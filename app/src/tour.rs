//! The guided tour of a demonstration: stops at pages of its own jobs. The program of the demonstration names the jobs;
//! other servers have no tour. An account that ends the tour does not see it again, until the demonstration ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use leptos::prelude::*;
use undertone_api::id::{ConsortiumId, JobId, MemberId};
use undertone_api::job::{JobState, JobSummary};
use undertone_api::model::ModelSource;
use undertone_api::page::PageQuery;
use undertone_server_core::service;

use crate::component::form::post;
use crate::page_context::PageContext;
use crate::path;
use crate::request::Answer;

/// A subject of the tour, with the job that shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TourStop {
    /// The certificate of a training with an audit.
    Certificate(JobId),
    /// The questions of a job to annotators.
    Questions(JobId),
    /// Statistics of tables.
    Statistics(JobId),
    /// A transcription by external recognizers.
    Transcription(JobId),
    /// The model of a training.
    Model(JobId),
    /// The ledger.
    Ledger,
}

impl TourStop {
    const fn title(self) -> &'static str {
        match self {
            Self::Certificate(_) => "A certificate",
            Self::Questions(_) => "Questions to people",
            Self::Statistics(_) => "Statistics of three sites",
            Self::Transcription(_) => "A transcription",
            Self::Model(_) => "The model",
            Self::Ledger => "The ledger",
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::Certificate(_) => {
                "Three sites trained a model, and an audit measured its claim. Press “Verify now”: your browser repeats each check."
            }
            Self::Questions(_) => {
                "Queries that many people asked wait for a label. Answer with the number keys; the classifier learns from the answers."
            }
            Self::Statistics(_) => {
                "Three tables of patients, described together. Each number includes noise and has a 95 % interval."
            }
            Self::Transcription(_) => {
                "Two external recognizers transcribed segments of recordings, mixed with dummy segments. At the site, “undertone-worker received” plays the sounds that they got."
            }
            Self::Model(_) => {
                "The result of the training, with its accuracy, its cost and the commands that use it. Compare it with the model of public data."
            }
            Self::Ledger => {
                "The price of each release. Open the number of a row to see its proof: the chain, the signed root and the receipt of the site."
            }
        }
    }

    const fn job(self) -> Option<JobId> {
        match self {
            Self::Certificate(job)
            | Self::Questions(job)
            | Self::Statistics(job)
            | Self::Transcription(job)
            | Self::Model(job) => Some(job),
            Self::Ledger => None,
        }
    }

    /// Returns whether the page of the stop has its content, by the state of its job.
    fn is_open(self, jobs: &[JobSummary]) -> bool {
        let Some(id) = self.job() else { return true };
        let state = jobs.iter().find(|job| job.id == id).map(|job| job.state);
        match self {
            Self::Questions(_) => matches!(state, Some(JobState::Running | JobState::Finished)),
            _ => state == Some(JobState::Finished),
        }
    }
}

/// The tour of a consortium.
#[derive(Debug, Default)]
struct Tour {
    stops: Vec<TourStop>,
    /// The accounts that ended it.
    ended: BTreeSet<MemberId>,
}

static TOURS: Mutex<BTreeMap<ConsortiumId, Tour>> = Mutex::new(BTreeMap::new());

/// Returns the tours; a panic elsewhere leaves them whole, because each change is one assignment.
fn tours() -> MutexGuard<'static, BTreeMap<ConsortiumId, Tour>> {
    TOURS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Offers a tour to the members of a consortium of this process.
pub fn offer_tour(consortium: ConsortiumId, stops: Vec<TourStop>) {
    tours().entry(consortium).or_default().stops = stops;
}

/// Ends the tour of a consortium for an account.
pub(crate) fn end_tour(consortium: ConsortiumId, member: MemberId) {
    if let Some(tour) = tours().get_mut(&consortium) {
        tour.ended.insert(member);
    }
}

/// A stop as the viewer can reach it.
struct ReachableStop {
    stop: TourStop,
    /// Its page; `None` while its job has nothing to show.
    path: Option<String>,
}

/// Returns the stops of the viewer's tour; none without a tour, or after its end.
async fn list_stops(context: &PageContext) -> Answer<Vec<ReachableStop>> {
    let (Ok(consortium), Ok(member)) = (context.consortium(), context.member()) else { return Ok(Vec::new()) };
    let stops = match tours().get(&consortium.id) {
        Some(tour) if !tour.ended.contains(&member.id) => tour.stops.clone(),
        _ => return Ok(Vec::new()),
    };
    let (ctx, actor) = (context.ctx(), context.actor()?);
    let page = PageQuery { cursor: None, limit: Some(PageQuery::MAX) };
    let jobs = service::job::list(ctx, actor, consortium.id, &page).await?.items;
    let mut reachable = Vec::new();
    for stop in stops {
        let path = match stop {
            _ if !stop.is_open(&jobs) => None,
            TourStop::Certificate(job) => Some(path::certificate(consortium.id, job)),
            TourStop::Questions(job) => Some(path::annotate(consortium.id, job)),
            TourStop::Statistics(job) | TourStop::Transcription(job) => Some(path::job(consortium.id, job)),
            TourStop::Ledger => Some(path::ledger(consortium.id)),
            TourStop::Model(job) => {
                let files = service::model::list(ctx, actor, job).await?;
                let model = files.into_iter().find(|file| file.source == Some(ModelSource::Private));
                model.map(|file| path::model(consortium.id, file.id))
            }
        };
        reachable.push(ReachableStop { stop, path });
    }
    Ok(reachable)
}

/// Renders the list of stops, for the overview.
pub(crate) async fn render_tour(context: &PageContext) -> Answer<Option<AnyView>> {
    let stops = list_stops(context).await?;
    let (false, Ok(consortium)) = (stops.is_empty(), context.consortium()) else { return Ok(None) };
    let count = stops.len();
    let items = stops.into_iter().map(|ReachableStop { stop, path }| {
        let name = match path {
            Some(path) => view! { <a href=path>{stop.title()}</a> }.into_any(),
            None => view! { {stop.title()}" "<span class="hint">"(opens when its job has a result)"</span> }.into_any(),
        };
        view! { <li>{name}<p class="hint">{stop.text()}</p></li> }
    });
    let end = render_end(consortium.id, "End the tour");
    let view = view! {
        <section class="panel tour" id="tour">
            <div class="panel-head"><h2>{format!("Guided tour: {count} stops")}</h2>{end}</div>
            <ol class="tour-stops">{items.collect_view()}</ol>
        </section>
    };
    Ok(Some(view.into_any()))
}

/// Renders the bar of the stop at the address `place`; nothing elsewhere.
pub(crate) async fn render_bar(context: &PageContext, place: &str) -> Answer<Option<AnyView>> {
    let stops = list_stops(context).await?;
    let Ok(consortium) = context.consortium() else { return Ok(None) };
    let place = place.split('?').next().unwrap_or_default();
    let Some(index) = stops.iter().position(|stop| stop.path.as_deref() == Some(place)) else { return Ok(None) };
    let link = |stop: Option<&ReachableStop>, label: &'static str, class: &'static str| {
        let path = stop.and_then(|stop| stop.path.clone());
        path.map(|path| view! { <a class=class href=path>{label}</a> })
    };
    let is_open = |stop: &&ReachableStop| stop.path.is_some();
    let next = stops[index + 1..].iter().find(is_open);
    let all = format!("{}#tour", path::overview(consortium.id));
    let stop = stops[index].stop;
    let view = view! {
        <aside class="tour-bar" aria-label="Guided tour">
            <p><strong>{format!("Stop {} of {}: {}", index + 1, stops.len(), stop.title())}</strong>" "{stop.text()}</p>
            <div class="actions">
                {link(stops[..index].iter().rfind(is_open), "Previous stop", "button quiet")}
                {link(next, "Next stop", "button quiet")}
                <a class="button quiet" href=all>"List of stops"</a>
                {render_end(consortium.id, "End the tour")}
            </div>
        </aside>
    };
    Ok(Some(view.into_any()))
}

fn render_end(consortium: ConsortiumId, label: &'static str) -> AnyView {
    post(
        "end-tour",
        vec![("consortium", consortium.to_string())],
        view! { <button type="submit" class="quiet">{label}</button> },
    )
}

#[cfg(test)]
mod tests {
    use super::{TourStop, offer_tour};
    use crate::path;
    use crate::testing::{Caller, TestDashboard};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn tour_leads_from_page_to_page_until_an_account_ends_it() {
        let dashboard = TestDashboard::open().await;
        let (consortium, finished, running) = (dashboard.consortium, dashboard.finished, dashboard.running);
        let overview = path::overview(consortium);
        assert!(!dashboard.render(&overview, true, "").await.body.contains("Guided tour"), "no tour is offered");

        let stops = vec![TourStop::Certificate(finished), TourStop::Statistics(running), TourStop::Ledger];
        offer_tour(consortium, stops);
        let page = dashboard.render(&overview, true, "").await.body;
        let certificate = path::certificate(consortium, finished);
        assert!(page.contains("Guided tour: 3 stops") && page.contains("opens when its job has a result"), "{page}");
        assert!(page.contains(&format!("href=\"{certificate}\"")), "{page}");

        let first = dashboard.render(&certificate, true, "").await.body;
        assert!(first.contains("Stop 1 of 3: A certificate") && !first.contains("Previous stop"), "{first}");
        let skips = format!("href=\"{}\" class=\"button quiet\">Next stop", path::ledger(consortium));
        assert!(first.contains(&skips), "a stop without a result is skipped: {first}");
        let last = dashboard.render(&path::ledger(consortium), true, "").await.body;
        assert!(last.contains("Stop 3 of 3: The ledger") && !last.contains("Next stop"), "{last}");
        let jobs = dashboard.render(&path::jobs(consortium), true, "").await.body;
        assert!(!jobs.contains("Guided tour"), "this page is no stop: {jobs}");

        let end = format!("consortium={consortium}");
        let refused = dashboard.send_for(&Caller::Visitor, "end-tour", &end, true).await;
        assert!(refused.message_cookie().starts_with("undertone-word="));
        assert!(dashboard.render(&overview, true, "").await.body.contains("Guided tour"), "a visitor ends nothing");
        dashboard.send("end-tour", &end, true).await;
        for path in [overview, certificate] {
            assert!(!dashboard.render(&path, true, "").await.body.contains("Guided tour"), "{path}");
        }
    }
}
