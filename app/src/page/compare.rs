//! Several jobs side by side: the accuracy of their models, the cost to each party, and their differences.

use std::collections::{BTreeMap, BTreeSet};

use leptos::prelude::*;
use serde_json::Value;
use undertone_api::id::{ConsortiumId, JobId};
use undertone_api::job::{JobState, JobSummary};
use undertone_api::problem::{Problem, Violation};
use undertone_api::report::{ArmComparison, LevelDerivation, ReportFile};
use undertone_server_core::service;

use super::{list_newest_jobs, render_empty};
use crate::component::drawing::{ForestPlot, IntervalEstimate};
use crate::page_context::{PageContent, PagePlace};
use crate::screen::render_page;
use crate::{path, words};

/// The fewest jobs in a comparison.
const FEWEST: usize = 2;
/// The most jobs in a comparison, which fit on a screen.
const MOST: usize = 6;

/// Renders the page.
pub(crate) fn compare() -> AnyView {
    render_page(PagePlace::Models, async |context| {
        let consortium = context.consortium()?.id;
        context.member()?;
        let selection = parse_jobs(&context.query)?;
        let jobs = list_newest_jobs(&context, consortium).await?;
        let finished: Vec<_> = jobs.into_iter().filter(|job| job.state == JobState::Finished).collect();
        let mut reports = Vec::new();
        for job in &selection {
            if !finished.iter().any(|known| known.id == *job) {
                let message = format!("no finished job of this consortium has the id {job}");
                return Err(Problem::validation(vec![Violation::new("job", message)]));
            }
            reports.push((*job, service::report::get(context.ctx(), context.actor()?, *job).await?));
        }
        let body = if reports.len() < FEWEST {
            render_empty("Choose two to six finished jobs to compare accuracy, privacy cost and spec.", ())
        } else {
            view! {
                {render_accuracy(&reports)}
                {render_costs(&reports, consortium)}
                {render_differences(&reports, consortium)}
            }
            .into_any()
        };
        Ok(PageContent::new(
            "Compare models",
            view! {
                {render_choice(&finished, &selection, consortium)}
                {body}
            },
        ))
    })
}

/// Parses the jobs in the address: `job=<id>` for each.
fn parse_jobs(query: &str) -> Result<Vec<JobId>, Problem> {
    let mut selection = Vec::new();
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        if name != "job" || value.is_empty() {
            continue;
        }
        let wrong = |_| Problem::validation(vec![Violation::new("job", "enter the id of a job")]);
        let id: JobId = value.parse().map_err(wrong)?;
        if !selection.contains(&id) {
            selection.push(id);
        }
    }
    if selection.len() > MOST {
        let message = format!("choose at most {MOST} jobs, not {}", selection.len());
        return Err(Problem::validation(vec![Violation::new("job", message)]));
    }
    Ok(selection)
}

/// Renders the form to choose jobs.
fn render_choice(finished: &[JobSummary], chosen: &[JobId], consortium: ConsortiumId) -> AnyView {
    if finished.len() < FEWEST {
        return view! { <p class="hint">"At least two jobs must have finished."</p> }.into_any();
    }
    let boxes = finished.iter().map(|job| {
        view! {
            <label class="check">
                <input type="checkbox" name="job" value=job.id.to_string() checked=chosen.contains(&job.id)/>
                <span>{format!("{}, {}", job.title, words::exact(job.created_at))}</span>
            </label>
        }
    });
    view! {
        <form class="panel" method="get" action=path::compare(consortium)>
            <fieldset class="compare-choice"><legend>"Finished jobs"</legend>{boxes.collect_view()}</fieldset>
            <div class="actions"><button type="submit" class="primary">"Compare"</button></div>
        </form>
    }
    .into_any()
}

/// Returns the name of each job: its title, numbered if two are equal.
fn number_titles(reports: &[(JobId, ReportFile)]) -> Vec<String> {
    let title = |report: &ReportFile| report.job.title.clone();
    reports
        .iter()
        .enumerate()
        .map(|(index, (_, report))| {
            let same = reports.iter().filter(|(_, other)| title(other) == title(report)).count();
            let earlier = reports[..index].iter().filter(|(_, other)| title(other) == title(report)).count();
            if same > 1 { format!("{} ({})", title(report), earlier + 1) } else { title(report) }
        })
        .collect()
}

/// Lists the results that represent a job: those of the private arm, if it has one.
fn list_shown(report: &ReportFile) -> Vec<&ArmComparison> {
    let is_private = |one: &&ArmComparison| one.arm == "private";
    let has_private = report.comparison.iter().any(|one| is_private(&one));
    report.comparison.iter().filter(|one| !has_private || is_private(one)).collect()
}

/// Renders the models' accuracy by test set and arm, with intervals.
fn render_accuracy(reports: &[(JobId, ReportFile)]) -> AnyView {
    let names = number_titles(reports);
    let mut tests: BTreeMap<String, Vec<IntervalEstimate>> = BTreeMap::new();
    for ((_, report), name) in reports.iter().zip(&names) {
        let shown = list_shown(report);
        let arms = shown.iter().map(|one| one.arm.as_str()).collect::<BTreeSet<_>>();
        for one in &shown {
            let name = if arms.len() > 1 { format!("{name}, {}", one.arm) } else { name.clone() };
            tests.entry(one.test.clone()).or_default().push(IntervalEstimate::with_wilson_interval(
                name,
                one.accuracy,
                one.frames,
            ));
        }
    }
    let charts = tests.into_iter().filter_map(|(test, rows)| {
        let forest = ForestPlot {
            title: format!("Accuracy on {test}"),
            file: format!("models-{test}"),
            note: "Whiskers: 95 % Wilson interval, treating frames as independent".to_owned(),
            x: "correct, %".to_owned(),
            rows,
        };
        Some(forest.draw()?.show())
    });
    let charts: Vec<_> = charts.collect();
    if charts.is_empty() {
        return render_empty("These jobs have no measurements.", ());
    }
    view! {
        <section class="panel"><h2>"Accuracy"</h2>
            <div class="charts few">{charts}</div>
            <p class="hint">"Frames of one recording are correlated, so the true uncertainty is larger than the whiskers. Jobs with several arms are shown by their private arm."</p>
        </section>
    }
    .into_any()
}

/// Renders the cost of each job to each party.
fn render_costs(reports: &[(JobId, ReportFile)], consortium: ConsortiumId) -> AnyView {
    let names = number_titles(reports);
    let mut rows = Vec::new();
    for ((id, report), name) in reports.iter().zip(names) {
        let rounds = list_shown(report).iter().map(|one| one.rounds).max().unwrap_or_default();
        if report.privacy.is_empty() {
            rows.push(view! {
                <tr><th scope="row"><a href=path::job(consortium, *id)>{name.clone()}</a></th>
                    <td data-label="party">"none charged"</td><td data-label="ε" class="number">"–"</td><td data-label="releases" class="number">"–"</td>
                    <td data-label="rounds" class="number">{words::count(rounds.into())}</td></tr>
            }.into_any());
        }
        for party in &report.privacy {
            let level = party.levels.iter().find(|level| level.how == LevelDerivation::Protected);
            let epsilon = level.and_then(|level| level.epsilon).map_or_else(|| "–".to_owned(), words::epsilon);
            let unit = level.map(|level| words::unit(level.unit)).unwrap_or_default();
            rows.push(
                view! {
                    <tr>
                        <th scope="row"><a href=path::job(consortium, *id)>{name.clone()}</a></th>
                        <td data-label="party">{format!("{}, {}", party.organization_name, party.dataset_name)}</td>
                        <td data-label="ε" class="number">{format!("{epsilon} {unit}")}</td>
                        <td data-label="releases" class="number">{words::count(party.releases)}</td>
                        <td data-label="rounds" class="number">{words::count(rounds.into())}</td>
                    </tr>
                }
                .into_any(),
            );
        }
    }
    view! {
        <section class="panel"><h2>"Privacy cost"</h2>
            <table class="cards">
                <thead><tr><th scope="col">"Job"</th><th scope="col">"Party"</th><th scope="col" class="number">"ε of this job alone"</th><th scope="col" class="number">"Releases"</th><th scope="col" class="number">"Rounds"</th></tr></thead>
                <tbody>{rows}</tbody>
            </table>
        </section>
    }
    .into_any()
}

/// Renders the fields of the specs that differ.
fn render_differences(reports: &[(JobId, ReportFile)], consortium: ConsortiumId) -> AnyView {
    let parties = reports.iter().flat_map(|(_, report)| &report.privacy);
    let datasets: BTreeMap<String, String> =
        parties.map(|party| (party.dataset.to_string(), party.dataset_name.clone())).collect();
    let specs: Vec<BTreeMap<String, String>> = reports
        .iter()
        .map(|(_, report)| {
            let mut flat = BTreeMap::new();
            flatten("", &serde_json::to_value(&report.proposal.spec).unwrap_or_default(), &datasets, &mut flat);
            flat
        })
        .collect();
    let fields: BTreeSet<&String> = specs.iter().flat_map(BTreeMap::keys).collect();
    let paths: Vec<&String> =
        fields.into_iter().filter(|field| specs.iter().any(|spec| spec.get(*field) != specs[0].get(*field))).collect();
    if paths.is_empty() {
        return view! { <section class="panel"><h2>"Differences"</h2><p>"The specs are identical."</p></section> }
            .into_any();
    }
    let heads = reports.iter().zip(number_titles(reports)).map(|((id, _), name)| {
        view! { <th scope="col"><a href=path::report(consortium, *id)>{name}</a></th> }
    });
    let names = number_titles(reports);
    let rows = paths.into_iter().map(|field| {
        let cells = specs.iter().zip(&names).map(|(spec, name)| {
            view! { <td data-label=name.clone()>{spec.get(field).cloned().unwrap_or_else(|| "–".to_owned())}</td> }
        });
        view! { <tr><th scope="row"><code>{field.clone()}</code></th>{cells.collect_view()}</tr> }
    });
    view! {
        <section class="panel"><h2>"Differences"</h2>
            <div class="scroll" tabindex="0" role="region" aria-label="Differences">
                <table class="cards dense">
                    <thead><tr><th scope="col">"Spec field"</th>{heads.collect_view()}</tr></thead>
                    <tbody>{rows.collect_view()}</tbody>
                </table>
            </div>
        </section>
    }
    .into_any()
}

/// Collects every value of a document by its path. An entry of a list that is about a dataset has the dataset's name in
/// its path, so that the same dataset is compared wherever it stands in the list.
fn flatten(at: &str, value: &Value, datasets: &BTreeMap<String, String>, flat: &mut BTreeMap<String, String>) {
    let below = |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| flatten(&below(name), value, datasets, flat)),
        Value::Array(items) => items.iter().enumerate().for_each(|(index, value)| {
            let dataset = value.get("dataset").and_then(Value::as_str).and_then(|id| datasets.get(id));
            let name = dataset.cloned().unwrap_or_else(|| index.to_string());
            flatten(&below(&name), value, datasets, flat);
        }),
        Value::Null => {}
        Value::Number(number) if number.is_f64() => {
            flat.insert(at.to_owned(), words::number(number.as_f64().unwrap_or_default()));
        }
        Value::String(text) => drop(flat.insert(at.to_owned(), text.clone())),
        other => drop(flat.insert(at.to_owned(), other.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::{MOST, flatten, parse_jobs};
    use crate::testing::TestDashboard;

    #[test]
    fn compared_jobs_are_parsed_once_each() {
        let id = |index: u128| format!("job={}", uuid::Uuid::from_u128(index));
        let query = format!("{}&{}&{}&x=1", id(1), id(2), id(1));
        assert_eq!(parse_jobs(&query).expect("two").len(), 2);
        let many: Vec<_> = (0..=MOST as u128).map(id).collect();
        assert!(parse_jobs(&many.join("&")).is_err());
        assert!(parse_jobs("job=x").is_err());
    }

    #[test]
    fn specs_are_compared_value_by_value() {
        let mut flat = BTreeMap::new();
        let datasets = BTreeMap::from([("7".to_owned(), "ward-a".to_owned())]);
        let spec =
            json!({"a": {"b": [1, "x"]}, "c": null, "parties": [{"dataset": "7", "rate": 0.300_000_000_000_046_56}]});
        flatten("", &spec, &datasets, &mut flat);
        let expected =
            [("a.b.0", "1"), ("a.b.1", "x"), ("parties.ward-a.dataset", "7"), ("parties.ward-a.rate", "0.3")];
        assert_eq!(flat, expected.map(|(a, b)| (a.to_owned(), b.to_owned())).into());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn comparison_needs_finished_jobs() {
        let dashboard = TestDashboard::open().await;
        let consortium = dashboard.consortium;
        let running = dashboard.running;
        let finished = dashboard.finished;
        let page = dashboard.render(&format!("/c/{consortium}/models/compare"), true, "").await;
        assert!(page.status.is_success() && page.body.contains("type=\"checkbox\""), "{}", page.body);
        let page =
            dashboard.render(&format!("/c/{consortium}/models/compare?job={running}&job={finished}"), true, "").await;
        assert_eq!(page.status.as_u16(), 422, "{}", page.body);
    }
}
