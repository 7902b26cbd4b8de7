//! The reasons of failed calls, and the use of another attempt.

use std::time::Duration;

use tonic::{Code as GrpcCode, Status};
use undertone_api::problem::{Code, Problem};
use undertone_proto::{PROBLEM_METADATA, retry_delay, to_problem};

/// The reason of a failed call.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The server cannot be reached, or not now.
    #[error("cannot reach the server: {0}")]
    Unreachable(String),
    /// The server refuses.
    #[error("the server refuses the call: {} ({})", .0.detail, .0.code.slug())]
    Problem(Box<Problem>),
    /// The server asks for a later attempt.
    #[error("the server refuses the call: {} ({})", .problem.detail, .problem.code.slug())]
    Later {
        /// The reason of the delay.
        problem: Box<Problem>,
        /// The time until the next attempt.
        wait: Duration,
    },
    /// The answer is invalid.
    #[error("the server's answer is invalid: {0}")]
    Protocol(String),
    /// The address or the certificate cannot be used.
    #[error("cannot connect to this server: {0}")]
    Address(String),
    /// The site's key could not sign.
    #[error("the site's key cannot sign")]
    Signing(#[from] undertone_api::signed::SignedError),
}

impl GatewayError {
    /// Returns whether trying again cannot help.
    pub const fn is_final(&self) -> bool {
        match self {
            Self::Address(_) | Self::Signing(_) => true,
            // The server does not know the worker, or rejects its key.
            Self::Problem(problem) => matches!(problem.code, Code::Forbidden | Code::BadSignature),
            Self::Unreachable(_) | Self::Later { .. } | Self::Protocol(_) => false,
        }
    }

    /// Returns whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Later { .. } => true,
            Self::Problem(problem) => {
                matches!(
                    problem.code,
                    Code::Unavailable | Code::Internal | Code::NotReady | Code::RateLimited | Code::Unauthenticated
                )
            }
            Self::Protocol(_) | Self::Address(_) | Self::Signing(_) => false,
        }
    }

    /// Returns the server's code, if it answered with one.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Problem(problem) | Self::Later { problem, .. } => Some(problem.code),
            _ => None,
        }
    }

    /// Returns the time until the next attempt that the server requests, if any.
    pub const fn wait(&self) -> Option<Duration> {
        match self {
            Self::Later { wait, .. } => Some(*wait),
            _ => None,
        }
    }
}

impl From<Status> for GatewayError {
    fn from(status: Status) -> Self {
        let has_problem = status.metadata().get_bin(PROBLEM_METADATA).is_some();
        let is_network = matches!(
            status.code(),
            GrpcCode::Unavailable
                | GrpcCode::DeadlineExceeded
                | GrpcCode::Cancelled
                | GrpcCode::Unknown
                | GrpcCode::Internal
                | GrpcCode::Aborted
        );
        if is_network && !has_problem {
            let mut message = status.message().to_owned();
            let mut source = std::error::Error::source(&status);
            while let Some(error) = source {
                message = format!("{message}: {error}");
                source = error.source();
            }
            return Self::Unreachable(message);
        }
        let problem = Box::new(to_problem(&status));
        match retry_delay(&status).filter(|_| problem.code == Code::RateLimited) {
            Some(wait) => Self::Later { problem, wait },
            None => Self::Problem(problem),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tonic::{Code as GrpcCode, Status};
    use undertone_api::problem::{Code, Problem};
    use undertone_proto::{to_retry_status, to_status};

    use super::GatewayError;

    #[test]
    fn network_errors_are_transient_and_server_codes_decide() {
        for code in [GrpcCode::Unavailable, GrpcCode::Unknown, GrpcCode::Internal, GrpcCode::Cancelled] {
            assert!(GatewayError::from(Status::new(code, "connection reset")).is_transient(), "{code:?}");
        }
        for (code, transient) in [
            (Code::Internal, true),
            (Code::NotReady, true),
            (Code::Unauthenticated, true),
            (Code::LeaseLost, false),
            (Code::RoundClosed, false),
            (Code::BadSignature, false),
        ] {
            let error = GatewayError::from(to_status(&Problem::new(code, "why")));
            assert_eq!((error.is_transient(), error.code()), (transient, Some(code)));
        }
    }

    #[test]
    fn overloaded_server_requests_a_pause() {
        let busy = Problem::new(Code::RateLimited, "the server is overloaded");
        let wait = Duration::from_secs(2);
        let error = GatewayError::from(to_retry_status(&busy, wait));
        assert_eq!((error.is_transient(), error.code(), error.wait()), (true, Some(Code::RateLimited), Some(wait)));
        // A requested time beside another code has no effect.
        let lost = GatewayError::from(to_retry_status(&Problem::new(Code::LeaseLost, "another has begun"), wait));
        assert_eq!((lost.is_transient(), lost.wait()), (false, None));
        assert_eq!(GatewayError::from(to_status(&busy)).wait(), None);
    }
}
