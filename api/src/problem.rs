//! The one table of error codes: HTTP status, gRPC code, title and URN of each, for all interfaces.

use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $slug:literal, $http:literal, $grpc:literal, $title:literal;)*) => {
        /// What went wrong, as programs name it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[serde(rename_all = "snake_case")]
        pub enum Code {
            $($(#[$doc])* $name,)*
        }

        impl Code {
            /// Every code, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns the code in JSON and in URNs.
            pub const fn slug(self) -> &'static str {
                match self { $(Self::$name => $slug,)* }
            }

            /// Returns the HTTP status.
            pub const fn http_status(self) -> u16 {
                match self { $(Self::$name => $http,)* }
            }

            /// Returns the number of the gRPC status code.
            pub const fn grpc_code(self) -> i32 {
                match self { $(Self::$name => $grpc,)* }
            }

            /// Returns a short sentence, the same for every occurrence.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)* }
            }
        }
    };
}

codes! {
    /// Some fields of the input are wrong; `violations` names every one.
    ValidationFailed = "validation_failed", 422, 3, "Some of the input cannot be accepted";
    /// The body is not what the operation reads (broken JSON, wrong content type, missing fields, which `violations` names).
    Malformed = "malformed", 400, 3, "The request could not be read";
    /// No credentials, or credentials that no longer hold.
    Unauthenticated = "unauthenticated", 401, 16, "Sign in to go on";
    /// E-mail or password is wrong (which one is not said).
    WrongCredentials = "wrong_credentials", 401, 16, "E-mail or password is wrong";
    /// The code of the second factor is wrong, or was used already.
    WrongCode = "wrong_code", 401, 16, "The code is wrong";
    /// The passkey is not one of the account, or its answer does not hold.
    WrongPasskey = "wrong_passkey", 401, 16, "The passkey was not accepted";
    /// The server asks everybody for a second factor, and the caller has none yet.
    SecondFactorMissing = "second_factor_missing", 403, 7, "Set up a second factor to go on";
    /// The operation asks for a proof of identity that is not older than some minutes.
    ProofStale = "proof_stale", 403, 7, "Confirm your identity to go on";
    /// The caller may see this, but not do that.
    Forbidden = "forbidden", 403, 7, "Your role does not allow this";
    /// Not there, or not for the caller to know.
    NotFound = "not_found", 404, 5, "There is nothing here that you may see";
    /// The method does not exist on this address.
    MethodNotAllowed = "method_not_allowed", 405, 12, "This address does not do that";
    /// Something with that name or address already exists.
    AlreadyExists = "already_exists", 409, 6, "That already exists";
    /// The subject is in a state in which this cannot be done.
    WrongState = "wrong_state", 409, 9, "Not possible in the present state";
    /// The same request, with the same idempotency key, is under way, or its answer was lost.
    InProgress = "in_progress", 409, 10, "The same request is under way";
    /// The one-time link was used, has expired or was withdrawn.
    LinkSpent = "link_spent", 410, 9, "This link can no longer be used";
    /// The dataset has no budget for the job's privacy unit.
    BudgetMissing = "budget_missing", 409, 9, "No budget has been set";
    /// The budget does not admit this; `refusal` says what is spent, asked and left.
    BudgetExceeded = "budget_exceeded", 409, 9, "The budget does not allow this";
    /// An audit disproved what was claimed about the dataset; nothing new is reserved until a steward clears it.
    AccountFrozen = "account_frozen", 409, 9, "An audit has frozen this account";
    /// The job promises an audit, and it has not been passed.
    Withheld = "withheld", 409, 9, "Withheld until the audit is passed";
    /// Somebody changed it in between.
    PreconditionFailed = "precondition_failed", 412, 9, "It was changed in the meantime";
    /// The lease is not, or no longer, the caller's.
    LeaseLost = "lease_lost", 409, 10, "The lease is no longer held";
    /// The round is over.
    RoundClosed = "round_closed", 409, 9, "The round is closed";
    /// Not there yet; ask again.
    NotReady = "not_ready", 409, 14, "Not ready yet";
    /// The body or a count is over its limit.
    TooLarge = "too_large", 413, 8, "That is over the limit";
    /// Too many requests in too short a time.
    RateLimited = "rate_limited", 429, 8, "Too many requests; wait a little";
    /// A signature, digest or chain does not hold.
    BadSignature = "bad_signature", 422, 3, "A signature or digest does not hold";
    /// The server's own fault.
    Internal = "internal", 500, 13, "Something went wrong on our side";
    /// The server is starting, stopping or cannot reach its database.
    Unavailable = "unavailable", 503, 14, "Not available just now";
}

/// One thing wrong with one field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Violation {
    /// Path of the field, dots between, indices as numbers: `spec.participants.2.clip`.
    pub field: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl Violation {
    /// Makes a violation of the field at `field`.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

/// An RFC 9457 problem document; the same content travels in gRPC details and to the dashboard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[error("{title}: {detail}")]
pub struct Problem {
    /// `urn:undertone:problem:<code>`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The code's title.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The code.
    pub code: Code,
    /// What happened here, and what to do about it.
    pub detail: String,
    /// Every violation, when the input was at fault.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<Violation>,
    /// The figures of a refused budget, one for each account that refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<crate::budget::Refusal>,
    /// Seconds after which it may be tried again, when there is such a time; `Retry-After` by HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u32>,
}

impl Problem {
    /// Makes a problem with the code's title and status.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("urn:undertone:problem:{}", code.slug()),
            title: code.title().to_owned(),
            status: code.http_status(),
            code,
            detail: detail.into(),
            violations: Vec::new(),
            refusals: Vec::new(),
            retry_after: None,
        }
    }

    /// Sets the seconds after which the request may be repeated.
    #[must_use]
    pub const fn after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// Makes a problem for rejected input, with every reason.
    pub fn validation(violations: Vec<Violation>) -> Self {
        Self::with_violations(Code::ValidationFailed, violations)
    }

    /// Input that is refused with a code, with every reason.
    pub fn with_violations(code: Code, violations: Vec<Violation>) -> Self {
        let detail = violations.iter().map(|v| format!("{}: {}", v.field, v.message)).collect::<Vec<_>>().join("; ");
        Self { violations, ..Self::new(code, detail) }
    }
}
