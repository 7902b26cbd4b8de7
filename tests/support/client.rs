//! An independent REST client, typed by the contract.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ed25519_dalek::SigningKey;
use reqwest::{Method, RequestBuilder};
use serde::Serialize;
use serde::de::DeserializeOwned;
use undertone_api::budget::{LedgerEntry, NewBudget};
use undertone_api::consortium::{Consortium, NewConsortium};
use undertone_api::dataset::Dataset;
use undertone_api::freeze::{ClearFreeze, Freeze};
use undertone_api::id::{ArtifactId, ConsortiumId, DatasetId, JobId, OrganizationId};
use undertone_api::job::audit::AuditView;
use undertone_api::job::{ApproveRequest, Job, JobProgress, JobReview, NewJob};
use undertone_api::member::{Member, NewMember};
use undertone_api::model::Artifact;
use undertone_api::organization::{Invitation, NewInvitation, Organization};
use undertone_api::page::Page;
use undertone_api::problem::Problem;
use undertone_api::session::{Session, SignIn};
use undertone_api::signed::{ApprovalKey, ApprovalStatement, CertificateFile, SignedApproval};
use undertone_api::worker::{Enrolment, NewEnrolment};

/// Reasons why a call fails.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The server answered with a problem.
    #[error(transparent)]
    Problem(#[from] Box<Problem>),
    /// The server could not be reached, or its answer is not JSON of the expected form.
    #[error("no usable answer from {address}")]
    Transport {
        /// The called address.
        address: String,
        /// The error.
        #[source]
        source: reqwest::Error,
    },
}

impl CallError {
    /// Returns the problem, if the server answered with one.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Problem(problem) => Some(problem),
            Self::Transport { .. } => None,
        }
    }
}

/// The outcome of a call.
pub type Called<T> = Result<T, CallError>;

/// A client of one server, signed in or not. It replaces an expired access token by signing in again.
#[derive(Debug, Clone)]
pub struct TestClient {
    http: reqwest::Client,
    base: String,
    credentials: Option<SignIn>,
    token: Arc<Mutex<Option<String>>>,
    approval_key: Option<SigningKey>,
}

impl TestClient {
    /// Makes a client that is not signed in, for the server at `base` (`http://127.0.0.1:8080`).
    pub fn new(base: impl Into<String>) -> Self {
        // reqwest needs a process-wide TLS provider even for plain HTTP; a second installation fails harmlessly.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let base = base.into();
        // A server on this machine has a self-signed certificate; these tests do not check its identity.
        let own = base.starts_with("https://127.0.0.1");
        let http = reqwest::Client::builder().tls_danger_accept_invalid_certs(own).build().unwrap_or_default();
        Self { http, base, credentials: None, token: Arc::default(), approval_key: None }
    }

    /// Returns the same member, with the same session, at another replica of the server.
    #[must_use]
    pub fn with_address(&self, base: impl Into<String>) -> Self {
        Self { base: base.into(), ..self.clone() }
    }

    /// Signs in.
    ///
    /// # Errors
    /// [`CallError`] when the credentials are wrong.
    pub async fn sign_in(&self, email: &str, password: &str) -> Called<Self> {
        let credentials = SignIn { email: email.to_owned(), password: password.to_owned() };
        let member = Self { credentials: Some(credentials), token: Arc::default(), ..self.clone() };
        member.renew().await?;
        Ok(member)
    }

    /// Requests a fresh access token; returns whether there is one now.
    async fn renew(&self) -> Called<bool> {
        let Some(credentials) = &self.credentials else { return Ok(false) };
        *self.lock_token() = None;
        let session: Session = self.once(Method::POST, "/session", Some(credentials)).await?;
        *self.lock_token() = Some(session.tokens.access_token);
        Ok(true)
    }

    fn lock_token(&self) -> MutexGuard<'_, Option<String>> {
        // The token is replaced as a whole: a panic elsewhere leaves it unchanged.
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts a one-time link and signs in as the new member.
    ///
    /// # Errors
    /// [`CallError`] when the link is used or the input is rejected.
    pub async fn accept(&self, link: &str, member: &NewMember) -> Called<Self> {
        let token = link.rsplit('/').next().unwrap_or(link);
        let _: serde_json::Value = self.post(&format!("/invitations/{token}/accept"), member).await?;
        self.sign_in(&member.email, &member.password).await
    }

    /// Returns the signed-in member.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn me(&self) -> Called<Member> {
        self.get("/me").await
    }

    /// Creates a consortium.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn create_consortium(&self, consortium: &NewConsortium) -> Called<Consortium> {
        self.post("/consortia", consortium).await
    }

    /// Creates an invitation.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn invite(&self, invitation: &NewInvitation) -> Called<Invitation> {
        self.post("/invitations", invitation).await
    }

    /// Returns the organizations of a consortium.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn organizations(&self, consortium: ConsortiumId) -> Called<Page<Organization>> {
        self.get(&format!("/consortia/{consortium}/organizations")).await
    }

    /// Creates a token with which a worker enrols.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn enrolment(&self, organization: OrganizationId, name: &str) -> Called<Enrolment> {
        self.post(&format!("/organizations/{organization}/workers"), &NewEnrolment { name: name.to_owned() }).await
    }

    /// Returns the datasets of a consortium.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn datasets(&self, consortium: ConsortiumId) -> Called<Page<Dataset>> {
        self.get(&format!("/consortia/{consortium}/datasets?limit=200")).await
    }

    /// Sets or raises a budget.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn set_budget(&self, dataset: DatasetId, budget: &NewBudget) -> Called<serde_json::Value> {
        self.send(Method::PUT, &format!("/datasets/{dataset}/budgets"), Some(budget)).await
    }

    /// Returns a dataset's ledger.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn ledger(&self, dataset: DatasetId) -> Called<Page<LedgerEntry>> {
        self.get(&format!("/datasets/{dataset}/ledger?limit=200")).await
    }

    /// Proposes a job.
    ///
    /// # Errors
    /// [`CallError`]; a budget's refusal carries its figures.
    pub async fn propose(&self, consortium: ConsortiumId, job: &NewJob) -> Called<Job> {
        self.post(&format!("/consortia/{consortium}/jobs"), job).await
    }

    /// Returns the same member with a key that signs their approvals; the member's site must pin its public key.
    #[must_use]
    pub fn with_approval_key(self, key: SigningKey) -> Self {
        Self { approval_key: Some(key), ..self }
    }

    /// Returns the same member without a key: approvals are unsigned.
    #[must_use]
    pub fn without_approval_key(self) -> Self {
        Self { approval_key: None, ..self }
    }

    /// Returns the public key of this member's approvals.
    pub fn approval_key(&self) -> Option<ApprovalKey> {
        let key = self.approval_key.as_ref()?;
        Some(ApprovalKey::Ed25519 { public_key: hex::encode(key.verifying_key().to_bytes()) })
    }

    /// Approves a job for one dataset; signs the manifest shown by the server, where the member has a key.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn approve(&self, job: JobId, dataset: DatasetId) -> Called<Job> {
        let signature = self.signed_approval(job, dataset).await?;
        self.post(&format!("/jobs/{job}/datasets/{dataset}/approve"), &ApproveRequest { signature, terms: None }).await
    }

    /// Signs the approval of a job for one dataset, with the manifest shown by the server; `None` for a member without
    /// a key.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn signed_approval(&self, job: JobId, dataset: DatasetId) -> Called<Option<SignedApproval>> {
        let Some(key) = &self.approval_key else { return Ok(None) };
        let review: JobReview = self.get(&format!("/jobs/{job}/datasets/{dataset}/review")).await?;
        let statement = ApprovalStatement::approve(&review.manifest.digest(), job, dataset);
        // A statement always has a JSON form.
        Ok(SignedApproval::sign(&statement, key).ok())
    }

    /// Returns a job.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn job(&self, job: JobId) -> Called<Job> {
        self.get(&format!("/jobs/{job}")).await
    }

    /// Cancels a job.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn cancel(&self, job: JobId) -> Called<Job> {
        self.post(&format!("/jobs/{job}/cancel"), &serde_json::json!({})).await
    }

    /// Returns the progress of a job.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn progress(&self, job: JobId) -> Called<JobProgress> {
        self.get(&format!("/jobs/{job}/progress")).await
    }

    /// Returns a job's certificate with its evidence.
    ///
    /// # Errors
    /// [`CallError`] when there is none.
    pub async fn certificate(&self, job: JobId) -> Called<CertificateFile> {
        self.get(&format!("/jobs/{job}/certificate")).await
    }

    /// Returns a job's files.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn artifacts(&self, job: JobId) -> Called<Vec<Artifact>> {
        self.get(&format!("/jobs/{job}/artifacts")).await
    }

    /// Returns the findings of a job's audits.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn audits(&self, job: JobId) -> Called<Vec<AuditView>> {
        self.get(&format!("/jobs/{job}/audits")).await
    }

    /// Clears a frozen dataset.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn clear_freeze(&self, dataset: DatasetId, reason: &str) -> Called<Freeze> {
        let word = ClearFreeze { reason: reason.to_owned() };
        self.post(&format!("/datasets/{dataset}/freezes/clear"), &word).await
    }

    /// Returns a file's content.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn content(&self, artifact: ArtifactId) -> Called<Vec<u8>> {
        self.download(&format!("/artifacts/{artifact}/content")).await
    }

    /// Returns the bytes of an answer that is no JSON.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn download(&self, path: &str) -> Called<Vec<u8>> {
        let answer = self.request(Method::GET, path).send().await;
        let answer = answer.and_then(reqwest::Response::error_for_status).map_err(|e| self.transport(path, e))?;
        Ok(answer.bytes().await.map_err(|source| self.transport(path, source))?.to_vec())
    }

    /// Sends a GET request and parses the answer.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Called<T> {
        self.send(Method::GET, path, None::<&()>).await
    }

    /// Sends a POST request and parses the answer.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Called<T> {
        self.send(Method::POST, path, Some(body)).await
    }

    /// Sends a request of any method; an empty answer is parsed as JSON `null`.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Called<T> {
        let first = self.once(method.clone(), path, body).await;
        let ran_out = first
            .as_ref()
            .err()
            .and_then(CallError::problem)
            .is_some_and(|problem| problem.code == undertone_api::problem::Code::Unauthenticated);
        if ran_out && self.renew().await? {
            return self.once(method, path, body).await;
        }
        first
    }

    /// POST that the server carries out once for each key, however often it is sent.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn post_once<T: DeserializeOwned>(&self, path: &str, key: &str, body: &impl Serialize) -> Called<T> {
        let request = self.request(Method::POST, path).header("idempotency-key", key);
        self.answer(path, request.json(body)).await
    }

    /// Opens a stream of events, after the event with the id `last`.
    ///
    /// # Errors
    /// [`CallError::Transport`] also when the server refuses.
    pub async fn events(&self, path: &str, last: Option<&str>) -> Called<reqwest::Response> {
        let mut request = self.request(Method::GET, path).header("accept", "text/event-stream");
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let answer = request.send().await.and_then(reqwest::Response::error_for_status);
        answer.map_err(|source| self.transport(path, source))
    }

    async fn once<T: DeserializeOwned>(&self, method: Method, path: &str, body: Option<&impl Serialize>) -> Called<T> {
        let mut request = self.request(method, path);
        if let Some(body) = body {
            request = request.json(body);
        }
        self.answer(path, request).await
    }

    async fn answer<T: DeserializeOwned>(&self, path: &str, request: RequestBuilder) -> Called<T> {
        let answer = request.send().await.map_err(|source| self.transport(path, source))?;
        let good = answer.status().is_success();
        if !good {
            let problem: Problem = answer.json().await.map_err(|source| self.transport(path, source))?;
            return Err(Box::new(problem).into());
        }
        if answer.status() == http::StatusCode::NO_CONTENT {
            return serde_json::from_str("null").map_err(|_| {
                Box::new(Problem::new(undertone_api::problem::Code::Internal, "an empty answer was not expected"))
                    .into()
            });
        }
        answer.json().await.map_err(|source| self.transport(path, source))
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}/api/v1{path}", self.base));
        match &*self.lock_token() {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    fn transport(&self, path: &str, source: reqwest::Error) -> CallError {
        CallError::Transport { address: format!("{}{path}", self.base), source }
    }
}
