//! `undertone watch`: the progress of a job, by the stream of its events.

use std::fmt::Write as _;
use std::time::Duration;

use reqwest::Response;
use undertone_api::event::JobEvent;
use undertone_api::id::JobId;
use undertone_api::job::diagnosis::Diagnosis;
use undertone_api::job::{Job, JobState};

use crate::client::events::EventReader;
use crate::client::{ClientError, RestClient};
use crate::output::{StandardOutput, format_word};
use crate::{CommandAnswer, CommandResult};

/// The failures in a row after which the command ends.
const MOST_FAILURES: u32 = 30;
/// The first pause before a new connection, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The reason why a stream cannot be followed.
#[derive(Debug, thiserror::Error)]
enum WatchError {
    /// A line is longer than any event.
    #[error("the stream of the job is no stream of events")]
    Form,
    /// An event is no state of a job.
    #[error("an event of the job cannot be read: the server may have another version")]
    Event(#[source] serde_json::Error),
}

/// The last printed state.
#[derive(Default)]
struct WatchedState {
    line: String,
    diagnoses: Vec<Diagnosis>,
}

/// Follows a job to its end.
pub(crate) async fn run(id: JobId, out: &mut StandardOutput) -> CommandResult {
    let mut client = RestClient::open()?;
    let path = format!("/jobs/{id}/events");
    let (mut watched, mut last) = (WatchedState::default(), None);
    let (mut failures, mut pause) = (0, FIRST_PAUSE);
    let state = loop {
        let outcome = match client.stream(&path, last.as_deref()).await {
            Ok(stream) => follow(&client, &path, stream, &mut last, &mut watched, out).await?,
            Err(error) => StreamEnd::Lost { error: Some(error), has_event: false },
        };
        match outcome {
            StreamEnd::Over(state) => break state,
            StreamEnd::Lost { has_event: true, .. } => (failures, pause) = (0, FIRST_PAUSE),
            StreamEnd::Lost { error: Some(error), .. } if !error.is_passing() || failures >= MOST_FAILURES => {
                return Err(error.into());
            }
            StreamEnd::Lost { .. } => failures += 1,
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    };
    if state == JobState::Finished {
        return Ok(CommandAnswer::Positive);
    }
    // The reason is in the job, not in its events. It is for people: the last event has the state.
    let job: Job = client.get(&format!("/jobs/{id}")).await?;
    if let Some(reason) = job.reason {
        eprintln!("{}", crate::output::escape_controls(&reason));
    }
    Ok(CommandAnswer::Negative)
}

/// The end of a stream.
enum StreamEnd {
    /// The job stays in this state.
    Over(JobState),
    /// The connection ended before the job.
    Lost {
        /// The failure; `None` if the server closed the stream.
        error: Option<ClientError>,
        /// Whether an event arrived before.
        has_event: bool,
    },
}

/// Prints the events of a stream until the job or the stream ends.
async fn follow(
    client: &RestClient,
    path: &str,
    mut stream: Response,
    last: &mut Option<String>,
    watched: &mut WatchedState,
    out: &mut StandardOutput,
) -> Result<StreamEnd, Box<dyn std::error::Error + Send + Sync>> {
    let mut reader = EventReader::default();
    let mut has_event = false;
    loop {
        let piece = match stream.chunk().await {
            Ok(Some(piece)) => piece,
            Ok(None) => return Ok(StreamEnd::Lost { error: None, has_event }),
            Err(source) => return Ok(StreamEnd::Lost { error: Some(client.transport(path, source)), has_event }),
        };
        for event in reader.read(&piece).ok_or(WatchError::Form)? {
            if event.name != "job" {
                continue;
            }
            has_event = true;
            *last = event.id;
            let event: JobEvent = serde_json::from_str(&event.data).map_err(WatchError::Event)?;
            out.print_line(&event, |event| watched.describe(event))?;
            if event.job.state.is_over() {
                return Ok(StreamEnd::Over(event.job.state));
            }
        }
    }
}

impl WatchedState {
    /// Returns the news of an event: its line, and each obstacle with its remedy; nothing if both are as before.
    fn describe(&mut self, event: &JobEvent) -> String {
        let job = &event.job;
        let mut line = format!("{}, round {} of {}", format_word(&job.state), job.rounds_done, job.rounds);
        if let Some(newest) = event.progress.measurements.last() {
            // Writing to a string cannot fail.
            let _ = write!(line, ", {} {} {:.1} %", newest.series, newest.test, 100.0 * newest.accuracy);
        }
        let _ = write!(line, ". {}", event.progress.now);
        let mut text = String::new();
        if line != self.line {
            text = format!("{line}\n");
            self.line = line;
        }
        for diagnosis in &event.diagnoses {
            let is_known = |known: &Diagnosis| known.party == diagnosis.party && known.cause == diagnosis.cause;
            if !self.diagnoses.iter().any(is_known) {
                let _ = writeln!(text, "  {}: {} {}", diagnosis.party, diagnosis.reason, diagnosis.remedy);
            }
        }
        self.diagnoses.clone_from(&event.diagnoses);
        text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use undertone_api::event::JobEvent;

    use super::WatchedState;

    fn event(rounds_done: u32) -> JobEvent {
        let id = "00000000-0000-0000-0000-000000000001";
        let job = json!({
            "id": id, "consortium": id, "title": "x", "kind": "dp_sgd", "state": "running", "proposed_by": "y",
            "rounds_done": rounds_done, "rounds": 3, "created_at": "2026-01-01T00:00:00Z",
        });
        let progress = json!({
            "state": "running", "now": "Round 1 is open.", "series": [], "rounds": [], "measurements": [],
            "participants": [],
        });
        let diagnosis = json!({
            "dataset": null, "party": "north", "cause": "disconnected", "reason": "Not connected.",
            "remedy": "Start the worker.",
        });
        let event = json!({ "job": job, "progress": progress, "diagnoses": [diagnosis], "log": 0 });
        serde_json::from_value(event).expect("an event")
    }

    #[test]
    fn each_change_is_printed_once() {
        let mut watched = WatchedState::default();
        let first = watched.describe(&event(0));
        assert_eq!(first, "running, round 0 of 3. Round 1 is open.\n  north: Not connected. Start the worker.\n");
        assert_eq!(watched.describe(&event(0)), "");
        assert_eq!(watched.describe(&event(1)), "running, round 1 of 3. Round 1 is open.\n");
    }
}
