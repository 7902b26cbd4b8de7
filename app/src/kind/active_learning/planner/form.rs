//! The fields of the planner.

use leptos::prelude::*;
use undertone_api::budget::AccountStanding;
use undertone_api::dataset::{Dataset, Visibility};
use undertone_api::id::{ConsortiumId, DatasetId};
use undertone_api::job::active_learning::{Acquisition, Aggregation, Encoder, MOST_MEASUREMENTS};
use undertone_privacy::PrivacyUnit;
use undertone_privacy::kanon::Shown;

use super::super::plan::{LogPart, QuestionPlan};
use super::{WORD, cost};
use crate::component::said::VisibilityMark;
use crate::kind::field::{
    form_options, form_word, render_checkbox, render_choice, render_line, render_number, render_row_number, render_text,
};
use crate::kind::priced_form::PricedForm;
use crate::path;
use crate::words;

/// The released content of a log and the bound by which it is charged, dearest first.
pub(super) const SHOWN: [(Shown, &str); 5] = [
    (Shown::Counts, "counts, published bound"),
    (Shown::CountsTight, "counts, exact bound"),
    (Shown::CountsRenyi, "counts, exact Rényi loss"),
    (Shown::Set, "texts only"),
    (Shown::SetRenyi, "texts, exact Rényi loss"),
];

/// Renders the whole planner for a plan.
pub(in crate::kind::active_learning) fn render_planner(
    plan: &QuestionPlan,
    datasets: &[Dataset],
    standings: &[(DatasetId, Vec<AccountStanding>)],
    consortium: ConsortiumId,
) -> AnyView {
    let cost = cost::render_cost(plan, datasets, standings, consortium);
    let parties = datasets.iter().enumerate().filter_map(|(index, dataset)| {
        let part = plan.part(dataset.id)?;
        Some(render_party(index, dataset, part, plan))
    });
    let parties = parties.collect_view();
    let fields = view! {
            {render_job(plan)}
            <fieldset>
                <legend>"Participants"</legend>
                {render_lead(plan, datasets)}
                <div class="parties">{parties}</div>
                <p class="hint"><a href=path::THRESHOLDS>"Table of thresholds"</a></p>
            </fieldset>
            {render_questions(plan)}
            {render_classifier(plan)}
            {render_rehearsal(plan)}
    }
    .into_any();
    view! {
        <PricedForm word=WORD.to_owned() consortium=consortium.to_string() again=path::plan(consortium) cost>{fields}</PricedForm>
    }
    .into_any()
}

fn render_job(plan: &QuestionPlan) -> AnyView {
    let units = form_options(&[
        (PrivacyUnit::Record, "row: one asked question"),
        (PrivacyUnit::User, "user: all questions of one user"),
    ]);
    view! {
        <fieldset>
            <legend>"Job"</legend>
            {render_line("ask[title]".to_owned(), "Title", plan.title.clone(), "Shown to the consortium", true)}
            {render_choice("ask[unit]".to_owned(), "Protect each", &form_word(&plan.unit), units)}
            {render_text("ask[labels]", "Labels, one per line: name | key | hint", plan.labels.clone(), "billing | b | prices and invoices", 6)}
            {render_text("ask[guidelines]", "Guidelines for annotators", plan.guidelines.clone(), "Label the person's request.", 4)}
        </fieldset>
    }
    .into_any()
}

fn render_lead(plan: &QuestionPlan, datasets: &[Dataset]) -> AnyView {
    let labelled = datasets.iter().filter(|dataset| dataset.classes > 0);
    let name = |dataset: &Dataset| match dataset.visibility {
        Visibility::Public => dataset.name.clone(),
        Visibility::Private | Visibility::Open => format!("{}, private", dataset.name),
    };
    let leads = labelled.map(|dataset| (dataset.id.to_string(), name(dataset))).collect();
    render_choice(
        "ask[lead]".to_owned(),
        "Lead: trains the classifier and chooses the questions",
        &plan.lead.to_string(),
        leads,
    )
}

/// Renders one dataset's row of the form.
fn render_party(index: usize, dataset: &Dataset, part: &LogPart, plan: &QuestionPlan) -> AnyView {
    let name = |field: &str| format!("ask[parts][{index}][{field}]");
    let public = dataset.visibility == Visibility::Public;
    let leads = plan.lead == dataset.id;
    let labelled = dataset.classes > 0;
    let rows = words::plural(dataset.records.0, "row");
    let gate = if public {
        view! {
            {leads.then(|| render_checkbox(name("asks"), "Contribute its own questions", part.asks, false))}
            <input type="hidden" name=name("epsilon") value=part.epsilon.to_string()/>
            <input type="hidden" name=name("shown") value=form_word(&part.shown)/>
            <input type="hidden" name=name("rows") value=part.rows.to_string()/>
        }
        .into_any()
    } else {
        view! {
            {render_row_number(name("epsilon"), "ε", part.epsilon, (0.0, 100.0), false)}
            {render_row_number(name("rows"), "Most texts per user", f64::from(part.rows), (1.0, 1000.0), true)}
            {render_choice(name("shown"), "Form of release", &form_word(&part.shown), form_options(&SHOWN))}
        }
        .into_any()
    };
    view! {
        <div class="party">
            <input type="hidden" name=name("dataset") value=dataset.id.to_string()/>
            <div class="party-head">
                <label class="check">
                    <input type="checkbox" name=name("joins") value="true" checked=part.joins || leads disabled=leads/>
                    <strong>{dataset.name.clone()}</strong>
                </label>
                <span class="party-owner">{dataset.organization_name.clone()}" "<VisibilityMark visibility=dataset.visibility/>" "{rows}</span>
                {(public && labelled).then(|| render_checkbox(name("tests"), "Evaluate on it", part.tests, false))}
                {(!public && labelled && !leads).then(|| render_checkbox(name("measures"), "Measure on it with noise", part.measures, false))}
            </div>
            <div class="party-fields">
                {render_row_number(name("rate"), "Sampling rate β", part.rate, (0.0, 1.0), false)}
                {render_row_number(name("threshold"), "Threshold k", f64::from(part.threshold), (1.0, 1e6), true)}
                {gate}
            </div>
        </div>
    }
    .into_any()
}

fn render_questions(plan: &QuestionPlan) -> AnyView {
    let acquisitions: Vec<_> = Acquisition::ALL.map(|one| (one, one.label())).into();
    let aggregations = form_options(&[
        (Aggregation::Majority, "majority label"),
        (Aggregation::DawidSkene, "weighted by the annotators' agreement (Dawid and Skene)"),
    ]);
    view! {
        <fieldset>
            <legend>"Questions"</legend>
            {render_number("ask[rounds]".to_owned(), "Rounds", f64::from(plan.rounds), (1.0, 1000.0), true)}
            {render_number("ask[batch]".to_owned(), "Questions per round", f64::from(plan.batch), (1.0, 10_000.0), true)}
            {render_number("ask[annotators]".to_owned(), "Annotators per question", f64::from(plan.annotators), (1.0, 20.0), true)}
            {render_number("ask[hours]".to_owned(), "Round deadline, hours", plan.hours, (0.001, 720.0), false)}
            {render_choice("ask[acquisition]".to_owned(), "Acquisition", &form_word(&plan.acquisition), form_options(&acquisitions))}
            {render_choice("ask[aggregation]".to_owned(), "Aggregation of answers", &form_word(&plan.aggregation), aggregations)}
            {render_checkbox("ask[diversity]".to_owned(), "Diverse questions within a round", plan.diversity, false)}
            <p class="hint">"These settings cost nothing: they use released texts and answers."</p>
        </fieldset>
    }
    .into_any()
}

fn render_classifier(plan: &QuestionPlan) -> AnyView {
    let classifier = plan.classifier;
    let encoders = form_options(&[(Encoder::Bag, "bag of n-grams"), (Encoder::Lstm, "LSTM over words")]);
    let name = |field: &str| format!("ask[classifier][{field}]");
    view! {
        <fieldset>
            <legend>"Classifier"</legend>
            {render_number("ask[golden]".to_owned(), "Labelled examples at the start", f64::from(plan.golden), (1.0, 1e6), true)}
            {render_choice(name("encoder"), "Text encoder", &form_word(&classifier.encoder), encoders)}
            <details>
                <summary>"Size and training"</summary>
                {render_number(name("buckets"), "Hash buckets", f64::from(classifier.buckets), (256.0, 1_048_576.0), true)}
                {render_number(name("embedding"), "Embedding", f64::from(classifier.embedding), (1.0, 1024.0), true)}
                {render_number(name("hidden"), "Hidden units", f64::from(classifier.hidden), (1.0, 2048.0), true)}
                {render_number(name("dropout"), "Dropout", classifier.dropout, (0.0, 0.9), false)}
                {render_number(name("passes"), "Passes with dropout to estimate uncertainty", f64::from(classifier.passes), (1.0, 1000.0), true)}
                {render_number(name("epochs"), "Training epochs", f64::from(classifier.epochs), (1.0, 1000.0), true)}
                {render_number(name("batch"), "Batch size", f64::from(classifier.batch), (1.0, 4096.0), true)}
                {render_number(name("learning_rate"), "Learning rate", classifier.learning_rate, (0.0, 1.0), false)}
            </details>
            {render_training(plan)}
            {render_measurement(plan)}
        </fieldset>
    }
    .into_any()
}

/// Renders the fields of a private lead's training, which have no effect on a public one.
fn render_training(plan: &QuestionPlan) -> AnyView {
    let training = &plan.training;
    let name = |field: &str| format!("ask[training][{field}]");
    view! {
        <details>
            <summary>"Training of a private lead"</summary>
            <p class="hint">
                "A private lead trains by DP-SGD on its labelled rows, before the first question and after each round. Each training is charged. Its rows have labels, so it asks no questions of its own."
            </p>
            {render_number(name("rate"), "Sampling rate q", training.rate, (0.0, 1.0), false)}
            {render_number(name("noise"), "Noise multiplier z", training.noise, (1.0 / 1024.0, 1024.0), false)}
            {render_number(name("clip"), "Clip C", training.clip, (0.0, 1e6), false)}
            {render_number(name("steps"), "Steps per training", f64::from(training.steps), (1.0, 10_000.0), true)}
            {render_number(name("learning_rate"), "Learning rate with noise", training.learning_rate, (0.0, 1.0), false)}
        </details>
    }
    .into_any()
}

/// Renders the fields of the measurement on a private log.
fn render_measurement(plan: &QuestionPlan) -> AnyView {
    let measurement = &plan.measurement;
    let name = |field: &str| format!("ask[measurement][{field}]");
    let most = f64::from(MOST_MEASUREMENTS);
    view! {
        <details>
            <summary>"Measurement on a private log"</summary>
            <p class="hint">
                "A labelled private log that is marked to be measured on releases noisy histograms of scores. Each measured classifier is charged: the last one; of two or more also the first, and the others between."
            </p>
            {render_number(name("noise"), "Noise multiplier of a measurement", measurement.noise, (1.0 / 1024.0, 1024.0), false)}
            {render_number(name("count"), "Measured classifiers", f64::from(measurement.count), (1.0, most), true)}
        </details>
    }
    .into_any()
}

fn render_rehearsal(plan: &QuestionPlan) -> AnyView {
    let rehearsal = &plan.trials;
    let name = |field: &str| format!("ask[trials][{field}]");
    view! {
        <fieldset>
            <legend>"Rehearsal on the lead’s public log"</legend>
            {render_checkbox(name("on"), "Measure the accuracy at each rate and threshold", rehearsal.on, false)}
            {render_line(name("rates"), "Sampling rates β", rehearsal.rates.clone(), "0.1, 0.25", true)}
            {render_line(name("thresholds"), "Thresholds k", rehearsal.thresholds.clone(), "5, 10", true)}
            {render_number(name("questions"), "Questions per trial", f64::from(rehearsal.questions), (1.0, 100_000.0), true)}
            {render_number(name("repeats"), "Repeats", f64::from(rehearsal.repeats), (1.0, 20.0), true)}
            {render_number(name("accuracy"), "Mean accuracy of the simulated annotators", rehearsal.accuracy, (0.0, 1.0), false)}
            {render_number(name("deviation"), "Standard deviation of their accuracy", rehearsal.deviation, (0.0, 0.5), false)}
        </fieldset>
    }
    .into_any()
}
