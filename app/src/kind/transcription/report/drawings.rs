//! The drawings of a transcription's promises and outcome: each has its numbers as a table and as files. For recordings
//! that are not public there are the promises and the noise, which follow from the plan.

use leptos::prelude::*;
use undertone_api::job::transcription::{
    ProviderResult, Report, StageDuration, TranscriptErrors, TranscriptionAttack, TranscriptionOutcome,
};
use undertone_privacy::Epsilon;
use undertone_privacy::histogram::TruncatedLaplace;

use crate::component::drawing::{BarDrawing, BarOutline, LevelBar, LevelDrawing, StaticDrawing};
use crate::words;

/// The number of draws that a drawing of probabilities shows.
const DRAWS: f64 = 1_000.0;
/// The largest number of its bars.
const MOST_BARS: u64 = 40;
/// The standard deviations of the dummies beyond which it ends.
const REACH: f64 = 4.0;

/// Renders all drawings; empty for a report without promises.
pub(super) fn render_section(report: &Report) -> AnyView {
    let mut drawings: Vec<StaticDrawing> = draw_promises(report).into_iter().chain(draw_noise(report)).collect();
    if let Some(outcome) = &report.outcome {
        drawings.extend(draw_outcome(outcome));
    }
    if drawings.is_empty() {
        return ().into_any();
    }
    view! {
        <section class="charts few" aria-label="Charts of recognition and protection">
            {drawings.into_iter().map(StaticDrawing::show).collect_view()}
        </section>
    }
    .into_any()
}

/// Draws ε against the number of colluding recognizers.
fn draw_promises(report: &Report) -> Option<StaticDrawing> {
    let rows = report.promises.iter().map(|promise| LevelBar {
        name: describe_colluders(promise.colluding.get()),
        value: promise.epsilon,
        label: words::epsilon(promise.epsilon),
        is_chosen: promise.colluding.get() == report.colluding,
        ..LevelBar::default()
    });
    let levels = LevelDrawing {
        title: "ε by number of colluding recognizers".to_owned(),
        file: "promises".to_owned(),
        note: format!("At a distance of {}. Filled: as charged.", words::plural(report.distance.into(), "count")),
        of: "recognizers".to_owned(),
        x: "ε, nats".to_owned(),
        scale: 1.0,
        rows: rows.collect(),
        mark: String::new(),
    };
    levels.draw()
}

/// Draws the count of a word at one recognizer: of a word in no piece, whose sounds are dummies, and of a word in d pieces
/// there. How far both overlap is the protection of d counts; both depend on the plan alone.
fn draw_noise(report: &Report) -> Option<StaticDrawing> {
    let noise = TruncatedLaplace::new(Epsilon::new(report.rate).ok()?, report.shift).ok()?;
    let distance = u64::from(report.distance);
    let end = (noise.mean() + distance as f64 + REACH * noise.variance().sqrt()).ceil() as u64;
    let width = end.div_ceil(MOST_BARS).max(1);
    let draws = |from: u64, pieces: u64| {
        let dummies = (from..from + width).filter_map(|count| count.checked_sub(pieces));
        (DRAWS * dummies.map(|dummies| noise.probability(dummies)).sum::<f64>()).round() as u64
    };
    let edges: Vec<u64> = (0..end).step_by(width as usize).collect();
    let bar = |edge: &u64| (*edge as f64, (*edge + width) as f64, draws(*edge, 0));
    let pieces = words::plural(distance, "piece");
    let bars = BarDrawing {
        title: "Count of a word at one recognizer".to_owned(),
        file: "noise".to_owned(),
        note: format!(
            "Filled: a word in no piece. Dashed outline: a word in {pieces} at this recognizer. Of {} draws of the dummies.",
            words::count(DRAWS as u64)
        ),
        x: "sounds with the word".to_owned(),
        y: "draws".to_owned(),
        name: "in no piece".to_owned(),
        counts: edges.iter().map(bar).collect(),
        outline: Some(BarOutline {
            name: format!("in {pieces}"),
            counts: edges.iter().map(|edge| draws(*edge, distance)).collect(),
        }),
        is_logarithmic: false,
        marks: Vec::new(),
    };
    Some(bars.draw())
}

fn describe_colluders(many: u32) -> String {
    if many == 1 { "one recognizer".to_owned() } else { format!("{} together", words::count(many.into())) }
}

fn draw_outcome(outcome: &TranscriptionOutcome) -> Vec<StaticDrawing> {
    let mut all: Vec<StaticDrawing> = outcome.errors.as_ref().and_then(draw_errors).into_iter().collect();
    all.extend(outcome.providers.iter().filter_map(draw_histogram));
    all.extend(draw_topics(&outcome.providers));
    all.extend(draw_attacks(&outcome.attacks));
    all.extend(draw_costs(&outcome.providers));
    all.extend(draw_stages(&outcome.stages));
    all
}

/// Draws the word error rates of the three transcripts.
fn draw_errors(errors: &TranscriptErrors) -> Option<StaticDrawing> {
    let transcripts =
        [("cloud alone", errors.cloud), ("offline alone", Some(errors.offline)), ("ours", Some(errors.ours))];
    let rows = transcripts.into_iter().filter_map(|(name, wrong)| {
        let rate = wrong?.rate()?;
        Some(LevelBar {
            name: name.to_owned(),
            value: rate,
            label: words::percent(rate),
            is_chosen: name == "ours",
            ..LevelBar::default()
        })
    });
    let levels = LevelDrawing {
        title: "Word error rate".to_owned(),
        file: "word-errors".to_owned(),
        note: format!(
            "On {} of references. Filled: the transcript of this job.",
            words::plural(errors.ours.words, "word")
        ),
        of: "transcript".to_owned(),
        x: "words wrong, %".to_owned(),
        scale: 100.0,
        rows: rows.collect(),
        mark: String::new(),
    };
    levels.draw()
}

/// Draws the true frequencies of words, and those that a recognizer could count.
fn draw_histogram(one: &ProviderResult) -> Option<StaticDrawing> {
    let most = one.histogram.iter().map(|bin| bin.occurrences).max()?;
    let powers = std::iter::successors(Some(1_u64), |edge| edge.checked_mul(2)).take_while(|edge| *edge <= most);
    let edges: Vec<u64> = std::iter::once(0).chain(powers).collect();
    let bin = |edge: u64| one.histogram.iter().find(|bin| bin.occurrences == edge);
    let below = |edge: u64| if edge == 0 { 1.0 } else { edge as f64 * 2.0 };
    let bar = |edge: &u64| (*edge as f64, below(*edge), bin(*edge).map_or(0, |bin| bin.heard));
    let bars = BarDrawing {
        title: format!("Counts of words, as said and as heard by {}", one.name),
        file: format!("histogram-{}", one.name.replace(|c: char| !c.is_ascii_alphanumeric(), "-")),
        note: "Filled: heard, dummies included. Dashed outline: said. At the left end: zero.".to_owned(),
        x: "times".to_owned(),
        y: "words".to_owned(),
        name: "heard".to_owned(),
        counts: edges.iter().map(bar).collect(),
        outline: Some(BarOutline {
            name: "said".to_owned(),
            counts: edges.iter().map(|edge| bin(*edge).map_or(0, |bin| bin.said)).collect(),
        }),
        is_logarithmic: true,
        marks: Vec::new(),
    };
    Some(bars.draw())
}

/// Draws the distance of each recognizer's topics from the true ones.
fn draw_topics(all: &[ProviderResult]) -> Option<StaticDrawing> {
    let rows = all.iter().filter_map(|one| {
        let apart = one.topic_distance?;
        Some(LevelBar {
            name: one.name.clone(),
            value: apart,
            label: format!("{apart:.3}"),
            is_chosen: true,
            ..LevelBar::default()
        })
    });
    let levels = LevelDrawing {
        title: "Topic distance".to_owned(),
        file: "topic-distance".to_owned(),
        note: "Jensen-Shannon distance of said and heard words: 0 if equal, at most 1.".to_owned(),
        of: "recognizer".to_owned(),
        x: "distance".to_owned(),
        scale: 1.0,
        rows: rows.collect(),
        mark: String::new(),
    };
    levels.draw()
}

/// Draws the accuracy of attacks against the accuracy of guessing.
fn draw_attacks(all: &[TranscriptionAttack]) -> Option<StaticDrawing> {
    let rows = all.iter().map(|attack| LevelBar {
        name: attack.name.clone(),
        value: attack.accuracy,
        label: words::percent(attack.accuracy),
        interval: Some((attack.interval[0], attack.interval[1])),
        mark: Some(attack.chance),
        is_chosen: false,
    });
    let levels = LevelDrawing {
        title: "Attacks by a recognizer".to_owned(),
        file: "attacks".to_owned(),
        note: "Whiskers: 95 % interval. Vertical line: guessing; values near it reveal little.".to_owned(),
        of: "attack".to_owned(),
        x: "correct, %".to_owned(),
        scale: 100.0,
        rows: rows.collect(),
        mark: "by guessing, %".to_owned(),
    };
    levels.draw()
}

/// Draws the cost of each recognizer, a drawing for each currency.
fn draw_costs(all: &[ProviderResult]) -> Vec<StaticDrawing> {
    let mut currencies: Vec<&str> = all.iter().filter_map(|one| Some(one.cost.as_ref()?.currency.as_str())).collect();
    currencies.sort_unstable();
    currencies.dedup();
    let draw_currency = |currency: &str| {
        let rows = all.iter().filter_map(|one| {
            let cost = one.cost.as_ref().filter(|cost| cost.currency == currency)?;
            Some(LevelBar {
                name: one.name.clone(),
                value: cost.nanos as f64 / 1e9,
                label: cost.to_string(),
                is_chosen: true,
                ..LevelBar::default()
            })
        });
        let levels = LevelDrawing {
            title: format!("Money by recognizer, {currency}"),
            file: format!("money-{}", currency.to_lowercase()),
            note: "By the site’s prices, dummies included.".to_owned(),
            of: "recognizer".to_owned(),
            x: currency.to_owned(),
            scale: 1.0,
            rows: rows.collect(),
            mark: String::new(),
        };
        levels.draw()
    };
    currencies.into_iter().filter_map(draw_currency).collect()
}

/// Draws the time of each step.
fn draw_stages(all: &[StageDuration]) -> Option<StaticDrawing> {
    let rows = all.iter().map(|stage| LevelBar {
        name: stage.name.clone(),
        value: stage.seconds,
        label: words::duration(stage.seconds),
        is_chosen: true,
        ..LevelBar::default()
    });
    let levels = LevelDrawing {
        title: "Time by step".to_owned(),
        file: "time".to_owned(),
        note: String::new(),
        of: "step".to_owned(),
        x: "seconds".to_owned(),
        scale: 1.0,
        rows: rows.collect(),
        mark: String::new(),
    };
    levels.draw()
}
