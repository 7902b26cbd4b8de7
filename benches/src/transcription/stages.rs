//! The speed of each step: hours of audio in an hour of this machine.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::rounded;

/// Seconds of audio and of the machine, by step.
#[derive(Default)]
pub(super) struct StageTimes(BTreeMap<&'static str, (f64, Duration)>);

impl StageTimes {
    /// Adds a step that processed `audio` seconds since `began`.
    pub(super) fn add(&mut self, step: &'static str, audio: f64, began: Instant) {
        let entry = self.0.entry(step).or_default();
        entry.0 += audio;
        entry.1 += began.elapsed();
    }

    pub(super) fn report_lines(&self) -> impl Iterator<Item = Value> + '_ {
        self.0.iter().map(|(step, (audio, machine))| {
            let machine = machine.as_secs_f64();
            json!({
                "stage": step, "audio_seconds": rounded(*audio), "machine_seconds": rounded(machine),
                "audio_hours_per_machine_hour": (machine > 0.0).then(|| rounded(audio / machine)),
            })
        })
    }
}
