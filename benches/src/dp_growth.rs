//! The cost of a private step as batch, utterance length or the number of classes grow, compared with a plain step.

use std::process::Command;

use serde_json::{Value, json};
use undertone_worker::dp::bench::StepBench;
use undertone_worker::speech::model::ModelShape;

use crate::dp_step::peak;
use crate::report::{Outcome, Report};

/// Utterances, frames and classes of the base point, one of which is varied at a time.
const BASE: [usize; 3] = [64, 100, 9096];
const UTTERANCES: [usize; 6] = [1, 4, 16, 64, 256, 1024];
const FRAMES: [usize; 5] = [50, 100, 200, 400, 800];
const CLASSES: [usize; 5] = [1_000, 3_000, 9_096, 25_000, 50_000];
/// The time limit for one kind of step at one point after its first step, seconds.
const PATIENCE: f64 = 6.0;
/// Most steps of a kind at one point.
const STEPS: usize = 5;

pub(crate) fn run(report: &mut Report) -> Outcome {
    if let Some(kind) = std::env::args().nth(2) {
        return alone(report, &kind);
    }
    let points = UTTERANCES
        .map(|utterances| [utterances, BASE[1], BASE[2]])
        .into_iter()
        .chain(FRAMES.map(|frames| [BASE[0], frames, BASE[2]]))
        .chain(CLASSES.map(|classes| [BASE[0], BASE[1], classes]));
    let mut rows = Vec::new();
    for point in points {
        if rows.contains(&point) {
            continue;
        }
        rows.push(point);
        let (private, plain) = (own("private", point)?, own("plain", point)?);
        let [utterances, frames, classes] = point;
        let ratio = |key: &str| Some(private[key].as_f64()? / plain[key].as_f64()?);
        report.line(json!({
            "model": format!("13-200-{classes}"), "utterances": utterances, "frames": frames, "classes": classes,
            "private": private, "plain": plain,
            "private_over_plain": { "seconds": ratio("seconds"), "memory": ratio("peak_mebibytes") },
        }))?;
    }
    Ok(())
}

/// Measures one kind at one point, in a process of its own.
fn own(kind: &str, point: [usize; 3]) -> Result<Value, Box<dyn std::error::Error>> {
    let output = Command::new(std::env::current_exe()?)
        .args(["dp_growth", kind])
        .args(point.map(|number| number.to_string()))
        .output()?;
    if !output.status.success() {
        return Err(format!("{kind} {point:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let text = String::from_utf8(output.stdout)?;
    Ok(serde_json::from_str::<Value>(text.lines().last().ok_or("nothing was measured")?)?["measured"].take())
}

/// Runs the measurement of such a process.
fn alone(report: &mut Report, kind: &str) -> Outcome {
    undertone_worker::memory::keep_large_blocks();
    let number = |place: usize| -> Result<usize, Box<dyn std::error::Error>> {
        Ok(std::env::args().nth(place).ok_or("usage: dp_growth KIND UTTERANCES FRAMES CLASSES")?.parse()?)
    };
    let (utterances, frames, classes) = (number(3)?, number(4)?, number(5)?);
    let mut bench = StepBench::new(ModelShape::plain(13, 200, classes), utterances, frames)?;
    let mut step = || if kind == "private" { bench.private() } else { bench.plain() };
    // The first step includes initialization; where steps are long, it is the only measurement.
    let first = step();
    let mut times = Vec::new();
    while times.len() < STEPS && times.iter().sum::<f64>() + first <= PATIENCE {
        times.push(step());
    }
    times.sort_by(f64::total_cmp);
    let seconds = times.get(times.len() / 2).copied().unwrap_or(first);
    report.line(json!({ "measured": {
        "seconds": seconds, "frames_per_second": (utterances * frames) as f64 / seconds, "steps": times.len().max(1),
        "peak_mebibytes": peak(),
    }}))
}
