//! The log of a job: its events by participant and by severity, with a download.

use leptos::prelude::*;
use serde::Deserialize;
use undertone_api::id::{ConsortiumId, JobId};
use undertone_api::job::Job;
use undertone_api::job::log::{LogLevel, LogQuery};
use undertone_server_core::service;

use super::render_empty;
use crate::component::log_lines::render_log_lines;
use crate::live::follow::Follow;
use crate::page_context::{PageContent, PagePlace};
use crate::path;
use crate::screen::render_page;

/// Renders the page.
pub(crate) fn job_log() -> AnyView {
    render_page(PagePlace::Jobs, async |context| {
        let consortium = context.consortium()?.id;
        let id: JobId = context.id("job")?;
        let job = service::job::get(context.ctx(), context.actor()?, id).await?;
        let query = parse_query(&context.query);
        let page = service::job_log::list(context.ctx(), context.actor()?, id, &query).await?;
        let newest = query.cursor.is_none();
        let next = page.next.map(
            |next| view! { <p><a rel="next" href=page_address(consortium, id, &query, &next)>"Older lines"</a></p> },
        );
        let list = if page.items.is_empty() {
            render_empty(
                "No log lines. Sites report the progress of their parts unless their policy sets `logs = \"none\"`.",
                (),
            )
        } else {
            render_log_lines(&page.items, context.now)
        };
        let live =
            (newest && !job.summary.state.is_over()).then(|| view! { <Follow events=format!("/ui/events?job={id}")/> });
        Ok(PageContent::new(
            format!("Log of {}", job.summary.title),
            view! {
                <p><a href=path::job(consortium, id)>"The job"</a>" · "<a href=path::job_log_file(id) download="">"Download the full log (JSON Lines)"</a></p>
                <p class="hint">"The log contains only numbers and words from a fixed list, and never a site's own text, such as file names, results or error messages."</p>
                {live}
                {render_filters(consortium, id, &job, &query)}
                <div data-live="log">{list}</div>
                {next}
            },
        ))
    })
}

/// The form's filters in the address: an empty field is no filter.
#[derive(Deserialize, Default)]
#[serde(default)]
struct LogFilter {
    dataset: String,
    level: String,
    cursor: Option<String>,
}

fn parse_query(query: &str) -> LogQuery {
    let LogFilter { dataset, level, cursor } = crate::query::parse(query).unwrap_or_default();
    LogQuery {
        dataset: dataset.parse().ok(),
        level: serde_json::from_value(serde_json::Value::String(level)).ok(),
        cursor,
        limit: None,
    }
}

fn page_address(consortium: ConsortiumId, job: JobId, query: &LogQuery, cursor: &str) -> String {
    let dataset = query.dataset.map(|dataset| format!("&dataset={dataset}")).unwrap_or_default();
    let level = query.level.map(|level| format!("&level={}", level_word(level))).unwrap_or_default();
    format!("{}?cursor={cursor}{dataset}{level}", path::job_log(consortium, job))
}

const fn level_word(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Info => "info",
        LogLevel::Warning => "warning",
        LogLevel::Error => "error",
    }
}

fn render_filters(consortium: ConsortiumId, id: JobId, job: &Job, query: &LogQuery) -> AnyView {
    let parties = job.participants.iter().map(|party| {
        let name = format!("{}, {}", party.dataset_name, party.organization_name);
        view! { <option value=party.dataset.to_string() selected=query.dataset == Some(party.dataset)>{name}</option> }
    });
    let levels =
        [(LogLevel::Info, "everything"), (LogLevel::Warning, "warnings and errors"), (LogLevel::Error, "errors")];
    let levels = levels.map(|(level, said)| {
        let is_selected = query.level.unwrap_or(LogLevel::Info) == level;
        view! { <option value=level_word(level) selected=is_selected>{said}</option> }
    });
    view! {
        <form class="filters" method="get" action=path::job_log(consortium, id)>
            <label class="field"><span>"Participant"</span>
                <select name="dataset"><option value="">"all participants"</option>{parties.collect_view()}</select>
            </label>
            <label class="field"><span>"Show"</span><select name="level">{levels}</select></label>
            <button type="submit">"Show"</button>
        </form>
    }
    .into_any()
}

#[cfg(test)]
mod tests {
    use crate::path;
    use crate::testing::TestDashboard;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn job_log_filters_by_participant_and_level() {
        let dashboard = TestDashboard::open().await;
        let consortium = dashboard.consortium;
        let running = dashboard.running;
        let finished = dashboard.finished;
        let log = path::job_log(consortium, running);
        let page = dashboard.render(&log, true, "").await.body;
        for said in [
            "began its part",
            "sent its vector of round 4, private",
            "waits for another run of the site to end",
            "/log/export",
        ] {
            assert!(page.contains(said), "{said:?} is missing: {page}");
        }
        assert!(page.contains("/ui/events?job="), "it is live");
        let warnings = dashboard.render(&format!("{log}?level=warning&dataset="), true, "").await.body;
        assert!(warnings.contains("with 3 of 4 vectors") && !warnings.contains("began its part"), "{warnings}");
        let own = dashboard.render(&format!("{log}?dataset={}", dashboard.dataset(1)), true, "").await.body;
        assert!(own.contains("began its part") && !own.contains("waits for another run"), "{own}");
        let over = dashboard.render(&path::job_log(consortium, finished), true, "").await.body;
        assert!(over.contains("with 3 of 3 vectors") && !over.contains("/ui/events"), "{over}");
        let proposed = dashboard.render(&path::job_log(consortium, dashboard.proposed), true, "").await.body;
        assert!(proposed.contains("No log lines"), "{proposed}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn waiting_job_names_reasons_and_remedies() {
        let dashboard = TestDashboard::open().await;
        let consortium = dashboard.consortium;
        let running = dashboard.running;
        let finished = dashboard.finished;
        let page = dashboard.render(&path::job(consortium, running), true, "").await.body;
        for said in [
            "Waiting for",
            "its worker has not been heard of",
            "Somebody at the site looks whether it runs",
            "Full log",
        ] {
            assert!(page.contains(said), "{said:?} is missing: {page}");
        }
        let over = dashboard.render(&path::job(consortium, finished), true, "").await.body;
        assert!(!over.contains("Waiting for"), "{over}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn following_pages_mark_their_live_parts() {
        let dashboard = TestDashboard::open().await;
        let consortium = dashboard.consortium;
        for (address, part) in [
            (path::overview(consortium), "jobs"),
            (path::overview(consortium), "now"),
            (path::jobs(consortium), "jobs"),
            (path::questions(consortium), "questions"),
        ] {
            let page = dashboard.render(&address, true, "").await.body;
            let (head, tail) = page.split_once(&format!("data-live=\"{part}\"")).expect("the part is marked");
            assert!(head.contains("/ui/events?") || tail.contains("/ui/events?"), "{address} does not listen");
            // Replaced parts must be plain HTML: an island in them would not be hydrated.
            if part != "now" {
                assert!(!tail.split("</table>").next().unwrap_or_default().contains("leptos-island"), "{address}");
            }
        }
    }
}
