//! A browser with two tabs: one stays on a job's page, follows its events and requests changes; in the other a user
//! reads and goes on to the next page after a while. It keeps its cookies and sends a browser's requests; it has cached
//! the bundle.

use std::time::{Duration, Instant};

use reqwest::{Client, header};
use support::stage::{PASSWORD, TestResult};
use undertone_api::id::{ConsortiumId, DatasetId, JobId, OrganizationId};

use super::record::RequestRecord;

/// The time that a user stays on a page, at least and at most.
pub(super) const LEAST_THOUGHT: Duration = Duration::from_secs(3);
pub(super) const MOST_THOUGHT: Duration = Duration::from_secs(7);
/// The delay before a browser reconnects, as set by the server.
const RETRY: Duration = Duration::from_secs(2);
/// A string on every page of a signed-in user.
const SIGNED_IN: &str = "/ui/sign-out";

/// A browser that has signed in.
pub(super) struct SimulatedBrowser {
    http: Client,
    base: String,
    record: RequestRecord,
}

/// The pages of a user.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageWalk {
    pub(super) consortium: ConsortiumId,
    pub(super) organization: OrganizationId,
    /// The job of the page that stays open.
    pub(super) job: JobId,
    pub(super) dataset: DatasetId,
    /// The number of the browser: each begins at another page, and has other pauses.
    pub(super) number: usize,
}

impl PageWalk {
    /// Returns the pages, by kind and address.
    fn pages(&self) -> [(&'static str, String); 10] {
        let home = format!("/c/{}", self.consortium);
        [
            ("page: overview", home.clone()),
            ("page: jobs", format!("{home}/jobs")),
            ("page: job", format!("{home}/jobs/{}", self.job)),
            ("page: job's log", format!("{home}/jobs/{}/log", self.job)),
            ("page: ledger", format!("{home}/ledger")),
            ("page: datasets", format!("{home}/datasets")),
            ("page: dataset", format!("{home}/datasets/{}", self.dataset)),
            ("page: organizations", format!("{home}/organizations")),
            ("page: audit log", format!("{home}/organizations/{}/audit-log", self.organization)),
            ("page: notifications", "/notifications".to_owned()),
        ]
    }

    /// Returns the time that the user stays on the page of this step.
    fn think_time(&self, step: usize) -> Duration {
        let part = (self.number * 7 + step * 3) % 11;
        LEAST_THOUGHT + MOST_THOUGHT.saturating_sub(LEAST_THOUGHT).mul_f64(part as f64 / 10.0)
    }
}

impl SimulatedBrowser {
    /// Signs in at the server `base` with the page's form.
    ///
    /// # Errors
    /// When the server rejects it.
    pub(super) async fn open(base: &str, email: &str, record: RequestRecord) -> TestResult<Self> {
        let http = Client::builder().cookie_store(true).build()?;
        let form = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("email", email)
            .append_pair("password", PASSWORD)
            .append_pair("to", "/")
            .finish();
        let request = http
            .post(format!("{base}/ui/sign-in"))
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(header::ACCEPT, "text/html");
        let answer = request.body(form).send().await?.error_for_status()?;
        if !answer.text().await?.contains(SIGNED_IN) {
            return Err("the form was sent, and nobody is signed in".into());
        }
        Ok(Self { http, base: base.to_owned(), record })
    }

    /// Uses both tabs until dropped.
    pub(super) async fn use_dashboard(self, walk: PageWalk) {
        tokio::join!(self.stay(&walk), self.go(&walk));
    }

    /// Requests an address, reads the whole answer, and records the duration.
    async fn load(&self, kind: &'static str, address: &str, accept: &str) {
        let request = self.http.get(format!("{}{address}", self.base)).header(header::ACCEPT, accept);
        let all = async {
            let answer = request.send().await?.error_for_status()?;
            answer.bytes().await
        };
        // A failure is counted; the user goes on to the next page.
        let _ = self.record.request(kind, all).await;
    }

    /// Visits one page after another.
    async fn go(&self, walk: &PageWalk) {
        let pages = walk.pages();
        let mut step = walk.number;
        loop {
            // The first requests are spread over time.
            tokio::time::sleep(walk.think_time(step)).await;
            let (kind, address) = &pages[step % pages.len()];
            self.load(kind, address, "text/html").await;
            step += 1;
        }
    }

    /// Stays on the job's page, live.
    async fn stay(&self, walk: &PageWalk) {
        self.load("page: job", &format!("/c/{}/jobs/{}", walk.consortium, walk.job), "text/html").await;
        loop {
            if let Err(error) = self.listen(walk.job).await {
                self.record.failed("GET /ui/events", &error);
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Follows the events until the connection ends; requests changes at every event.
    async fn listen(&self, job: JobId) -> TestResult<()> {
        let began = Instant::now();
        let request = self.http.get(format!("{}/ui/events?job={job}", self.base));
        let mut stream = request.header(header::ACCEPT, "text/event-stream").send().await?.error_for_status()?;
        self.record.took("GET /ui/events", began.elapsed());
        let watch = format!("/ui/watch?job={job}");
        while let Some(bytes) = stream.chunk().await? {
            // A message without data is a heartbeat.
            if String::from_utf8_lossy(&bytes).contains("data:") {
                self.load("GET /ui/watch", &watch, "application/json").await;
            }
        }
        Err("the stream ended".into())
    }
}
