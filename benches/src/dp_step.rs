//! A private step, a plain one, and those of burn, PyTorch and Opacus: the same model, batch and machine, alternately,
//! each in a process of its own, so that its peak memory is its own too.

mod autodiff;
mod peer;

use std::process::Command;

use serde_json::{Value, json};
use undertone_worker::dp::bench::{StageTimes, StepBench, ceiling, noise_on_one_thread};
use undertone_worker::speech::model::ModelShape;

use crate::report::{Outcome, Report};

/// The paper's model.
const SHAPE: ModelShape = ModelShape::plain(13, 200, 9096);
/// Utterances in a batch, frames in an utterance.
const BATCHES: [(usize, usize); 2] = [(32, 200), (256, 50)];
/// Steps of each kind; the median is reported.
const REPEAT: usize = 7;
/// Passes over all kinds, alternately, so that a busy moment of the machine affects all; the best of each is reported.
const PASSES: usize = 2;
/// Kinds of steps that this program runs itself.
const OWN: [&str; 3] = ["private", "plain", "burn"];

pub(crate) fn run(report: &mut Report) -> Outcome {
    if let Some(kind) = std::env::args().nth(2) {
        return alone(report, &kind);
    }
    let peer = peer::TrainingPeer::find();
    if let Err(reason) = &peer {
        report.line(json!({ "peers": "left out", "because": reason.to_string() }))?;
    }
    let load =
        std::fs::read_to_string("/proc/loadavg").ok().and_then(|load| load.split(' ').next()?.parse::<f64>().ok());
    report.line(json!({
        "versions": { "burn": autodiff::VERSION, "peers": peer.as_ref().ok().map(|peer| peer.versions.clone()) },
        "load": load, "threads": std::thread::available_parallelism().map_or(0, usize::from),
        "noise_nanoseconds_on_one_thread": noise_on_one_thread(SHAPE.parameters())?,
    }))?;
    for (utterances, frames) in BATCHES {
        batch(report, peer.as_ref().ok(), utterances, frames)?;
    }
    Ok(())
}

/// Measures all kinds of steps on one batch.
fn batch(report: &mut Report, peer: Option<&peer::TrainingPeer>, utterances: usize, frames: usize) -> Outcome {
    let place = json!({ "model": "13-200-9096", "utterances": utterances, "frames": frames, "steps": REPEAT });
    let (mut kinds, mut ceilings): (Vec<(String, Value)>, Vec<f64>) = (Vec::new(), Vec::new());
    for _ in 0..PASSES {
        for kind in OWN {
            let measured = own(kind, utterances, frames)?;
            ceilings.extend(measured["ceiling"].as_f64());
            keep_better(&mut kinds, kind, measured);
        }
        if let Some(peer) = peer {
            for mode in peer::MODES {
                keep_better(&mut kinds, mode, peer.measure(mode, utterances, frames, REPEAT)?);
            }
        }
    }
    let speed = |kind: &str| speed(kinds.iter().find(|(name, _)| name == kind).map(|(_, measured)| measured));
    let opacus = [speed("opacus hooks"), speed("opacus ghost")].into_iter().flatten().reduce(f64::max);
    let ceiling = ceilings.into_iter().reduce(f64::max);
    for (kind, measured) in &kinds {
        let mut line = place.clone();
        let own = self::speed(Some(measured));
        let over = |other: Option<f64>| Some(own? / other?);
        line["kind"] = json!(kind);
        line["measured"] = measured.clone();
        line["speed_over"] = json!({
            "plain": over(speed("plain")), "burn": over(speed("burn")), "pytorch": over(speed("pytorch")), "better opacus": over(opacus),
        });
        if let (Some(operations), Some(ceiling)) = (measured["gigaflops"].as_f64(), ceiling) {
            line["of_ceiling"] = json!({ "gigaflops": ceiling, "fraction": operations / ceiling });
        }
        report.line(line)?;
    }
    let memory = |kind: &str| kinds.iter().find(|(name, _)| name == kind)?.1["peak_mebibytes"].as_f64();
    let seconds = |kind: &str| Some((utterances * frames) as f64 / speed(kind)?);
    let mut line = place;
    line["private_over_plain"] = json!({
        "seconds": seconds("private").zip(seconds("plain")).map(|(private, plain)| private / plain),
        "memory": memory("private").zip(memory("plain")).map(|(private, plain)| private / plain),
    });
    report.line(line)
}

fn speed(measured: Option<&Value>) -> Option<f64> {
    measured?["frames_per_second"].as_f64()
}

fn keep_better(kinds: &mut Vec<(String, Value)>, kind: &str, measured: Value) {
    match kinds.iter_mut().find(|(name, _)| name == kind) {
        Some((_, best)) if speed(Some(best)) < speed(Some(&measured)) => *best = measured,
        Some(_) => {}
        None => kinds.push((kind.to_owned(), measured)),
    }
}

/// Measures one kind in a process of its own.
fn own(kind: &str, utterances: usize, frames: usize) -> Result<Value, Box<dyn std::error::Error>> {
    let output = Command::new(std::env::current_exe()?)
        .args(["dp_step", kind, &utterances.to_string(), &frames.to_string()])
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    if !output.status.success() {
        return Err(format!("{kind}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let line = text.lines().last().ok_or("nothing was measured")?;
    Ok(serde_json::from_str::<Value>(line)?["measured"].take())
}

/// Runs the measurement of such a process.
fn alone(report: &mut Report, kind: &str) -> Outcome {
    undertone_worker::memory::keep_large_blocks();
    let number = |place: usize| -> Result<usize, Box<dyn std::error::Error>> {
        Ok(std::env::args().nth(place).ok_or("usage: dp_step KIND UTTERANCES FRAMES")?.parse()?)
    };
    let (utterances, frames) = (number(3)?, number(4)?);
    let mut measured = if kind == "burn" {
        let mut times: Vec<f64> = autodiff::steps(&SHAPE, utterances, frames, REPEAT + 1);
        json!({ "seconds": median(&mut times) })
    } else {
        let mut bench = StepBench::new(SHAPE, utterances, frames)?;
        let mut step = || if kind == "private" { bench.private() } else { bench.plain() };
        let mut times: Vec<f64> = (0..=REPEAT).map(|_| step()).collect();
        let (seconds, peak) = (median(&mut times), peak());
        // After the peak memory is recorded, because these need more.
        let [private, plain] = bench.stages();
        let stages = if kind == "private" { private } else { plain };
        json!({
            "seconds": seconds, "peak_mebibytes": peak, "gigaflops": bench.operations() / seconds / 1e9,
            "milliseconds_of_stages": milliseconds(&stages), "ceiling": ceiling(5),
        })
    };
    let seconds = measured["seconds"].as_f64().unwrap_or(f64::NAN);
    measured["frames_per_second"] = json!((utterances * frames) as f64 / seconds);
    if measured["peak_mebibytes"].is_null() {
        measured["peak_mebibytes"] = json!(peak());
    }
    report.line(json!({ "measured": measured }))
}

fn milliseconds(stages: &StageTimes) -> Value {
    stages.0.iter().map(|(name, seconds)| ((*name).to_owned(), json!((seconds * 1e4).round() / 10.0))).collect()
}

/// Returns the median of all but the first, which includes initialization.
fn median(times: &mut Vec<f64>) -> f64 {
    times.remove(0);
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Returns the peak memory of this process, MiB.
pub(crate) fn peak() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches("kB").trim().parse::<f64>().ok()? / 1024.0)
}
