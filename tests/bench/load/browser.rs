//! A browser with two tabs: one stays on a job's page, follows its events and asks for what has changed; in the other somebody reads,
//! thinks, and goes on to the next page. It keeps its cookies and sends what a browser sends; files of the bundle it has already.

use std::time::{Duration, Instant};

use reqwest::{Client, header};
use support::stage::{PASSWORD, Staged};
use undertone_api::id::{ConsortiumId, DatasetId, JobId, OrganizationId};

use super::record::Record;

/// How long somebody looks at a page, at least and at most.
pub(super) const LEAST_THOUGHT: Duration = Duration::from_secs(3);
pub(super) const MOST_THOUGHT: Duration = Duration::from_secs(7);
/// After how long a browser whose connection broke tries again, as the server tells it.
const RETRY: Duration = Duration::from_secs(2);
/// What a page of somebody who has signed in holds.
const SIGNED_IN: &str = "/ui/sign-out";

/// A browser that has signed in.
pub(super) struct Browser {
    http: Client,
    base: String,
    record: Record,
}

/// Where somebody goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Walk {
    pub(super) consortium: ConsortiumId,
    pub(super) organization: OrganizationId,
    /// Whose page stays open.
    pub(super) job: JobId,
    pub(super) dataset: DatasetId,
    /// Which of the browsers it is: each begins at another page, and thinks for another while.
    pub(super) number: usize,
}

impl Walk {
    /// The pages, by kind and address.
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

    /// How long somebody looks at the page they come to with this step.
    fn thought(&self, step: usize) -> Duration {
        let part = (self.number * 7 + step * 3) % 11;
        LEAST_THOUGHT + MOST_THOUGHT.saturating_sub(LEAST_THOUGHT).mul_f64(part as f64 / 10.0)
    }
}

impl Browser {
    /// Signs in at the server `base` by the page's form.
    ///
    /// # Errors
    /// When the server does not take it.
    pub(super) async fn open(base: &str, email: &str, record: Record) -> Staged<Self> {
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

    /// Uses both tabs for as long as it is let.
    pub(super) async fn use_dashboard(self, walk: Walk) {
        tokio::join!(self.stay(&walk), self.go(&walk));
    }

    /// Asks for an address, reads the whole answer, and writes down what it took.
    async fn load(&self, kind: &'static str, address: &str, accept: &str) {
        let request = self.http.get(format!("{}{address}", self.base)).header(header::ACCEPT, accept);
        let all = async {
            let answer = request.send().await?.error_for_status()?;
            answer.bytes().await
        };
        // Counted as failed, if it fails; whoever looks at it goes on to the next page.
        let _ = self.record.request(kind, all).await;
    }

    /// From page to page.
    async fn go(&self, walk: &Walk) {
        let pages = walk.pages();
        let mut step = walk.number;
        loop {
            // Not all at once.
            tokio::time::sleep(walk.thought(step)).await;
            let (kind, address) = &pages[step % pages.len()];
            self.load(kind, address, "text/html").await;
            step += 1;
        }
    }

    /// On the job's page, live.
    async fn stay(&self, walk: &Walk) {
        self.load("page: job", &format!("/c/{}/jobs/{}", walk.consortium, walk.job), "text/html").await;
        loop {
            if let Err(error) = self.listen(walk.job).await {
                self.record.failed("GET /ui/events", &error);
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Listens until the connection ends; asks for what has changed whenever it is told to.
    async fn listen(&self, job: JobId) -> Staged<()> {
        let began = Instant::now();
        let request = self.http.get(format!("{}/ui/events?job={job}", self.base));
        let mut stream = request.header(header::ACCEPT, "text/event-stream").send().await?.error_for_status()?;
        self.record.took("GET /ui/events", began.elapsed());
        let watch = format!("/ui/watch?job={job}");
        while let Some(bytes) = stream.chunk().await? {
            // What is no event is a beat, that says only that the connection lives.
            if String::from_utf8_lossy(&bytes).contains("data:") {
                self.load("GET /ui/watch", &watch, "application/json").await;
            }
        }
        Err("the stream ended".into())
    }
}
