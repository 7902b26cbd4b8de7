//! Guidance for the distance: what it hides, in words and in minutes of speech, and what attacks on counts learned at it.

use leptos::prelude::*;
use undertone_api::job::transcription::Spec;
use undertone_api::job::transcription::window::{WORDS_PER_MINUTE, hidden_span, hidden_words};

use crate::words;

/// The accuracy of attacks on counts, in percent of cases, at a noise of d/ε; see the book's page on transcription.
struct MeasuredAttacks {
    /// d/ε.
    scale: u32,
    /// The task of 5, 30 and 120 minutes of dialogues.
    topic: [f64; 3],
    /// The speaker of a minute.
    style: f64,
    /// Meeting or call, from a whole conversation.
    kind: f64,
}

/// Measurements at ε = 1 and δ = 10⁻⁵, against one recognizer that receives everything. The first row is without dummies.
const MEASURED: [MeasuredAttacks; 8] = [
    MeasuredAttacks { scale: 0, topic: [100.0, 100.0, 100.0], style: 54.3, kind: 90.0 },
    MeasuredAttacks { scale: 10, topic: [46.7, 99.8, 100.0], style: 41.1, kind: 83.8 },
    MeasuredAttacks { scale: 20, topic: [26.7, 91.7, 100.0], style: 35.9, kind: 70.6 },
    MeasuredAttacks { scale: 50, topic: [18.2, 54.8, 98.7], style: 38.3, kind: 56.6 },
    MeasuredAttacks { scale: 102, topic: [13.7, 28.3, 83.8], style: 36.7, kind: 53.4 },
    MeasuredAttacks { scale: 200, topic: [10.7, 18.8, 53.0], style: 36.7, kind: 50.6 },
    MeasuredAttacks { scale: 500, topic: [12.2, 14.7, 25.2], style: 37.5, kind: 48.6 },
    MeasuredAttacks { scale: 1_000, topic: [9.0, 9.3, 16.0], style: 36.3, kind: 51.2 },
];

/// The accuracy of guessing, in percent: topic, style, kind.
const GUESSING: [f64; 3] = [10.0, 36.4, 50.0];

/// Renders the guidance for a plan's distance.
pub(super) fn render_distance(spec: &Spec) -> AnyView {
    let distance = spec.participant.distance.get();
    let epsilon = spec.counts_epsilon().unwrap_or(spec.participant.epsilon).get();
    let scale = f64::from(distance) / epsilon;
    // The last row with at most this noise: the attacks learn no more than there.
    let nearest = MEASURED.iter().rposition(|row| f64::from(row.scale) <= scale).unwrap_or(0);
    let percent = |value: f64| format!("{} %", words::number(value));
    let row = |(number, row): (usize, &MeasuredAttacks)| {
        let is_plan = number == nearest;
        let name = if row.scale == 0 { "no dummies".to_owned() } else { words::count(row.scale.into()) };
        let name = if is_plan { format!("{name}, this plan") } else { name };
        let cells = row.topic.into_iter().chain([row.style, row.kind]);
        view! {
            <tr aria-current=is_plan.then_some("true")>
                <th scope="row">{name}</th>
                {cells.map(|value| view! { <td class="number">{percent(value)}</td> }).collect_view()}
            </tr>
        }
    };
    let rows: Vec<_> = MEASURED.iter().enumerate().map(row).collect();
    let [topic, style, kind] = GUESSING.map(percent);
    view! {
        <h3>"Distance"</h3>
        <p>{describe_distance(distance)}</p>
        <details class="more">
            <summary>"What attacks on counts learned"</summary>
            <div class="scroll" tabindex="0" role="group" aria-label="Attacks by distance">
                <table class="dense">
                    <caption>"Correct guesses of an observer of counts at one recognizer that receives everything"</caption>
                    <thead>
                        <tr>
                            <th scope="col">"d / ε of the counts"</th>
                            <th scope="col" class="number">"topic, 5 minutes"</th>
                            <th scope="col" class="number">"topic, 30 minutes"</th>
                            <th scope="col" class="number">"topic, 2 hours"</th>
                            <th scope="col" class="number">"speaker by words, 1 minute"</th>
                            <th scope="col" class="number">"meeting or call"</th>
                        </tr>
                    </thead>
                    <tbody>{rows}</tbody>
                </table>
            </div>
            <p class="hint">{format!("Guessing: {topic} for topics, {style} for speakers, {kind} for meeting or call. Measured on public texts with a vocabulary of 200 words and a prototype of the attacks; other texts and better attacks can differ. The longer the recordings, the larger d must be to hide their topic.")}</p>
        </details>
    }
    .into_any()
}

/// Describes what a distance hides: the words anywhere, and the longest stretch of speech.
pub(super) fn describe_distance(distance: u32) -> String {
    let seconds = hidden_span(distance);
    let count = hidden_words(distance);
    if count == 0 {
        return format!("d = {} hides not even one spoken word.", words::count(distance.into()));
    }
    let spoken = (seconds / 60.0 * WORDS_PER_MINUTE).floor().max(1.0) as u64;
    format!(
        "d = {} hides {} anywhere in the recordings, or any one stretch of {} of speech, about {} at {} words a minute.",
        words::count(distance.into()),
        words::plural(count.into(), "spoken word"),
        if seconds < 120.0 {
            format!("{:.1} seconds", (seconds * 10.0).floor() / 10.0)
        } else {
            format!("{:.1} minutes", (seconds / 6.0).floor() / 10.0)
        },
        words::plural(spoken, "word"),
        words::number(WORDS_PER_MINUTE)
    )
}

#[cfg(test)]
mod tests {
    use super::{GUESSING, MEASURED, describe_distance};

    #[test]
    fn distance_is_described_in_words_and_minutes() {
        assert_eq!(
            describe_distance(102),
            "d = 102 hides 10 spoken words anywhere in the recordings, or any one stretch of 61.0 seconds of speech, about 152 \
             words at 150 words a minute."
        );
        assert!(
            describe_distance(10).contains("1 spoken word anywhere") && describe_distance(10).contains("1.2 seconds")
        );
        assert!(describe_distance(1_000).contains("10.7 minutes"));
        assert!(describe_distance(9).contains("not even one"));
    }

    #[test]
    fn measured_attacks_are_those_of_the_book() {
        let page = include_str!("../../../../../docs/src/explanation/transcription.md");
        for row in &MEASURED {
            let [short, middle, long] = row.topic;
            let name = if row.scale == 0 { "no dummies".to_owned() } else { row.scale.to_string() };
            let line = format!("| {name} | {short} | {middle} | {long} | {} | {} |", row.style, row.kind);
            assert!(page.contains(&line), "{line}");
        }
        let [topic, style, kind] = GUESSING;
        let line = format!("| guessing | {topic} | {topic} | {topic} | {style} | {kind} |");
        assert!(page.contains(&line), "{line}");
    }
}
