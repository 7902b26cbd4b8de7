//! A program that follows one job over REST. It reads the stream of the job's events, which shows the delay between the
//! close of a round and its event, and requests the whole job every few seconds.

use std::time::Duration;

use reqwest::{Client, RequestBuilder};
use support::stage::{PASSWORD, TestResult};
use time::OffsetDateTime;
use undertone_api::event::JobEvent;
use undertone_api::id::JobId;
use undertone_api::session::{Session, SignIn};

use super::record::RequestRecord;
use super::worker::now;

/// The interval between two requests for the job.
pub(super) const EVERY: Duration = Duration::from_secs(5);
/// The pause after an error.
const AGAIN: Duration = Duration::from_secs(2);
/// The program's member: the stage's operator.
const EMAIL: &str = "operator@example.org";

/// The highest number of one member's programs, below the server's limit of streams for a member.
pub(super) const MOST_FOLLOWERS: usize = 10;

/// A program that has signed in.
pub(super) struct EventFollower {
    http: Client,
    base: String,
    token: String,
    job: JobId,
    record: RequestRecord,
}

impl EventFollower {
    /// Signs in at the server `base` to follow a job.
    ///
    /// # Errors
    /// When the server rejects it.
    pub(super) async fn open(base: &str, job: JobId, record: RequestRecord) -> TestResult<Self> {
        let http = Client::builder().build()?;
        let token = sign_in(&http, base).await?;
        Ok(Self { http, base: base.to_owned(), token, job, record })
    }

    /// Follows the job until dropped.
    pub(super) async fn follow(mut self) {
        loop {
            let ended = tokio::select! {
                ended = self.listen() => ended,
                ended = self.ask() => ended,
            };
            if let Err(error) = ended {
                self.record.failed("GET /api/v1/jobs/{id}/events", &error);
            }
            tokio::time::sleep(AGAIN).await;
            // The token may have expired.
            match sign_in(&self.http, &self.base).await {
                Ok(token) => self.token = token,
                Err(error) => self.record.failed("POST /api/v1/session", &error),
            }
        }
    }

    fn get(&self, address: &str) -> RequestBuilder {
        self.http.get(format!("{}/api/v1{address}", self.base)).bearer_auth(&self.token)
    }

    /// Requests the job repeatedly.
    async fn ask(&self) -> TestResult<()> {
        loop {
            tokio::time::sleep(EVERY).await;
            let request = self.get(&format!("/jobs/{}", self.job));
            let all = async { request.send().await?.error_for_status()?.bytes().await };
            self.record.request("GET /api/v1/jobs/{id}", all).await?;
        }
    }

    /// Reads events until the stream ends.
    async fn listen(&self) -> TestResult<()> {
        let request = self.get(&format!("/jobs/{}/events", self.job)).header("accept", "text/event-stream");
        let mut stream = request.send().await?.error_for_status()?;
        let mut text = String::new();
        let mut last: Option<(u32, OffsetDateTime)> = None;
        while let Some(bytes) = stream.chunk().await? {
            text.push_str(&String::from_utf8_lossy(&bytes));
            while let Some((event, rest)) = text.split_once("\n\n") {
                let newest = newest_closed(event)?;
                // The first event reports earlier rounds.
                if let (Some((before, _)), Some((round, at))) = (last, newest)
                    && round > before
                {
                    let late = Duration::try_from(now() - at).unwrap_or_default();
                    self.record.waited("an event, after the close of the round it tells of", late);
                }
                last = newest.or(last);
                text = rest.to_owned();
            }
        }
        Err("the stream ended".into())
    }
}

/// Returns an access token.
async fn sign_in(http: &Client, base: &str) -> TestResult<String> {
    let credentials = SignIn { email: EMAIL.to_owned(), password: PASSWORD.to_owned() };
    let answer = http.post(format!("{base}/api/v1/session")).json(&credentials).send().await?.error_for_status()?;
    Ok(answer.json::<Session>().await?.tokens.access_token)
}

/// Returns the last closed round in an event, with its closing time.
fn newest_closed(event: &str) -> TestResult<Option<(u32, OffsetDateTime)>> {
    let Some(data) = event.lines().find_map(|line| line.strip_prefix("data:")) else { return Ok(None) };
    let event: JobEvent = serde_json::from_str(data.trim_start())?;
    Ok(event.progress.rounds.iter().find_map(|round| Some((round.round, round.closed_at?))))
}
