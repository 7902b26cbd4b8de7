//! The information about batches in a job's timing: an attacker who sees all times guesses, for each of 200 rounds,
//! whether the largest speaker was drawn. Once with the release clock and once without it, in the same run.
//!
//! The rounds are the product's: the run of a `dp_sgd` participant, its Poisson batches, its gradients and noise, the
//! measurement of the period and the release clock. Twelve speakers take part; the largest has as much speech as 25 of
//! the others. Half the rounds draw it. The attacker is stronger than a server: it sees times at the participant's end
//! of the line, and learns its threshold from the other half of the rounds, for which it knows the draws.
//!
//! `UNDERTONE_TIMING_ROUNDS` (200) sets the size.

mod attack;
mod participant;
mod speakers;

use serde_json::json;
use undertone_privacy::membership::rate_interval;

use self::attack::guesses;
use self::participant::{TimedJob, TimedParticipant};
use crate::report::{Outcome, Report};

/// The rounds of the job.
const ROUNDS: u32 = 200;
/// The confidence of the interval.
const CONFIDENCE: f64 = 0.95;
/// The rate of correct guesses without information: the speaker is drawn with probability one half.
const CHANCE: f64 = 0.5;

pub(crate) fn run(report: &mut Report) -> Outcome {
    let rounds = match std::env::var("UNDERTONE_TIMING_ROUNDS") {
        Ok(text) => text.parse::<u32>().map_err(|error| format!("UNDERTONE_TIMING_ROUNDS: `{text}`: {error}"))?,
        Err(_) => ROUNDS,
    };
    if rounds < 8 {
        return Err("UNDERTONE_TIMING_ROUNDS: at least 8 rounds".into());
    }
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("speakers");
    let largest = speakers::write(&data)?;
    let mut played = Vec::new();
    for on_clock in [false, true] {
        let work = folder.path().join(if on_clock { "with" } else { "without" });
        eprintln!("timing: {rounds} rounds {} the release clock", if on_clock { "with" } else { "without" });
        played.push(TimedParticipant::new(&work, &data, largest, rounds, on_clock)?.play()?);
    }
    let [without, with] = &played[..] else { return Err("two jobs are played".into()) };
    let (bare, clocked) = (TimingOutcome::new(without), TimingOutcome::new(with));
    report.line(json!({
        "kind": "dp_sgd",
        "accuracy": clocked.accuracy,
        "accuracy_lower": clocked.interval.0,
        "accuracy_upper": clocked.interval.1,
        "chance": CHANCE,
        "wall_time_ratio": with.seconds / without.seconds,
        "rounds": rounds,
        "rounds_with_the_speaker": with.rounds.iter().filter(|round| round.drawn).count(),
        "accuracy_without_clock": bare.accuracy,
        "accuracy_lower_without_clock": bare.interval.0,
        "period_seconds": with.period_seconds,
        "late": with.late,
        "seconds": with.seconds,
        "seconds_without_clock": without.seconds,
        "measuring_seconds": with.measuring_seconds,
        "attacker": "threshold on the time from the opening of a round to its vector, learned from the other half of the rounds",
    }))?;
    // Without a clock the attack must succeed; otherwise the measurement shows nothing.
    if bare.interval.0 <= CHANCE {
        return Err(
            format!("without the clock only {} of the guesses are right: the attack is broken", bare.accuracy).into()
        );
    }
    if clocked.interval.0 > CHANCE {
        return Err(format!(
            "with the clock {} of the guesses are right: the times tell who was drawn",
            clocked.accuracy
        )
        .into());
    }
    Ok(())
}

/// The result of an attack.
struct TimingOutcome {
    accuracy: f64,
    /// The interval of Clopper and Pearson.
    interval: (f64, f64),
}

impl TimingOutcome {
    fn new(played: &TimedJob) -> Self {
        let times: Vec<f64> = played.rounds.iter().map(|round| round.seconds).collect();
        let truths: Vec<bool> = played.rounds.iter().map(|round| round.drawn).collect();
        let right = guesses(&times, &truths).iter().zip(&truths).filter(|(guess, truth)| guess == truth).count() as u64;
        let all = truths.len() as u64;
        Self { accuracy: right as f64 / all as f64, interval: rate_interval(right, all, CONFIDENCE) }
    }
}
