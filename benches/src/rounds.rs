//! The cost of a round besides computing: a vector of 8 MB from each of 3 and of 20 participants, averaged and returned
//! to all. The same run measures Flower's round of the same vector, and the bare copy of the same bytes over loopback.
//!
//! Overhead is a round's wall time less its slowest participant's computing and less the copy. Computing takes no time
//! here: every participant has its vector when the round begins.
//!
//! Environment variables set the sizes, so that a smoke run is small: `UNDERTONE_ROUNDS_PARTICIPANTS` (`3,20`, each at
//! least 2), `UNDERTONE_ROUNDS_COUNT` (7). The vector is always that of the paper's model. Progress is printed on
//! standard error.

mod copy;
mod participant;
mod peer;
mod scene;

use std::time::Instant;

use serde_json::{Value, json};
use support::stage::TestResult;

use self::participant::StepTimes;
use self::scene::{RoundMeasurement, RoundScene};
use crate::report::{Outcome, Report};

/// The paper's model, with a vector of 8 MB: 13 coefficients, 200 units, 9,096 classes.
const INPUTS: usize = 13;
const HIDDEN: usize = 200;
const CLASSES: usize = 9096;
/// The number of values in a vector: 1,999,496.
const NUMBERS: usize = 4 * HIDDEN * (INPUTS + HIDDEN + 1) + CLASSES * (HIDDEN + 1);
/// The size of a vector in memory, in the copy and in Flower, bytes.
const BYTES: usize = NUMBERS * size_of::<f32>();
/// The numbers of participants, one scene after another.
const PARTICIPANTS: &str = "3,20";
/// The number of measured rounds. One unmeasured round precedes them, because it includes initialization.
const ROUNDS: usize = 7;

/// The requested sizes.
struct RoundSizes {
    participants: Vec<usize>,
    rounds: usize,
}

impl RoundSizes {
    fn from_environment() -> Result<Self, Box<dyn std::error::Error>> {
        let list = std::env::var("UNDERTONE_ROUNDS_PARTICIPANTS").unwrap_or_else(|_| PARTICIPANTS.to_owned());
        let participants = list.split(',').map(|text| text.trim().parse::<usize>()).collect::<Result<Vec<_>, _>>();
        let participants = participants.map_err(|error| format!("UNDERTONE_ROUNDS_PARTICIPANTS: `{list}`: {error}"))?;
        if participants.iter().any(|number| *number < 2) {
            return Err(format!("UNDERTONE_ROUNDS_PARTICIPANTS: `{list}`: a round has at least 2 participants").into());
        }
        let rounds = match std::env::var("UNDERTONE_ROUNDS_COUNT") {
            Ok(text) => text.parse::<usize>().map_err(|error| format!("UNDERTONE_ROUNDS_COUNT: `{text}`: {error}"))?,
            Err(_) => ROUNDS,
        };
        if rounds == 0 {
            return Err("UNDERTONE_ROUNDS_COUNT: measure at least 1 round".into());
        }
        Ok(Self { participants, rounds })
    }
}

/// Prints a progress message.
fn say(begun: Instant, what: &str) {
    eprintln!("rounds, {:.1} s: {what}", begun.elapsed().as_secs_f64());
}

pub(crate) fn run(report: &mut Report) -> Outcome {
    let (sizes, begun) = (RoundSizes::from_environment()?, Instant::now());
    let rounds = sizes.rounds + 1;
    say(begun, &format!("scenes of {:?} participants, {rounds} rounds each, ours and Flower's", sizes.participants));
    let peer = peer::RoundPeer::find();
    if let Err(reason) = &peer {
        report.line(json!({ "peer": "left out", "because": reason.to_string() }))?;
    }
    report.line(json!({
        "vector": {
            "model": format!("{INPUTS}-{HIDDEN}-{CLASSES}"), "numbers": NUMBERS, "bytes": BYTES, "precision": "f32",
            "computing_seconds": 0,
        },
        "rounds": sizes.rounds, "profile": if cfg!(debug_assertions) { "dev" } else { "release" },
        "versions": peer.as_ref().ok().map(|peer| peer.versions.clone()),
        "ours_in": "the server's program on SQLite with its objects in a folder, without TLS; for each participant the worker's own \
            rooms as its daemon calls them: whether the round is closed, policy, ledger and signed receipt (on disk), packing, the \
            vector on disk, sending with receipts, the note that it arrived, the server's log, the mean",
        "ours_out": "training and noise; the job's log; renewing leases, which has a clock of its own; the price of a release, \
            because the data are open and their vectors exact (`make bench NAME=ledger` has it); processes of their own, because \
            all participants are threads of one program",
        "flower_in": "FedAvg over gRPC without TLS by start_server and start_client, whose streams stay open; each client a process \
            of its own; from the beginning of configure_fit to the end of aggregate_fit; nothing is kept on a disk",
    }))?;
    for participants in sizes.participants {
        measure_participants(report, peer.as_ref().ok(), participants, sizes.rounds, begun)?;
    }
    Ok(())
}

/// A round's seconds, and its slowest participant's computing time.
struct RoundTime {
    wall: f64,
    computing: f64,
}

/// Measures all three with so many participants.
fn measure_participants(
    report: &mut Report,
    peer: Option<&peer::RoundPeer>,
    participants: usize,
    rounds: usize,
    begun: Instant,
) -> Outcome {
    let mut copies = copy::seconds(participants, BYTES, rounds)?;
    say(begun, &format!("{participants} participants: copied; ours are coming"));
    let ours = ours(report, participants, rounds, begun)?;
    say(begun, &format!("{participants} participants: Flower's rounds"));
    let theirs = peer.map(|peer| peer.measure(participants, NUMBERS, rounds)).transpose()?;
    // Once more, so that one busy moment of the machine does not determine the result.
    copies.extend(copy::seconds(participants, BYTES, rounds)?);
    let copy = median(copies.iter().copied());
    report.line(json!({
        "what": "the bare copy over loopback, both ways", "participants": participants, "bytes": 2 * participants * BYTES,
        "seconds": figures(copies.iter().copied()),
    }))?;
    let ours = tell(report, "undertone", participants, copy, &ours)?;
    let Some(theirs) = theirs else { return Ok(()) };
    let theirs = tell(report, "flower", participants, copy, &theirs)?;
    report.line(json!({
        "what": "overhead of a round, ours over Flower's", "participants": participants,
        "median": ours.median / theirs.median, "best": ours.best / theirs.best,
    }))
}

/// Measures the product's rounds, and reports the times of a participant's steps.
fn ours(
    report: &mut Report,
    participants: usize,
    rounds: usize,
    begun: Instant,
) -> Result<Vec<RoundTime>, Box<dyn std::error::Error>> {
    let measured = played(participants, rounds, begun).map_err(|error| -> Box<dyn std::error::Error> { error })?;
    let part = |of: fn(&StepTimes) -> f64| 1e3 * median(measured.iter().map(|round| of(&round.steps)));
    report.line(json!({
        "what": "undertone: what a participant's time goes into, mean of all, median of the rounds", "participants": participants,
        "milliseconds": {
            "ask whether it is closed": part(|steps| steps.ask), "policy and ledger allow it": part(|steps| steps.clear),
            "pack, store and pay": part(|steps| steps.pay), "countersignature": part(|steps| steps.countersign),
            "send": part(|steps| steps.send),
            "note, and the server's log": part(|steps| steps.note), "wait for the others and fetch the mean": part(|steps| steps.fetch),
        },
        "sent_bytes": measured.first().map(|round| round.sent_bytes),
    }))?;
    // Computing takes no time, because the vectors exist when a round begins.
    Ok(measured.into_iter().map(|round| RoundTime { wall: round.seconds, computing: 0.0 }).collect())
}

fn played(participants: usize, rounds: usize, begun: Instant) -> TestResult<Vec<RoundMeasurement>> {
    let mut scene = RoundScene::set(participants, rounds + 1)?;
    say(begun, &format!("{participants} participants: at work"));
    scene.round(1)?;
    let mut all = Vec::with_capacity(rounds);
    for number in (2..).take(rounds) {
        let played = scene.round(number)?;
        say(begun, &format!("{participants} participants: round {number} took {:.2} s", played.seconds));
        all.push(played);
    }
    Ok(all)
}

/// Seconds of several rounds.
struct RoundOverhead {
    median: f64,
    best: f64,
}

fn tell(
    report: &mut Report,
    whose: &str,
    participants: usize,
    copy: f64,
    rounds: &[RoundTime],
) -> Result<RoundOverhead, Box<dyn std::error::Error>> {
    let overheads = || rounds.iter().map(move |round| round.wall - round.computing - copy);
    report.line(json!({
        "what": format!("{whose}: rounds"), "participants": participants, "rounds": rounds.len(),
        "wall_seconds": figures(rounds.iter().map(|round| round.wall)),
        "computing_seconds": median(rounds.iter().map(|round| round.computing)),
        "copy_seconds": copy, "overhead_seconds": figures(overheads()),
    }))?;
    Ok(RoundOverhead { median: median(overheads()), best: best(overheads()) })
}

fn figures(seconds: impl Iterator<Item = f64> + Clone) -> Value {
    json!({ "median": median(seconds.clone()), "best": best(seconds) })
}

fn best(seconds: impl Iterator<Item = f64>) -> f64 {
    seconds.fold(f64::INFINITY, f64::min)
}

fn median(seconds: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = seconds.collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}
