//! `undertone watch`: the progress of a job, by the stream of its events.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use reqwest::Response;
use undertone_api::event::JobEvent;
use undertone_api::id::JobId;
use undertone_api::job::diagnosis::Diagnosis;
use undertone_api::job::{Job, JobState};

use crate::client::events::EventReader;
use crate::client::{ClientError, RestClient};
use crate::output::{StandardOutput, format_word, is_closed_pipe};
use crate::{CommandAnswer, CommandResult, format_error, ignore_closed_pipe, print_note};

/// The failures in a row after which the command ends.
const MOST_FAILURES: u32 = 30;
/// The first pause before a new connection, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The reason why a stream cannot be followed.
#[derive(Debug, thiserror::Error)]
enum WatchError {
    /// A line is longer than any event.
    #[error("the server sent a line over 16 MiB in the event stream: check the address or the proxy")]
    Form,
    /// An event is no state of a job.
    #[error("an event of the job cannot be read: the server may have another version")]
    Event(#[source] serde_json::Error),
    /// The reader of the output left, so that the command has no answer.
    #[error("the reader of the output left before the job ended")]
    NoReader,
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
    let mut schedule = RetrySchedule::default();
    let state = loop {
        let end = match client.stream(&path, last.as_deref()).await {
            Ok(stream) => follow(&client, &path, stream, &mut last, &mut watched, out).await?,
            Err(error) => StreamEnd::Lost { error, is_alive: false },
        };
        match end {
            StreamEnd::Over(state) => break state,
            StreamEnd::Lost { error, is_alive } => {
                let reason = format_error(&error);
                let pause = schedule.next_pause(error, is_alive)?;
                print_note(&format!("note: {reason}\n  connecting again in {:.1} s", pause.as_secs_f64()));
                tokio::time::sleep(pause).await;
            }
        }
    };
    if state == JobState::Finished {
        return Ok(CommandAnswer::Positive);
    }
    // The reason is in the job, not in its events. It is for people: the last event has the state.
    let job: Job = client.get(&format!("/jobs/{id}")).await?;
    if let Some(reason) = job.reason {
        print_note(&reason);
    }
    Ok(CommandAnswer::Negative)
}

/// The end of a stream.
enum StreamEnd {
    /// The job stays in this state.
    Over(JobState),
    /// The connection ended before the job.
    Lost {
        /// The failure.
        error: ClientError,
        /// Whether the server sent an event, or a comment that keeps the connection alive.
        is_alive: bool,
    },
}

/// The number of failures in a row, and the pause before the next connection.
struct RetrySchedule {
    failures: u32,
    pause: Duration,
}

impl Default for RetrySchedule {
    fn default() -> Self {
        Self { failures: 0, pause: FIRST_PAUSE }
    }
}

impl RetrySchedule {
    /// Returns the pause before the next connection. A stream that was alive begins the count again.
    ///
    /// # Errors
    /// The failure of the connection, if a repetition cannot succeed or there were too many.
    fn next_pause(&mut self, error: ClientError, is_alive: bool) -> Result<Duration, ClientError> {
        if is_alive {
            *self = Self::default();
        } else if !error.is_passing() || self.failures >= MOST_FAILURES {
            return Err(error);
        } else {
            self.failures += 1;
        }
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        Ok(pause)
    }
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
    let mut is_alive = false;
    let begin = Instant::now();
    loop {
        let piece = match stream.chunk().await {
            Ok(Some(piece)) => piece,
            Ok(None) => {
                let error = ClientError::StreamClosed(client.full_address(path));
                return Ok(StreamEnd::Lost { error, is_alive });
            }
            Err(source) => return Ok(StreamEnd::Lost { error: client.transport(path, source), is_alive }),
        };
        // A late comment keeps the connection of a waiting job alive. An early one shows no server of the job.
        is_alive |= begin.elapsed() >= LONGEST_PAUSE;
        for event in reader.read(&piece).ok_or(WatchError::Form)? {
            if event.name != "job" {
                continue;
            }
            is_alive = true;
            *last = event.id;
            let event: JobEvent = serde_json::from_str(&event.data).map_err(WatchError::Event)?;
            let printing = out.print_line(&event, |event| watched.describe(event));
            if event.job.state.is_over() {
                ignore_closed_pipe(printing)?;
                return Ok(StreamEnd::Over(event.job.state));
            }
            if let Err(error) = printing {
                return Err(if is_closed_pipe(&error) { WatchError::NoReader.into() } else { error.into() });
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

    use super::{FIRST_PAUSE, LONGEST_PAUSE, MOST_FAILURES, RetrySchedule, WatchedState};
    use crate::client::ClientError;

    fn closed_stream() -> ClientError {
        ClientError::StreamClosed("https://undertone.example.org/jobs/1/events".to_owned())
    }

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

    #[test]
    fn streams_without_content_end_the_command() {
        let mut schedule = RetrySchedule::default();
        assert_eq!(schedule.next_pause(closed_stream(), false).expect("a repetition"), FIRST_PAUSE);
        for _ in 1..MOST_FAILURES {
            assert!(schedule.next_pause(closed_stream(), false).expect("a repetition") <= LONGEST_PAUSE);
        }
        let error = schedule.next_pause(closed_stream(), false).expect_err("too many");
        assert!(matches!(error, ClientError::StreamClosed(_)), "{error}");
    }

    #[test]
    fn living_stream_begins_the_count_again() {
        let mut schedule = RetrySchedule::default();
        for _ in 0..MOST_FAILURES {
            schedule.next_pause(closed_stream(), false).expect("a repetition");
        }
        assert_eq!(schedule.next_pause(closed_stream(), true).expect("a repetition"), FIRST_PAUSE);
        assert!(schedule.next_pause(closed_stream(), false).expect("a repetition") > FIRST_PAUSE);
        assert!(matches!(schedule.next_pause(ClientError::SignedOut, false), Err(ClientError::SignedOut)));
    }
}
