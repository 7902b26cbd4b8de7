//! The errors of the service layer, and their only conversion into problem documents.

mod outage;

use sea_orm::DbErr;
use undertone_api::problem::{Code, Problem, Violation};

use self::outage::Outage;
use crate::nul_bytes;

/// An error of the service layer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A problem that the caller should know, and can often correct.
    #[error(transparent)]
    Problem(#[from] Box<Problem>),
    /// The database refused, or did not answer.
    #[error("the database failed")]
    Database(#[from] DbErr),
    /// A defect.
    #[error("{what}")]
    Internal {
        /// The operation.
        what: &'static str,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Error {
    /// Makes a problem with this code.
    pub fn problem(code: Code, detail: impl Into<String>) -> Self {
        Problem::new(code, detail).into()
    }

    /// Makes the error for an object that does not exist or is hidden from the caller; `what` is a noun: "job".
    pub fn not_found(what: &str) -> Self {
        Self::problem(Code::NotFound, format!("there is no such {what}, or you may not see it"))
    }

    /// Makes the error for a visible object with a forbidden operation.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::problem(Code::Forbidden, detail)
    }

    /// Makes the error for an operation that the current state does not permit.
    pub fn wrong_state(detail: impl Into<String>) -> Self {
        Self::problem(Code::WrongState, detail)
    }

    /// Makes the error for invalid input, with every reason.
    pub fn validation(violations: Vec<Violation>) -> Self {
        Problem::validation(violations).into()
    }

    /// Makes the error for a defect during the operation `what`.
    pub fn internal(what: &'static str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Internal { what, source: source.into() }
    }

    /// Returns the problem code.
    pub fn code(&self) -> Code {
        match self {
            Self::Problem(problem) => problem.code,
            Self::Database(error) if holds_nul(error) => Code::Malformed,
            _ if self.outage().is_some() => Code::Unavailable,
            Self::Database(_) | Self::Internal { .. } => Code::Internal,
        }
    }

    /// Returns the outage that caused the error, if any.
    pub fn outage(&self) -> Option<Outage> {
        match self {
            Self::Problem(_) => None,
            Self::Database(error) => Outage::from_database(error),
            Self::Internal { source, .. } => Outage::from_chain(source.as_ref()),
        }
    }

    /// Converts to a problem for the caller. An error of the server is logged here, once, and reported without its
    /// cause: every interface calls this at its edge and nowhere else.
    pub fn into_problem(self) -> Problem {
        let code = self.code();
        match self {
            Self::Problem(problem) => *problem,
            Self::Database(error) if holds_nul(&error) => Problem::new(code, nul_bytes::REFUSED),
            failure => {
                let chain = chain(&failure);
                tracing::error!(error.chain = chain, error.code = code.slug(), "an operation failed on our side");
                let unexplained = "the failure is in the server's log under this request's id";
                Problem::new(code, failure.outage().map_or(unexplained, Outage::detail))
            }
        }
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self::Problem(Box::new(problem))
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        error.into_problem()
    }
}

/// Returns whether PostgreSQL refused a text with a zero byte (22021, and 22P05 inside JSON): the caller's input, not a
/// defect.
fn holds_nul(error: &DbErr) -> bool {
    let message = error.to_string();
    message.contains("invalid byte sequence for encoding \"UTF8\": 0x00")
        || message.contains("unsupported Unicode escape sequence")
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
    use sea_orm::DbErr;
    use undertone_api::problem::Code;

    use super::Error;

    #[test]
    fn the_cause_of_our_own_failure_stays_with_us() {
        let problem = Error::Database(DbErr::Custom("password of the database".to_owned())).into_problem();
        assert_eq!(problem.code, Code::Internal);
        assert!(!problem.detail.contains("password"));
    }
}
