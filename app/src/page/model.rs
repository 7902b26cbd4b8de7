//! A model: what it is, its data and jobs, its privacy cost, its quality by test set, and how to use it.

use leptos::prelude::*;
use undertone_api::id::{ArtifactId, ConsortiumId};
use undertone_api::job::dp_sgd::TrainingLoss;
use undertone_api::model::ModelSource;
use undertone_api::model::record::{ModelDesign, ModelQuality, ModelRecord, ModelVersion, QualityOrigin};
use undertone_api::report::DatasetUsed;
use undertone_api::retirement::LONGEST_REASON;
use undertone_api::signed::certificate::LineageSum;
use undertone_server_core::service;

use crate::component::copy::CopyField;
use crate::component::form::{Field, post};
use crate::component::said::{Digest, RelativeTime, VisibilityMark};
use crate::page_context::{PageContent, PagePlace};
use crate::screen::render_page;
use crate::{path, viewer, words};

/// Renders the page.
pub(crate) fn model() -> AnyView {
    render_page(PagePlace::Models, async |context| {
        let consortium = context.consortium()?.id;
        let id: ArtifactId = context.id("model")?;
        let record = service::model::get(context.ctx(), context.actor()?, id).await?;
        let may_delete = viewer::deletes_models(context.member()?, consortium);
        let address = context.ctx().addresses.http.clone();
        let body = view! {
            {render_head(&record, consortium, context.now)}
            {render_quality(&record, consortium)}
            {render_privacy(&record)}
            {render_line(&record, consortium)}
            {render_data(&record.datasets, consortium)}
            {render_use(&record, &address)}
            {(may_delete && record.file.deletion.is_none()).then(|| render_deletion(&record, consortium))}
        };
        Ok(PageContent::new(format!("{} of {}", record.file.name, record.job.title), body))
    })
}

fn render_head(record: &ModelRecord, consortium: ConsortiumId, now: time::OffsetDateTime) -> AnyView {
    let ModelRecord { file, job, version, line, .. } = record;
    let source = file.source.map_or("unknown data", ModelSource::label);
    let deletion = file.deletion.as_ref().map(|deletion| {
        view! {
            <p class="headline bad-text">"Deleted "<RelativeTime at=deletion.at now/>{format!(" by {}: {}", deletion.by_name, deletion.reason)}</p>
        }
    });
    let downloads = file.deletion.is_none().then(|| {
        view! { <a class="button primary" href=path::artifact_file(file.id) download=file.name.clone()>"Download the model"</a> }
    });
    let compare = (line.len() > 1)
        .then(|| line[line.len() - 2].artifact)
        .flatten()
        .map(|before| view! { <a class="button" href=path::model_comparison(consortium, before, file.id)>"Compare with the version before"</a> });
    view! {
        <p class="lead">{format!("Version {version}, made from {source} by the job ")}
            <a href=path::job(consortium, job.id)>{job.title.clone()}</a>"."</p>
        <section class="panel answer"><h2>"Model"</h2>
            {deletion}
            <dl class="facts">
                <div><dt>"SHA-256"</dt><dd><Digest digest=file.digest.clone()/></dd></div>
                <div><dt>"Size"</dt><dd>{words::bytes(file.size)}</dd></div>
                <div><dt>"Layers"</dt><dd>{service::model::card::describe_layers(&record.design)}</dd></div>
                <div><dt>"Created"</dt><dd><RelativeTime at=file.created_at now/></dd></div>
            </dl>
            <div class="actions">
                {downloads}
                <a class="button" href=path::model_card(file.id) download="model-card.md">"Download the card"</a>
                {(file.deletion.is_none() && record.design.has_graph()).then(|| view! {
                    <a class="button" href=path::model_archive(file.id) download="model.tar">"Download for MLflow"</a>
                })}
                <a class="button" href=path::certificate(consortium, job.id)>"Certificate"</a>
                {compare}
            </div>
        </section>
    }
    .into_any()
}

fn render_quality(record: &ModelRecord, consortium: ConsortiumId) -> AnyView {
    if record.quality.is_empty() {
        let remedy = record.design.is_network().then_some(" Propose an evaluation job with its SHA-256.");
        return view! { <section class="panel"><h2>"Quality"</h2><p>"This model was not measured."{remedy}</p></section> }
            .into_any();
    }
    let rows = record.quality.iter().map(|one: &ModelQuality| {
        let by = match one.origin {
            QualityOrigin::Training => "training, public data",
            QualityOrigin::Evaluation => "evaluation, private data",
        };
        view! {
            <tr>
                <th scope="row">{one.test.clone()}</th>
                <td data-label="figure">{one.metric.clone()}</td>
                <td data-label="value" class="number">{words::percent(one.value)}</td>
                <td data-label="95 % interval" class="number">{format!("{} to {}", words::percent(one.low), words::percent(one.high))}</td>
                <td data-label="measured by"><a href=path::job(consortium, one.job)>{one.title.clone()}</a>{format!(" ({by})")}</td>
            </tr>
        }
    });
    view! {
        <section class="panel"><h2>"Quality"</h2>
            <table class="cards">
                <thead><tr><th scope="col">"Test set"</th><th scope="col">"Figure"</th><th scope="col" class="number">"Value"</th><th scope="col" class="number">"95 % interval"</th><th scope="col">"Measured by"</th></tr></thead>
                <tbody>{rows.collect_view()}</tbody>
            </table>
            <p class="hint">"Intervals of public data treat frames, rows and queries as independent, so the true uncertainty is larger. Those of private data include the noise."</p>
        </section>
    }
    .into_any()
}

fn render_privacy(record: &ModelRecord) -> AnyView {
    let open = record.has_open_data().then(|| {
        view! { <p class="in-the-clear">"Made of exact gradients of open data. No ε covers this model."</p> }
    });
    if record.privacy.is_empty() {
        let text = if record.is_of_public_data() {
            "This model follows from public data alone: no privacy budget was spent for it."
        } else if record.certificate.is_some() {
            "The jobs of its versions charged no account."
        } else {
            "There is no certificate of this model."
        };
        return view! { <section class="panel"><h2>"Privacy cost"</h2>{open}<p>{text}</p></section> }.into_any();
    }
    let rows = record.privacy.iter().map(render_sum);
    view! {
        <section class="panel"><h2>"Privacy cost"</h2>
            {open}
            <table class="cards">
                <thead><tr><th scope="col">"Party"</th><th scope="col">"Protected"</th><th scope="col" class="number">"ε"</th><th scope="col" class="number">"δ"</th><th scope="col" class="number">"Jobs"</th></tr></thead>
                <tbody>{rows.collect_view()}</tbody>
            </table>
            <p class="hint">"The sum of the releases of this version and of the versions before it, to each account."</p>
        </section>
    }
    .into_any()
}

fn render_sum(sum: &LineageSum) -> AnyView {
    let epsilon = sum.figure.and_then(|figure| figure.epsilon).map_or_else(|| "–".to_owned(), words::epsilon);
    let delta = sum.figure.map_or_else(|| "–".to_owned(), |figure| words::delta(figure.delta));
    view! {
        <tr>
            <th scope="row">{format!("{}, {}", sum.organization_name, sum.dataset_names.join(", "))}</th>
            <td data-label="protected">{words::any_one(sum.unit)}</td>
            <td data-label="ε" class="number">{epsilon}</td>
            <td data-label="δ" class="number">{delta}</td>
            <td data-label="jobs" class="number">{words::count(sum.jobs)}</td>
        </tr>
    }
    .into_any()
}

fn render_line(record: &ModelRecord, consortium: ConsortiumId) -> AnyView {
    if record.line.len() < 2 && record.continued_by.is_empty() {
        return ().into_any();
    }
    let row = |version: &ModelVersion| {
        let name = match version.artifact.filter(|id| *id != record.file.id) {
            Some(id) => view! { <a href=path::model(consortium, id)>{version.name.clone()}</a> }.into_any(),
            None => version.name.clone().into_any(),
        };
        let deleted = version.deletion.as_ref().map(|deletion| format!(" (deleted: {})", deletion.reason));
        view! {
            <tr>
                <th scope="row" class="number">{version.version}</th>
                <td data-label="file">{name}{deleted}</td>
                <td data-label="job"><a href=path::job(consortium, version.job)>{version.title.clone()}</a></td>
                <td data-label="made from">{version.source.label()}</td>
                <td data-label="SHA-256"><Digest digest=version.digest.clone()/></td>
            </tr>
        }
    };
    let rows = record.line.iter().chain(&record.continued_by).map(row);
    view! {
        <section class="panel"><h2>"Versions"</h2>
            <table class="cards">
                <thead><tr><th scope="col" class="number">"Version"</th><th scope="col">"File"</th><th scope="col">"Job"</th><th scope="col">"Made from"</th><th scope="col">"SHA-256"</th></tr></thead>
                <tbody>{rows.collect_view()}</tbody>
            </table>
        </section>
    }
    .into_any()
}

fn render_data(datasets: &[DatasetUsed], consortium: ConsortiumId) -> AnyView {
    let rows = datasets.iter().map(|used| {
        view! {
            <tr>
                <th scope="row"><a href=path::dataset(consortium, used.dataset)>{used.name.clone()}</a></th>
                <td data-label="owner">{used.organization_name.clone()}</td>
                <td data-label="visibility"><VisibilityMark visibility=used.visibility/></td>
                <td data-label="units" class="number">{words::count(used.units)}</td>
            </tr>
        }
    });
    view! {
        <section class="panel"><h2>"Data"</h2>
            <table class="cards">
                <thead><tr><th scope="col">"Dataset"</th><th scope="col">"Owner"</th><th scope="col">"Visibility"</th><th scope="col" class="number">"Units"</th></tr></thead>
                <tbody>{rows.collect_view()}</tbody>
            </table>
        </section>
    }
    .into_any()
}

fn render_use(record: &ModelRecord, address: &str) -> AnyView {
    let ModelRecord { file, design, .. } = record;
    if file.deletion.is_some() {
        return ().into_any();
    }
    let name = &file.name;
    let predict = |input: &str| format!("undertone-worker predict {name} {input} --output predictions.csv");
    let recognize = |labels: &str| format!("undertone-worker recognize recording.flac --model {name} {labels}");
    let (purpose, command, label) = match design {
        ModelDesign::Classifier { .. } => {
            ("Label the queries of a file, from its column “query”:", predict("queries.csv"), "Labelling command")
        }
        ModelDesign::Network { settings } if settings.rows.is_some() => {
            ("Predict the rows of a file:", predict("rows.csv"), "Prediction command")
        }
        ModelDesign::Network { settings } if settings.loss == TrainingLoss::Ctc => {
            ("Recognize speech at a site:", recognize("--characters characters.json"), "Recognition command")
        }
        ModelDesign::Network { .. } => {
            ("Recognize speech at a site:", recognize("--phone-map phones.json"), "Recognition command")
        }
    };
    let download = format!(
        "curl --fail --header \"Authorization: Bearer KEY\" --output {name} {}{}",
        address.trim_end_matches('/'),
        path::artifact_file(file.id)
    );
    let measure = design.is_network().then(|| {
        view! {
            <p>"Measure it on a dataset of the site:"</p>
            <CopyField text=format!("undertone-worker evaluate {name} --dataset DATASET") label="Evaluation command".to_owned()/>
            <p>"To continue it, choose it in the planner under "<em>"Initial model"</em>"."</p>
        }
    });
    view! {
        <section class="panel"><h2>"Use this model"</h2>
            <p>"Download it with an API key of the scope "<code>"models"</code>":"</p>
            <CopyField text=download label="Download command".to_owned()/>
            <p>{purpose}</p>
            <CopyField text=command label=label.to_owned()/>
            {measure}
        </section>
    }
    .into_any()
}

fn render_deletion(record: &ModelRecord, consortium: ConsortiumId) -> AnyView {
    let hidden = vec![("consortium", consortium.to_string()), ("artifact", record.file.id.to_string())];
    let form = post(
        "delete-model",
        hidden,
        view! {
            <ul class="consequences">
                <li>"The bytes and their copies in other jobs of the consortium are removed. This cannot be undone."</li>
                <li>"Jobs neither begin with this model nor evaluate it afterwards. Downloaded copies are not reached."</li>
                <li>"The record stays, with the SHA-256, your name, the time and the reason. Spent budgets stay spent."</li>
            </ul>
            <Field name="reason" label="Reason" most=LONGEST_REASON as u32 help="Shown in the audit log and to those who ask for the file."/>
            <button type="submit" class="danger">"Delete the model"</button>
        },
    );
    view! {
        <section class="panel"><h2>"Delete"</h2>
            <details class="more"><summary>"Delete this model"</summary>{form}</details>
        </section>
    }
    .into_any()
}

#[cfg(test)]
mod tests {
    use undertone_api::id::ArtifactId;

    use crate::path;
    use crate::testing::TestDashboard;

    /// Returns the models to which a page links.
    fn linked_models(page: &str, dashboard: &TestDashboard) -> Vec<ArtifactId> {
        let start = format!("href=\"/c/{}/models/", dashboard.consortium);
        page.split(&start).skip(1).filter_map(|rest| rest.split('"').next()?.parse().ok()).collect()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn model_page_shows_cost_quality_and_use() {
        let dashboard = TestDashboard::open().await;
        let list = dashboard.render(&path::models(dashboard.consortium), true, "").await.body;
        assert!(linked_models(&list, &dashboard).contains(&dashboard.model), "{list}");
        let page = dashboard.render(&path::model(dashboard.consortium, dashboard.model), true, "").await;
        assert_eq!(page.status, 200, "{}", page.body);
        for text in [
            "Version 1, made from differentially private releases",
            "<h2>Quality</h2>",
            "training, public data",
            "<h2>Privacy cost</h2>",
            "any one speaker",
            "undertone-worker recognize recording.flac --model model.safetensors",
            "Delete this model",
            &*format!("href=\"{}\"", path::model_card(dashboard.model)),
        ] {
            assert!(page.body.contains(text), "no {text:?}: {}", page.body);
        }
        let address = path::model_comparison(dashboard.consortium, dashboard.model, dashboard.model);
        let page = dashboard.render(&address, true, "").await;
        assert_eq!(page.status, 422, "a model is not compared with itself: {}", page.body);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn deleted_model_shows_its_reason_and_no_download() {
        let dashboard = TestDashboard::open().await;
        let (consortium, model) = (dashboard.consortium, dashboard.model);
        let form = format!("consortium={consortium}&artifact={model}&reason=a+speaker+withdrew");
        let reply = dashboard.send("delete-model", &form, true).await;
        assert_eq!(reply.location(), path::models(consortium), "{}", reply.body);
        let page = dashboard.render(&path::model(consortium, model), true, "").await.body;
        assert!(page.contains("by Steward of North: a speaker withdrew"), "{page}");
        assert!(!page.contains("Download the model") && !page.contains("Delete this model"), "{page}");
        let list = dashboard.render(&path::models(consortium), true, "").await.body;
        assert!(list.contains("(deleted: a speaker withdrew)"), "{list}");
        let again = dashboard.send("delete-model", &form, true).await;
        assert_ne!(again.location(), path::models(consortium), "it is refused");
    }
}
