//! The result: the promises, and, for public recordings, the transcribed pieces, their cost and the word errors. For
//! all others these are in a file at the site.

use leptos::prelude::*;
use undertone_api::job::JobParticipant;
use undertone_api::job::transcription::{
    ProviderResult, Report, TranscriptErrors, TranscriptionAttack, TranscriptionOutcome, UntriedAttack, WordErrors,
};

use super::promises::render_promises;
use crate::words;

/// Renders the result of a job.
pub(super) fn render_result(report: &Report, participants: &[JobParticipant]) -> AnyView {
    let name = participants
        .iter()
        .find(|party| party.dataset == report.dataset)
        .map_or_else(|| "the recordings".to_owned(), |party| party.dataset_name.clone());
    let rest = match &report.outcome {
        Some(outcome) => render_outcome(outcome),
        None => view! {
            <p>"Not shown here: word error rates, the pieces sent to each recognizer and their price. They derive from recordings that are not public, and their release was not charged. They are in the site’s report beside the transcripts, in its folder "<code>"transcripts/"</code>", under this job’s number, readable by its owner."</p>
        }
        .into_any(),
    };
    view! { <p>{format!("The transcript of {name} stays at its site.")}</p>{render_plan(report)}{render_promises(&report.promises, report.colluding)}<p class="hint">{words::DUMMY_DETECTION}</p>{rest} }
        .into_any()
}

/// Renders the plan, which is known for any recordings.
fn render_plan(report: &Report) -> AnyView {
    let expected = format!("{} expected at all recognizers together", words::count(report.dummies.round() as u64));
    let noise = format!(
        "rate {} nats per word, shift {} dummies",
        words::number(report.rate),
        words::count(report.shift.into())
    );
    let facts = [
        (
            "Protected",
            format!("{} of pieces by word, added and removed together", words::plural(report.distance.into(), "count")),
        ),
        ("Recognizers", words::join_names(&report.providers.iter().map(String::as_str).collect::<Vec<_>>())),
        ("Vocabulary", words::plural(report.words.into(), "word")),
        ("Dummies", expected),
        ("Noise", noise),
    ];
    view! {
        <dl class="facts">
            {facts.into_iter().map(|(term, description)| view! { <div><dt>{term}</dt><dd>{description}</dd></div> }).collect_view()}
        </dl>
    }
    .into_any()
}

fn render_outcome(outcome: &TranscriptionOutcome) -> AnyView {
    let pieces = format!(
        "{} of {}: {} of speech; {} stayed for sensitive content and {} for several words; {} without an answer.",
        words::plural(outcome.recordings, "recording"),
        words::duration(outcome.seconds),
        words::plural(outcome.pieces, "piece"),
        words::count(outcome.sensitive),
        words::count(outcome.crowded),
        words::count(outcome.unanswered),
    );
    let stages = outcome.stages.iter().map(|stage| format!("{} {}", stage.name, words::duration(stage.seconds)));
    let stages = stages.collect::<Vec<_>>().join(", ");
    view! {
        <p class="quiet">{pieces}</p>
        {outcome.errors.as_ref().map(render_errors)}
        {render_providers(&outcome.providers)}
        {outcome.providers.iter().map(render_histogram).collect_view()}
        {(!outcome.attacks.is_empty()).then(|| render_attacks(&outcome.attacks))}
        {(!outcome.untried.is_empty()).then(|| render_untried_attacks(&outcome.untried))}
        {(!stages.is_empty()).then(|| view! { <p class="quiet">{format!("Time by step: {stages}.")}</p> })}
    }
    .into_any()
}

fn render_errors(errors: &TranscriptErrors) -> AnyView {
    let row = |name: &'static str, of: WordErrors| {
        view! {
            <tr>
                <th scope="row">{name}</th>
                <td data-label="wrong, %" class="number">{of.rate().map_or_else(|| "–".to_owned(), |rate| format!("{:.1}", 100.0 * rate))}</td>
                <td data-label="others" class="number">{words::count(of.substitutions)}</td>
                <td data-label="missing" class="number">{words::count(of.deletions)}</td>
                <td data-label="too many" class="number">{words::count(of.insertions)}</td>
            </tr>
        }
    };
    view! {
        <table class="cards">
            <caption>{format!("Word error rate on {} of references", words::plural(errors.ours.words, "word"))}</caption>
            <thead>
                <tr>
                    <th scope="col">"Transcript"</th>
                    <th scope="col" class="number">"wrong, %"</th>
                    <th scope="col" class="number">"others"</th>
                    <th scope="col" class="number">"missing"</th>
                    <th scope="col" class="number">"too many"</th>
                </tr>
            </thead>
            <tbody>
                {errors.cloud.map(|cloud| row("cloud alone, without protection", cloud))}
                {row("offline alone", errors.offline)}
                {row("ours", errors.ours)}
            </tbody>
        </table>
    }
    .into_any()
}

fn render_providers(all: &[ProviderResult]) -> AnyView {
    let rows = all.iter().map(|one| {
        view! {
            <tr>
                <th scope="row">{one.name.clone()}</th>
                <td data-label="true pieces" class="number">{words::count(one.pieces)}</td>
                <td data-label="dummies" class="number">{words::count(one.dummies)}</td>
                <td data-label="speech" class="number">{words::duration(one.seconds)}</td>
                <td data-label="cost" class="number">{one.cost.as_ref().map_or_else(|| "–".to_owned(), ToString::to_string)}</td>
                <td data-label="topic distance" class="number">{one.topic_distance.map_or_else(|| "–".to_owned(), |apart| format!("{apart:.3}"))}</td>
            </tr>
        }
    });
    view! {
        <table class="cards">
            <caption>"Pieces sent to each recognizer; topic distance is 0 for equal word frequencies, and at most 1"</caption>
            <thead>
                <tr>
                    <th scope="col">"Recognizer"</th>
                    <th scope="col" class="number">"true pieces"</th>
                    <th scope="col" class="number">"dummies"</th>
                    <th scope="col" class="number">"speech"</th>
                    <th scope="col" class="number">"cost"</th>
                    <th scope="col" class="number">"topic distance"</th>
                </tr>
            </thead>
            <tbody>{rows.collect_view()}</tbody>
        </table>
    }
    .into_any()
}

fn render_histogram(one: &ProviderResult) -> Option<AnyView> {
    if one.histogram.is_empty() {
        return None;
    }
    let rows = one.histogram.iter().map(|bin| {
        let least = words::count(bin.occurrences);
        let times = match bin.occurrences {
            0 => "never".to_owned(),
            1 => "once".to_owned(),
            n => format!("{least} to {} times", words::count(n.saturating_mul(2).saturating_sub(1))),
        };
        view! {
            <tr>
                <th scope="row">{times}</th>
                <td class="number">{words::count(bin.said)}</td>
                <td class="number">{words::count(bin.heard)}</td>
            </tr>
        }
    });
    let view = view! {
        <table class="dense">
            <caption>{format!("Words of the vocabulary by count, as said and as heard by {}", one.name)}</caption>
            <thead><tr><th scope="col">"Times"</th><th scope="col" class="number">"words said"</th><th scope="col" class="number">"words heard"</th></tr></thead>
            <tbody>{rows.collect_view()}</tbody>
        </table>
    };
    Some(view.into_any())
}

fn render_attacks(all: &[TranscriptionAttack]) -> AnyView {
    let rows = all.iter().map(|attack| {
        let [low, high] = attack.interval;
        view! {
            <tr>
                <th scope="row">{attack.name.clone()}</th>
                <td data-label="right" class="number">{words::percent(attack.accuracy)}</td>
                <td data-label="95 % interval" class="number">{format!("{} to {}", words::percent(low), words::percent(high))}</td>
                <td data-label="by guessing" class="number">{words::percent(attack.chance)}</td>
            </tr>
        }
    });
    view! {
        <table class="cards">
            <caption>"Attacks by a recognizer"</caption>
            <thead>
                <tr>
                    <th scope="col">"Attack"</th>
                    <th scope="col" class="number">"right"</th>
                    <th scope="col" class="number">"95 % interval"</th>
                    <th scope="col" class="number">"by guessing"</th>
                </tr>
            </thead>
            <tbody>{rows.collect_view()}</tbody>
        </table>
    }
    .into_any()
}

/// Renders the providers without an attempted attack, with the reasons: without them it would seem that an attack
/// learned nothing.
fn render_untried_attacks(all: &[UntriedAttack]) -> AnyView {
    let rows = all.iter().map(|one| view! { <li>{format!("{}: {}.", one.provider, one.why)}</li> });
    view! {
        <p>"Untried attacks:"</p>
        <ul>{rows.collect_view()}</ul>
    }
    .into_any()
}
