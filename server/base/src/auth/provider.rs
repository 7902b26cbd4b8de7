//! Sign-in at an identity provider by OpenID Connect: the authorization code flow with PKCE, state and nonce. This
//! module talks to the provider and verifies its responses; `service::oidc` maps the identity to a member.
//!
//! A [`SignInAttempt`] holds the values that must come back unchanged. It is stored encrypted in a cookie of the browser
//! that began (see `rest::oidc`), so it works at every replica, and no other browser can finish the attempt.

mod http;

use std::sync::Arc;

use chrono::{DateTime, Utc};
use openidconnect::core::{
    CoreAuthenticationFlow, CoreClient, CoreIdToken, CoreIdTokenClaims, CoreIdTokenVerifier,
    CoreJwsSigningAlgorithm as Alg, CoreProviderMetadata, CoreUserInfoClaims,
};
use openidconnect::{
    AccessToken, AccessTokenHash, AuthorizationCode, ClientId, ClientSecret, CsrfToken, IssuerUrl, Nonce,
    OAuth2TokenResponse as _, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, RequestTokenError, Scope,
    TokenResponse as _,
};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;
use time::{Duration, OffsetDateTime};
use tokio::sync::{Mutex, RwLock};

use crate::config::{Config, OidcConfig};
use crate::ctx::Ctx;

/// The time for which the provider's metadata and keys are cached.
const METADATA_LIFETIME: Duration = Duration::hours(1);
/// The time after which the metadata is requested again when a signature is by an unknown key.
const AGAIN: Duration = Duration::minutes(1);
/// The time for which callers receive the last error at once, after the provider failed to answer.
const FAILED: Duration = Duration::seconds(5);
/// The longest time that a caller waits for a metadata request that another caller began.
const TURN: std::time::Duration = std::time::Duration::from_secs(1);
/// The accepted signature algorithms: asymmetric ones only, and never `none`.
const ALGORITHMS: [Alg; 9] = [
    Alg::RsaSsaPkcs1V15Sha256,
    Alg::RsaSsaPkcs1V15Sha384,
    Alg::RsaSsaPkcs1V15Sha512,
    Alg::RsaSsaPssSha256,
    Alg::RsaSsaPssSha384,
    Alg::RsaSsaPssSha512,
    Alg::EcdsaP256Sha256,
    Alg::EcdsaP384Sha384,
    Alg::EdDsa,
];

/// An identity provider.
pub struct Provider {
    /// Its id in URLs; empty for the provider of `oidc.*`.
    id: String,
    config: OidcConfig,
    issuer: IssuerUrl,
    http: reqwest::Client,
    metadata_cache: RwLock<Option<CachedMetadata>>,
    /// Locked during a request, so that one runs at a time; contains the last failure.
    last_failure: Mutex<Option<MetadataFailure>>,
}

/// A failed request for the provider's metadata, and its time.
struct MetadataFailure {
    reason: String,
    at: OffsetDateTime,
}

/// The provider's metadata, and the time of its retrieval.
#[derive(Clone)]
struct CachedMetadata {
    metadata: Arc<CoreProviderMetadata>,
    at: OffsetDateTime,
}

/// The values that must come back unchanged.
#[derive(Clone, Serialize, Deserialize)]
pub struct SignInAttempt {
    state: String,
    nonce: String,
    verifier: String,
}

/// A person's identity at the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The provider.
    pub issuer: String,
    /// The person's permanent identifier there.
    pub subject: String,
    /// The person's e-mail address, if the provider has verified it.
    pub email: Option<String>,
    /// The person's name.
    pub name: Option<String>,
}

/// A reason why a sign-in failed.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// The provider cannot be used with its configuration.
    #[error("the provider cannot be used: {0}")]
    Configuration(String),
    /// The provider does not answer, or not correctly.
    #[error("the provider does not answer as it should: {0}")]
    Unreachable(String),
    /// The response belongs to another attempt.
    #[error("the answer belongs to another attempt")]
    Attempt,
    /// The provider rejects the code: it was used, has expired, or is not its own.
    #[error("the provider does not take the code: {0}")]
    Code(String),
    /// The provider's claims about the person are invalid.
    #[error("the identity does not hold: {0}")]
    Identity(String),
}

impl Provider {
    /// Makes the provider of `oidc.*`, if it is configured. This sends no request.
    ///
    /// # Errors
    /// [`ProviderError::Configuration`] if its address is invalid, or no HTTP client can be made.
    pub fn from_config(config: &OidcConfig) -> Result<Option<Self>, ProviderError> {
        let Some(issuer) = &config.issuer else { return Ok(None) };
        let issuer = IssuerUrl::new(issuer.clone())
            .map_err(|error| ProviderError::Configuration(format!("oidc.issuer is no address: {error}")))?;
        let http = http::client().map_err(|error| ProviderError::Configuration(error.to_string()))?;
        let metadata_cache = RwLock::new(None);
        let last_failure = Mutex::new(None);
        Ok(Some(Self { id: String::new(), config: config.clone(), issuer, http, metadata_cache, last_failure }))
    }

    /// Makes every configured provider: the one of `oidc.*` first.
    ///
    /// # Errors
    /// As [`Self::from_config`], and if the file of a secret cannot be read.
    pub fn load_all(config: &Config) -> Result<Vec<Self>, ProviderError> {
        let mut all: Vec<Self> = Self::from_config(&config.oidc)?.into_iter().collect();
        for further in &config.providers {
            let unread =
                |error| ProviderError::Configuration(format!("client_secret_file of `{}`: {error}", further.id));
            let settings = further.read().map_err(unread)?;
            all.extend(Self::from_config(&settings)?.map(|provider| Self { id: further.id.clone(), ..provider }));
        }
        Ok(all)
    }

    /// Returns its id in URLs; empty for the provider of `oidc.*`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the provider's issuer URL.
    pub fn issuer(&self) -> &str {
        self.issuer.as_str()
    }

    /// Returns the domains of e-mail addresses for which the provider is accepted; empty for all.
    pub fn domains(&self) -> &str {
        &self.config.domains
    }

    /// Returns the display name.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Returns whether a person without an invitation may become a member, without any role.
    pub const fn allows_signup(&self) -> bool {
        self.config.allow_signup
    }

    /// Begins a sign-in: returns the URL for the browser, and the values that must come back unchanged.
    ///
    /// # Errors
    /// [`ProviderError::Unreachable`] if the provider does not return its metadata.
    pub async fn begin(&self, ctx: &Ctx) -> Result<(String, SignInAttempt), ProviderError> {
        let attempt =
            SignInAttempt { state: ctx.random.secret(), nonce: ctx.random.secret(), verifier: ctx.random.secret() };
        let metadata = self.load_metadata(ctx, METADATA_LIFETIME).await?;
        let client = CoreClient::from_provider_metadata((*metadata).clone(), self.client_id(), self.secret())
            .set_redirect_uri(self.redirect(ctx)?);
        let verifier = PkceCodeVerifier::new(attempt.verifier.clone());
        let (state, nonce) = (CsrfToken::new(attempt.state.clone()), Nonce::new(attempt.nonce.clone()));
        let mut request = client
            .authorize_url(CoreAuthenticationFlow::AuthorizationCode, move || state, move || nonce)
            .set_pkce_challenge(PkceCodeChallenge::from_code_verifier_sha256(&verifier));
        // The library adds `openid` itself.
        for scope in self.config.scopes.split_whitespace().filter(|scope| *scope != "openid") {
            request = request.add_scope(Scope::new(scope.to_owned()));
        }
        Ok((request.url().0.to_string(), attempt))
    }

    /// Finishes a sign-in: returns the person's identity for the code and the state that the browser brought back.
    ///
    /// # Errors
    /// [`ProviderError`].
    pub async fn finish(
        &self,
        ctx: &Ctx,
        attempt: &SignInAttempt,
        state: &str,
        code: &str,
        issuer: Option<&str>,
    ) -> Result<Identity, ProviderError> {
        let same: bool = attempt.state.as_bytes().ct_eq(state.as_bytes()).into();
        if !same || issuer.is_some_and(|issuer| issuer != self.issuer.as_str()) {
            return Err(ProviderError::Attempt);
        }
        let metadata = self.load_metadata(ctx, METADATA_LIFETIME).await?;
        let client = CoreClient::from_provider_metadata((*metadata).clone(), self.client_id(), self.secret())
            .set_redirect_uri(self.redirect(ctx)?);
        let ask = |request| http::ask(self.http.clone(), request);
        let tokens = client
            .exchange_code(AuthorizationCode::new(code.to_owned()))
            .map_err(|error| ProviderError::Unreachable(error.to_string()))?
            .set_pkce_verifier(PkceCodeVerifier::new(attempt.verifier.clone()))
            .request_async(&ask)
            .await
            .map_err(|error| match error {
                RequestTokenError::ServerResponse(response) => ProviderError::Code(response.error().to_string()),
                other => ProviderError::Unreachable(other.to_string()),
            })?;
        let id_token = tokens.id_token().ok_or_else(|| ProviderError::Identity("there is no ID token".to_owned()))?;
        let claims = self.verify_token(ctx, id_token, attempt, tokens.access_token()).await?;
        let about = match client.user_info(tokens.access_token().clone(), Some(claims.subject().clone())) {
            // A provider with a userinfo endpoint may return name and e-mail there only.
            Ok(request) if claims.email().is_none() => {
                let about: Result<CoreUserInfoClaims, _> = request.request_async(&ask).await;
                Some(about.map_err(|error| ProviderError::Identity(error.to_string()))?)
            }
            _ => None,
        };
        Ok(self.identity(&claims, about.as_ref()))
    }

    /// Verifies an ID token (signature, issuer, audience, time, nonce, and its access token) and returns its claims.
    async fn verify_token(
        &self,
        ctx: &Ctx,
        token: &CoreIdToken,
        attempt: &SignInAttempt,
        access: &AccessToken,
    ) -> Result<CoreIdTokenClaims, ProviderError> {
        let metadata = self.load_metadata(ctx, METADATA_LIFETIME).await?;
        let first = self.check_claims(ctx, &metadata, token, attempt, access);
        match first {
            // The provider may sign with a newer key.
            Err(ProviderError::Identity(_)) => {
                let metadata = self.load_metadata(ctx, AGAIN).await?;
                self.check_claims(ctx, &metadata, token, attempt, access)
            }
            result => result,
        }
    }

    fn check_claims(
        &self,
        ctx: &Ctx,
        metadata: &CoreProviderMetadata,
        token: &CoreIdToken,
        attempt: &SignInAttempt,
        access: &AccessToken,
    ) -> Result<CoreIdTokenClaims, ProviderError> {
        let wrong = |error: &dyn std::error::Error| ProviderError::Identity(error.to_string());
        let issuer = self.issuer.clone();
        let keys = metadata.jwks().clone();
        let verifier = match self.secret() {
            Some(secret) => CoreIdTokenVerifier::new_confidential_client(self.client_id(), secret, issuer, keys),
            None => CoreIdTokenVerifier::new_public_client(self.client_id(), issuer, keys),
        };
        let clock = ctx.clock.clone();
        let verifier = verifier.set_allowed_algs(ALGORITHMS).set_time_fn(move || moment(clock.now()));
        let nonce = Nonce::new(attempt.nonce.clone());
        let claims = token.claims(&verifier, &nonce).map_err(|error| wrong(&error))?;
        if let Some(expected) = claims.access_token_hash() {
            let algorithm = token.signing_alg().map_err(|error| wrong(&error))?;
            let key = token.signing_key(&verifier).map_err(|error| wrong(&error))?;
            let hash = AccessTokenHash::from_token(access, algorithm, key).map_err(|error| wrong(&error))?;
            if hash != *expected {
                return Err(ProviderError::Identity("the access token is another's".to_owned()));
            }
        }
        Ok(claims.clone())
    }

    fn identity(&self, claims: &CoreIdTokenClaims, about: Option<&CoreUserInfoClaims>) -> Identity {
        let (mut email, mut verified) = (claims.email().cloned(), claims.email_verified());
        let mut name = claims.name().and_then(|name| name.get(None)).map(|name| name.as_str().to_owned());
        if let Some(about) = about {
            (email, verified) = (about.email().cloned(), about.email_verified());
            name = name.or_else(|| about.name().and_then(|name| name.get(None)).map(|name| name.as_str().to_owned()));
        }
        Identity {
            issuer: self.issuer.as_str().to_owned(),
            subject: claims.subject().as_str().to_owned(),
            email: email.filter(|_| verified == Some(true)).map(|email| email.as_str().to_owned()),
            name,
        }
    }

    /// Returns the provider's metadata, not older than `max_age`. One request runs at a time, and callers do not queue
    /// behind a provider that does not answer.
    async fn load_metadata(&self, ctx: &Ctx, max_age: Duration) -> Result<Arc<CoreProviderMetadata>, ProviderError> {
        let now = ctx.now();
        if let Some(metadata) = self.fresh(now, max_age).await {
            return Ok(metadata);
        }
        let Ok(mut failure) = tokio::time::timeout(TURN, self.last_failure.lock()).await else {
            return Err(ProviderError::Unreachable("it was asked, and has not answered yet".to_owned()));
        };
        // Another caller may have requested it meanwhile.
        if let Some(metadata) = self.fresh(now, max_age).await {
            return Ok(metadata);
        }
        if let Some(last) = failure.as_ref().filter(|last| now - last.at < FAILED) {
            return Err(ProviderError::Unreachable(last.reason.clone()));
        }
        match self.ask_metadata().await {
            Ok(metadata) => {
                let metadata = Arc::new(metadata);
                *self.metadata_cache.write().await = Some(CachedMetadata { metadata: Arc::clone(&metadata), at: now });
                *failure = None;
                Ok(metadata)
            }
            Err(reason) => {
                *failure = Some(MetadataFailure { reason: reason.clone(), at: ctx.now() });
                Err(ProviderError::Unreachable(reason))
            }
        }
    }

    /// Requests the provider's metadata and keys once, without caching them.
    ///
    /// # Errors
    /// [`ProviderError::Unreachable`] if it does not answer, or describes another issuer.
    pub async fn discover(&self) -> Result<(), ProviderError> {
        self.ask_metadata().await.map(drop).map_err(ProviderError::Unreachable)
    }

    async fn ask_metadata(&self) -> Result<CoreProviderMetadata, String> {
        let ask = |request| http::ask(self.http.clone(), request);
        CoreProviderMetadata::discover_async(self.issuer.clone(), &ask).await.map_err(|error| chain(&error))
    }

    /// Returns the cached metadata, unless it is older than `max_age`.
    async fn fresh(&self, now: OffsetDateTime, max_age: Duration) -> Option<Arc<CoreProviderMetadata>> {
        let cache = self.metadata_cache.read().await;
        cache.as_ref().filter(|entry| now - entry.at < max_age).map(|entry| Arc::clone(&entry.metadata))
    }

    /// Returns the provider's own redirect URL, so that the response of one provider is not mistaken for another's.
    fn redirect(&self, ctx: &Ctx) -> Result<RedirectUrl, ProviderError> {
        let address = if self.id.is_empty() { callback(ctx) } else { format!("{}/{}", callback(ctx), self.id) };
        RedirectUrl::new(address)
            .map_err(|error| ProviderError::Configuration(format!("public_url is no address: {error}")))
    }

    fn client_id(&self) -> ClientId {
        ClientId::new(self.config.client_id.clone())
    }

    fn secret(&self) -> Option<ClientSecret> {
        self.config.client_secret.clone().map(ClientSecret::new)
    }
}

/// Returns the redirect URL of the first provider: `/oidc/callback` of the public address.
pub(crate) fn callback(ctx: &Ctx) -> String {
    format!("{}/oidc/callback", ctx.addresses.http)
}

/// Converts a time to the library's type.
fn moment(at: OffsetDateTime) -> DateTime<Utc> {
    DateTime::from_timestamp(at.unix_timestamp(), at.nanosecond()).unwrap_or_default()
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use time::{Duration, OffsetDateTime};

    #[test]
    fn library_receives_the_same_time() {
        let at = OffsetDateTime::UNIX_EPOCH + Duration::new(1_795_000_000, 123_456_000);
        assert_eq!(super::moment(at).timestamp_micros(), at.unix_timestamp() * 1_000_000 + 123_456);
    }
}
