//! The REST client: requests as a member, with the renewal of a session, and problems as errors.

pub(crate) mod address;
mod consortium;
pub(crate) mod environment;
pub(crate) mod events;

use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use undertone_api::consortium::Consortium;
use undertone_api::page::Page;
use undertone_api::problem::{Code, Problem};
use undertone_api::session::{RefreshRequest, TokenPair};

use crate::store::{Credential, SavedSignIn, SignInStore, StoreError};
use address::{AddressError, ServerAddress};
use environment::{AuthorityError, EnvironmentSettings, read_authorities};

/// The limit of a connection attempt.
const CONNECT: Duration = Duration::from_secs(10);
/// The longest silence within an answer. A stream of events has a comment every 15 seconds.
pub(crate) const SILENCE: Duration = Duration::from_secs(45);
/// The most items of a page.
const PAGE: u32 = 200;
/// The content type of a stream of events.
const EVENT_STREAM: &str = "text/event-stream";
/// The attempts of a request that the server executes once.
const ATTEMPTS: u32 = 4;

/// The reason why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// There is no sign-in.
    #[error("not signed in: run `undertone sign-in URL`, or set UNDERTONE_URL and UNDERTONE_KEY")]
    SignedOut,
    /// One of two variables is set.
    #[error("UNDERTONE_KEY needs UNDERTONE_URL: a key is sent to no other server than the one that it is for")]
    KeyWithoutAddress,
    /// The environment names another server than the saved sign-in.
    #[error(
        "UNDERTONE_URL is {named}, but the saved sign-in is for {saved}: unset UNDERTONE_URL, run `undertone sign-in {named}`, or set UNDERTONE_KEY to an API key of {named}"
    )]
    OtherServer {
        /// The address in the environment.
        named: String,
        /// The address of the sign-in.
        saved: String,
    },
    /// The session is over.
    #[error("the session has ended: run `undertone sign-in {0}`")]
    SessionEnded(String),
    /// The server refuses the API key.
    #[error(
        "the API key is not valid: {0} does not know it, or it was revoked or has expired. Create another in the browser (Settings, API keys), and use it in UNDERTONE_KEY or with `undertone sign-in {0} --api-key`"
    )]
    InvalidKey(String),
    /// The address is no server's.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The certificates of the environment cannot be used.
    #[error(transparent)]
    Authorities(#[from] AuthorityError),
    /// The sign-in cannot be read or saved.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The server answered with a problem.
    #[error(transparent)]
    Problem(Box<Problem>),
    /// The connection cannot be set up.
    #[error("cannot prepare connections")]
    Setup(#[source] reqwest::Error),
    /// The server cannot be reached, or its answer ended early.
    #[error("no answer from {address}")]
    Transport {
        /// The requested address.
        address: String,
        /// The cause.
        #[source]
        source: reqwest::Error,
    },
    /// The answer is not of Undertone's REST.
    #[error(
        "{address} answered {status} without a problem document: it may be another program, or a proxy before the server"
    )]
    Foreign {
        /// The requested address.
        address: String,
        /// The status.
        status: StatusCode,
    },
    /// The answer has another form.
    #[error("the answer of {address} cannot be read: the server may have another version")]
    Form {
        /// The requested address.
        address: String,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// The answer is no stream of events.
    #[error(
        "{address} answered without an event stream (content type: {content_type}): check the address, or the proxy before the server"
    )]
    ContentType {
        /// The requested address.
        address: String,
        /// The content type of the answer.
        content_type: String,
    },
    /// The stream of events ended early.
    #[error("{0} closed the event stream")]
    StreamClosed(String),
    /// A waiting task ended.
    #[error("waiting for another process failed")]
    Wait(#[from] tokio::task::JoinError),
    /// The consortium of a command cannot be chosen.
    #[error("{0}")]
    Consortium(String),
}

impl ClientError {
    /// Returns the server's problem, if it answered with one.
    pub(crate) fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Problem(problem) => Some(problem),
            _ => None,
        }
    }

    /// Returns whether the same request may succeed later.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Transport { .. } | Self::StreamClosed(_) => true,
            Self::Foreign { status, .. } => status.is_server_error(),
            Self::Problem(problem) => matches!(
                problem.code,
                Code::Unavailable | Code::RateLimited | Code::InProgress | Code::NotReady | Code::Internal
            ),
            _ => false,
        }
    }
}

/// A client of one server.
pub(crate) struct RestClient {
    http: reqwest::Client,
    address: ServerAddress,
    credential: Option<Credential>,
    /// The place of the session; a key of the environment has none.
    store: Option<SignInStore>,
}

impl RestClient {
    /// Makes a client without a sign-in. `authorities` are certificates (PEM) instead of the system's.
    ///
    /// # Errors
    /// [`ClientError`] when the address is refused or the certificates cannot be read.
    pub(crate) fn new(url: &str, authorities: Option<&str>) -> Result<Self, ClientError> {
        // reqwest needs a provider for the process; a second installation fails harmlessly.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("undertone/", env!("CARGO_PKG_VERSION")))
            // Credentials go to the named server alone.
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .connect_timeout(CONNECT)
            .read_timeout(SILENCE);
        if let Some(pem) = authorities {
            let certificates = reqwest::Certificate::from_pem_bundle(pem.as_bytes()).map_err(ClientError::Setup)?;
            builder = builder.tls_certs_only(certificates);
        }
        let http = builder.build().map_err(ClientError::Setup)?;
        Ok(Self { http, address: ServerAddress::parse(url)?, credential: None, store: None })
    }

    /// Makes a client by the environment (`UNDERTONE_URL`, `UNDERTONE_KEY`, `UNDERTONE_CA`), or by the saved sign-in.
    ///
    /// # Errors
    /// [`ClientError::SignedOut`] when there is neither. [`ClientError::OtherServer`] when `UNDERTONE_URL` is not the server
    /// of the saved sign-in.
    pub(crate) fn open() -> Result<Self, ClientError> {
        let environment = EnvironmentSettings::read(|name| std::env::var_os(name));
        if let Some(key) = environment.key.clone() {
            let url = environment.url.as_deref().ok_or(ClientError::KeyWithoutAddress)?;
            let authorities = environment.authorities.as_deref().map(read_authorities).transpose()?;
            let client = Self::new(url, authorities.as_deref())?;
            return Ok(client.with_credential(Credential::ApiKey { key }));
        }
        let store = SignInStore::find(|name| std::env::var_os(name))?;
        let saved = store.load()?.ok_or(ClientError::SignedOut)?;
        let client = Self::open_saved(store, saved)?;
        environment.check_address(&client.address)?;
        Ok(client)
    }

    /// Makes a client by a saved sign-in, whatever the environment names.
    ///
    /// # Errors
    /// [`ClientError`] when the address is refused or the certificates cannot be read.
    pub(crate) fn open_saved(store: SignInStore, saved: SavedSignIn) -> Result<Self, ClientError> {
        let client = Self::new(&saved.url, saved.authorities.as_deref())?;
        Ok(Self { credential: Some(saved.credential), store: Some(store), ..client })
    }

    /// Returns the same client with a permission.
    pub(crate) fn with_credential(self, credential: Credential) -> Self {
        Self { credential: Some(credential), ..self }
    }

    /// Returns the address of the server.
    pub(crate) fn url(&self) -> &str {
        self.address.as_str()
    }

    /// Sends a GET request and reads the answer.
    ///
    /// # Errors
    /// [`ClientError`].
    pub(crate) async fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, ClientError> {
        let response = self.send(&|client| client.request(Method::GET, path)).await?;
        self.read(path, response).await
    }

    /// Sends a POST request without a key and reads the answer.
    ///
    /// # Errors
    /// [`ClientError`].
    pub(crate) async fn post<T: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        let response = self.send(&|client| client.request(Method::POST, path).json(body)).await?;
        self.read(path, response).await
    }

    /// Sends a POST request with a key, so that the server executes it once although it may be sent several times.
    ///
    /// # Errors
    /// [`ClientError`].
    pub(crate) async fn post_once<T: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        let key = uuid::Uuid::now_v7().to_string();
        let mut attempt = 1;
        loop {
            let request = |client: &Self| client.request(Method::POST, path).header("idempotency-key", &key).json(body);
            let outcome = match self.send(&request).await {
                Ok(response) => self.read(path, response).await,
                Err(error) => Err(error),
            };
            match outcome {
                Err(error) if error.is_passing() && attempt < ATTEMPTS => {
                    tokio::time::sleep(Duration::from_secs(1 << attempt)).await;
                    attempt += 1;
                }
                outcome => return outcome,
            }
        }
    }

    /// Ends the session at the server. A session that ended before is no error.
    ///
    /// # Errors
    /// [`ClientError`].
    pub(crate) async fn end_session(&mut self) -> Result<(), ClientError> {
        match self.send(&|client| client.request(Method::DELETE, "/session")).await {
            Ok(_) | Err(ClientError::SessionEnded(_)) => Ok(()),
            Err(ClientError::Problem(problem)) if problem.code == Code::Unauthenticated => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Opens a stream of events, after the event with the id `last`.
    ///
    /// # Errors
    /// [`ClientError`].
    pub(crate) async fn stream(&mut self, path: &str, last: Option<&str>) -> Result<Response, ClientError> {
        let request = |client: &Self| {
            let request = client.request(Method::GET, path).header("accept", EVENT_STREAM);
            match last {
                Some(last) => request.header("last-event-id", last),
                None => request,
            }
        };
        let response = self.send(&request).await?;
        let content_type = response.headers().get("content-type").and_then(|value| value.to_str().ok());
        let content_type = content_type.unwrap_or("none").to_ascii_lowercase();
        if content_type.starts_with(EVENT_STREAM) {
            return Ok(response);
        }
        Err(ClientError::ContentType { address: self.full_address(path), content_type })
    }

    /// Starts a download.
    ///
    /// # Errors
    /// [`ClientError`].
    pub(crate) async fn download(&mut self, path: &str) -> Result<Response, ClientError> {
        self.send(&|client| client.request(Method::GET, path)).await
    }

    /// Reads each page of a list; `query` is the filter, `state=running&` or empty.
    ///
    /// # Errors
    /// [`ClientError`].
    pub(crate) async fn list<T: DeserializeOwned>(&mut self, path: &str, query: &str) -> Result<Vec<T>, ClientError> {
        let (mut items, mut cursor) = (Vec::new(), String::new());
        loop {
            let page: Page<T> = self.get(&format!("{path}?{query}limit={PAGE}{cursor}")).await?;
            items.extend(page.items);
            match page.next {
                Some(next) => cursor = format!("&cursor={}", encode(&next)),
                None => return Ok(items),
            }
        }
    }

    /// Returns the consortium with a name or an id, or the only one.
    ///
    /// # Errors
    /// [`ClientError::Consortium`] with the names to choose from.
    pub(crate) async fn choose_consortium(&mut self, name: Option<&str>) -> Result<Consortium, ClientError> {
        let consortia: Vec<Consortium> = self.list("/consortia", "").await?;
        consortium::choose(&consortia, name).cloned().map_err(ClientError::Consortium)
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, self.address.join(path))
    }

    /// Sends a request; renews an expired session once.
    async fn send(&mut self, request: &impl Fn(&Self) -> RequestBuilder) -> Result<Response, ClientError> {
        let is_key = matches!(self.credential, Some(Credential::ApiKey { .. }));
        match self.send_once(request).await {
            Err(ClientError::Problem(problem)) if problem.code == Code::Unauthenticated && is_key => {
                Err(ClientError::InvalidKey(self.url().to_owned()))
            }
            Err(ClientError::Problem(problem)) if problem.code == Code::Unauthenticated && self.store.is_some() => {
                self.renew().await?;
                self.send_once(request).await
            }
            outcome => outcome,
        }
    }

    async fn send_once(&self, request: &impl Fn(&Self) -> RequestBuilder) -> Result<Response, ClientError> {
        let mut request = request(self);
        if let Some(credential) = &self.credential {
            request = request.bearer_auth(credential.bearer());
        }
        let response = request.send().await.map_err(|source| self.transport("", source))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let address = self.url().to_owned();
        let body = response.bytes().await.map_err(|source| self.transport("", source))?;
        match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) => Err(ClientError::Problem(Box::new(problem))),
            Err(_) => Err(ClientError::Foreign { address, status }),
        }
    }

    async fn read<T: DeserializeOwned>(&self, path: &str, response: Response) -> Result<T, ClientError> {
        let body = response.bytes().await.map_err(|source| self.transport(path, source))?;
        serde_json::from_slice(&body).map_err(|source| ClientError::Form { address: self.full_address(path), source })
    }

    /// Returns the address of a path for messages.
    pub(crate) fn full_address(&self, path: &str) -> String {
        format!("{}{path}", self.url())
    }

    /// Makes the error of a connection.
    pub(crate) fn transport(&self, path: &str, source: reqwest::Error) -> ClientError {
        ClientError::Transport { address: self.full_address(path), source: source.without_url() }
    }

    /// Replaces the tokens of an expired session, unless another process has done so.
    async fn renew(&mut self) -> Result<(), ClientError> {
        let ended = || ClientError::SessionEnded(self.url().to_owned());
        let (Some(store), Some(Credential::Session { tokens: used })) = (&self.store, &self.credential) else {
            return Err(ended());
        };
        let (store, used) = (store.clone(), used.clone());
        let waiting = store.clone();
        let _lock = tokio::task::spawn_blocking(move || waiting.lock()).await??;
        let Some(saved) = store.load()?.filter(|saved| saved.url == self.url()) else { return Err(ended()) };
        let Credential::Session { tokens } = &saved.credential else { return Err(ended()) };
        if tokens.access_token != used.access_token {
            self.credential = Some(saved.credential);
            return Ok(());
        }
        let refresh = RefreshRequest { refresh_token: tokens.refresh_token.clone() };
        let path = "/session/refresh";
        let request = |client: &Self| client.request(Method::POST, path).json(&refresh);
        let stranger = Self { credential: None, store: None, http: self.http.clone(), address: self.address.clone() };
        let response = stranger.send_once(&request).await.map_err(|error| match error {
            ClientError::Problem(problem) if problem.code == Code::Unauthenticated => ended(),
            error => error,
        })?;
        let tokens: TokenPair = self.read(path, response).await?;
        let credential = Credential::Session { tokens };
        store.save(&SavedSignIn { credential: credential.clone(), ..saved })?;
        self.credential = Some(credential);
        Ok(())
    }
}

/// Encodes a value of a query.
pub(crate) fn encode(value: &str) -> String {
    url::form_urlencoded::byte_serialize(value.as_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::{ClientError, RestClient};

    /// A page of a proxy.
    const PAGE: &[u8] =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";

    #[tokio::test]
    async fn page_of_a_proxy_is_no_event_stream() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let proxy = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.expect("a client");
            let mut request = [0; 4096];
            let length = socket.read(&mut request).await.expect("a request");
            assert!(length > 0);
            socket.write_all(PAGE).await.expect("a reader");
        });
        let mut client = RestClient::new(&format!("http://{address}"), None).expect("a client");
        let error = client.stream("/jobs/x/events", None).await.expect_err("a page");
        assert!(matches!(&error, ClientError::ContentType { content_type, .. } if content_type == "text/html"));
        assert!(!error.is_passing(), "{error}");
        proxy.await.expect("no failure");
    }
}
