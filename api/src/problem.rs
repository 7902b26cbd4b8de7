//! The one table of error codes: HTTP status, gRPC code, title and URN of each, for all interfaces.

use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $slug:literal, $http:literal, $grpc:literal, $title:literal;)*) => {
        /// The code of a failure.
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
    /// Some fields of the input are wrong; `violations` names each of them.
    ValidationFailed = "validation_failed", 422, 3, "Some of the input cannot be accepted";
    /// The operation cannot read the body (broken JSON, wrong content type, missing fields, which `violations` names).
    Malformed = "malformed", 400, 3, "The request could not be read";
    /// The credentials are missing or no longer valid.
    Unauthenticated = "unauthenticated", 401, 16, "Sign in to go on";
    /// E-mail or password is wrong. The response does not state which.
    WrongCredentials = "wrong_credentials", 401, 16, "E-mail or password is wrong";
    /// The code of the second factor is wrong, or was already used.
    WrongCode = "wrong_code", 401, 16, "The code is wrong";
    /// The passkey does not belong to the account, or its assertion is invalid.
    WrongPasskey = "wrong_passkey", 401, 16, "The passkey was not accepted";
    /// The server requires a second factor, and the caller has none yet.
    SecondFactorMissing = "second_factor_missing", 403, 7, "Set up a second factor to go on";
    /// The operation requires a proof of identity that is at most some minutes old.
    ProofStale = "proof_stale", 403, 7, "Confirm your identity to go on";
    /// The caller may see the subject, but may not do this.
    Forbidden = "forbidden", 403, 7, "Your role does not allow this";
    /// The subject does not exist, or the caller may not know of it.
    NotFound = "not_found", 404, 5, "There is nothing here that you may see";
    /// The address does not support the method.
    MethodNotAllowed = "method_not_allowed", 405, 12, "This address does not do that";
    /// An item with that name or address already exists.
    AlreadyExists = "already_exists", 409, 6, "That already exists";
    /// The subject's state does not allow the operation.
    WrongState = "wrong_state", 409, 9, "Not possible in the present state";
    /// The same request, with the same idempotency key, is in progress, or its answer was lost.
    InProgress = "in_progress", 409, 10, "The same request is under way";
    /// The one-time link was used, has expired or was withdrawn.
    LinkSpent = "link_spent", 410, 9, "This link can no longer be used";
    /// The dataset has no budget for the job's privacy unit.
    BudgetMissing = "budget_missing", 409, 9, "No budget has been set";
    /// The budget does not admit this; `refusals` states the spent, requested and remaining figures.
    BudgetExceeded = "budget_exceeded", 409, 9, "The budget does not allow this";
    /// An audit disproved a claim about the dataset. No reservation is possible until a steward clears the freeze.
    AccountFrozen = "account_frozen", 409, 9, "An audit has frozen this account";
    /// The job promises an audit, which it has not passed yet.
    Withheld = "withheld", 409, 9, "Withheld until the audit is passed";
    /// Another caller has changed the subject.
    PreconditionFailed = "precondition_failed", 412, 9, "It was changed in the meantime";
    /// The caller does not hold the lease, or no longer holds it.
    LeaseLost = "lease_lost", 409, 10, "The lease is no longer held";
    /// The round is closed.
    RoundClosed = "round_closed", 409, 9, "The round is closed";
    /// The subject is not available yet; repeat the request later.
    NotReady = "not_ready", 409, 14, "Not ready yet";
    /// The body or a count exceeds its limit.
    TooLarge = "too_large", 413, 8, "That is over the limit";
    /// Too many requests in too short a time.
    RateLimited = "rate_limited", 429, 8, "Too many requests; wait a little";
    /// A signature, digest or chain is invalid.
    BadSignature = "bad_signature", 422, 3, "A signature or digest does not hold";
    /// An error in the server.
    Internal = "internal", 500, 13, "Something went wrong on our side";
    /// The server is starting, stopping or cannot reach its database.
    Unavailable = "unavailable", 503, 14, "Not available just now";
}

/// A violation of one field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Violation {
    /// Path of the field, dots between, indices as numbers: `spec.participants.2.clip`.
    pub field: String,
    /// The defect and the valid range.
    pub message: String,
}

impl Violation {
    /// Makes a violation of the field at `field`.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

/// An RFC 9457 problem document. The same content travels in gRPC details and to the dashboard.
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
    /// The occurrence, and the remedy.
    pub detail: String,
    /// Every violation, if the input is invalid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<Violation>,
    /// The figures of a refused budget, one for each account that refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<crate::budget::BudgetRefusal>,
    /// Seconds after which the request may be repeated, if known; `Retry-After` in HTTP.
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
    pub const fn with_retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// Makes a problem for rejected input, with every reason.
    pub fn validation(violations: Vec<Violation>) -> Self {
        Self::with_violations(Code::ValidationFailed, violations)
    }

    /// Makes a problem with a code for rejected input, with every reason.
    pub fn with_violations(code: Code, violations: Vec<Violation>) -> Self {
        let detail = violations.iter().map(|v| format!("{}: {}", v.field, v.message)).collect::<Vec<_>>().join("; ");
        Self { violations, ..Self::new(code, detail) }
    }
}
