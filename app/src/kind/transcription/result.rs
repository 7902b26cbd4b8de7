//! What came of it: the promises, and of public recordings what was heard, what it cost and how many words are wrong. Of all others
//! that is in a file at the site.

use leptos::prelude::*;
use undertone_api::job::Participant;
use undertone_api::job::transcription::{Attack, Errors, Outcome, ProviderResult, Report, WordErrors};

use crate::words;

/// The result of a job.
pub(super) fn told(report: &Report, participants: &[Participant]) -> AnyView {
    let name = participants
        .iter()
        .find(|party| party.dataset == report.dataset)
        .map_or_else(|| "the recordings".to_owned(), |party| party.dataset_name.clone());
    let paid = format!(
        "The transcript of {name} is at its site. {} of the recordings, added and removed together, were protected; {} expected at {}, {} \
         words in the vocabulary.",
        words::plural(report.distance.into(), "word"),
        words::plural(report.dummies.round() as u64, "dummy").replace("dummys", "dummies"),
        words::plural(report.providers.len() as u64, "recognizer"),
        words::count(report.words.into()),
    );
    let rest = match &report.outcome {
        Some(outcome) => of_public(outcome),
        None => view! {
            <p class="quiet">"How many words are wrong, what each recognizer was sent and what it cost is in the report that the site keeps: it is computed of recordings that are not public, and was not paid for."</p>
        }
        .into_any(),
    };
    view! { <p>{paid}</p>{promises(report)}{rest} }.into_any()
}

fn promises(report: &Report) -> AnyView {
    let rows = report.promises.iter().map(|promise| {
        let many = promise.colluding.get();
        let charged = many == report.colluding;
        let who =
            if many == 1 { "one by itself".to_owned() } else { format!("{} together", words::count(many.into())) };
        let who = if charged { format!("{who}, as charged") } else { who };
        view! {
            <tr aria-current=charged.then_some("true")>
                <th scope="row">{who}</th>
                <td class="number">{words::epsilon(promise.epsilon)}</td>
                <td class="number">{words::delta(promise.delta)}</td>
            </tr>
        }
    });
    view! {
        <table class="dense">
            <caption>"What the counts of words tell, by how many recognizers put their parts together"</caption>
            <thead><tr><th scope="col">"Recognizers"</th><th scope="col" class="number">"ε"</th><th scope="col" class="number">"δ"</th></tr></thead>
            <tbody>{rows.collect_view()}</tbody>
        </table>
    }
    .into_any()
}

fn of_public(outcome: &Outcome) -> AnyView {
    let pieces = format!(
        "{} of {}: {} of speech, of which {} stayed for what is sensitive in them and {} for several words; {} without an answer.",
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
        {outcome.errors.as_ref().map(errors)}
        {providers(&outcome.providers)}
        {outcome.providers.iter().map(histogram).collect_view()}
        {(!outcome.attacks.is_empty()).then(|| attacks(&outcome.attacks))}
        {(!stages.is_empty()).then(|| view! { <p class="quiet">{format!("Time by step: {stages}.")}</p> })}
    }
    .into_any()
}

fn errors(errors: &Errors) -> AnyView {
    let row = |name: &'static str, of: WordErrors| {
        view! {
            <tr>
                <th scope="row">{name}</th>
                <td class="number">{of.rate().map_or_else(|| "–".to_owned(), |rate| format!("{:.1}", 100.0 * rate))}</td>
                <td class="number">{words::count(of.substitutions)}</td>
                <td class="number">{words::count(of.deletions)}</td>
                <td class="number">{words::count(of.insertions)}</td>
            </tr>
        }
    };
    view! {
        <table>
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

fn providers(all: &[ProviderResult]) -> AnyView {
    let rows = all.iter().map(|one| {
        view! {
            <tr>
                <th scope="row">{one.name.clone()}</th>
                <td class="number">{words::count(one.pieces)}</td>
                <td class="number">{words::count(one.dummies)}</td>
                <td class="number">{words::duration(one.seconds)}</td>
                <td class="number">{one.cost.as_ref().map_or_else(|| "–".to_owned(), ToString::to_string)}</td>
                <td class="number">{one.topic_distance.map_or_else(|| "–".to_owned(), |apart| format!("{apart:.3}"))}</td>
            </tr>
        }
    });
    view! {
        <table>
            <caption>"What each recognizer was sent"</caption>
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

fn histogram(one: &ProviderResult) -> Option<AnyView> {
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
            <caption>{format!("Words of the vocabulary by how often they were said, and how often {} heard them", one.name)}</caption>
            <thead><tr><th scope="col">"Times"</th><th scope="col" class="number">"words said"</th><th scope="col" class="number">"words heard"</th></tr></thead>
            <tbody>{rows.collect_view()}</tbody>
        </table>
    };
    Some(view.into_any())
}

fn attacks(all: &[Attack]) -> AnyView {
    let rows = all.iter().map(|attack| {
        let [low, high] = attack.interval;
        view! {
            <tr>
                <th scope="row">{attack.name.clone()}</th>
                <td class="number">{words::percent(attack.accuracy)}</td>
                <td class="number">{format!("{} to {}", words::percent(low), words::percent(high))}</td>
                <td class="number">{words::percent(attack.chance)}</td>
            </tr>
        }
    });
    view! {
        <table>
            <caption>"Attacks on what a recognizer heard"</caption>
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
