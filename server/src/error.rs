//! What can go wrong in a rule, and the one place where it becomes a problem document.

mod outage;

use sea_orm::DbErr;
use undertone_api::problem::{Code, Problem, Violation};

use self::outage::Outage;
use crate::nul;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something the caller should know, and can often mend.
    #[error(transparent)]
    Problem(#[from] Box<Problem>),
    /// The database said no, or nothing.
    #[error("the database failed")]
    Database(#[from] DbErr),
    /// Something that should not have happened.
    #[error("{what}")]
    Internal {
        /// What was being done.
        what: &'static str,
        /// Why it failed.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Error {
    /// A problem of this code.
    pub fn problem(code: Code, detail: impl Into<String>) -> Self {
        Problem::new(code, detail).into()
    }

    /// Not there, or not for the caller to know; `what` is a noun: "job".
    pub fn not_found(what: &str) -> Self {
        Self::problem(Code::NotFound, format!("there is no such {what}, or you may not see it"))
    }

    /// Seen, but not to be done.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::problem(Code::Forbidden, detail)
    }

    /// Not possible in the present state.
    pub fn wrong_state(detail: impl Into<String>) -> Self {
        Self::problem(Code::WrongState, detail)
    }

    /// Input that cannot be accepted, with every reason.
    pub fn validation(violations: Vec<Violation>) -> Self {
        Problem::validation(violations).into()
    }

    /// Something that should not have happened while `what` was being done.
    pub fn internal(what: &'static str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Internal { what, source: source.into() }
    }

    /// The code by which the failure is known.
    pub fn code(&self) -> Code {
        match self {
            Self::Problem(problem) => problem.code,
            Self::Database(error) if holds_nul(error) => Code::Malformed,
            _ if self.outage().is_some() => Code::Unavailable,
            Self::Database(_) | Self::Internal { .. } => Code::Internal,
        }
    }

    /// Returns the system below the server whose failure this is, if it is one.
    pub(crate) fn outage(&self) -> Option<Outage> {
        match self {
            Self::Problem(_) => None,
            Self::Database(error) => Outage::from_database(error),
            Self::Internal { source, .. } => Outage::from_chain(source.as_ref()),
        }
    }

    /// What the caller is told. A failure of our own is logged here, once, and told without its cause: every face calls
    /// this at its edge and nowhere else.
    pub fn into_problem(self) -> Problem {
        let code = self.code();
        match self {
            Self::Problem(problem) => *problem,
            Self::Database(error) if holds_nul(&error) => Problem::new(code, nul::REFUSED),
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

/// Whether PostgreSQL refused a text for a zero byte (22021, and 22P05 inside JSON): what a caller sent, and no failure of ours.
fn holds_nul(error: &DbErr) -> bool {
    let said = error.to_string();
    said.contains("invalid byte sequence for encoding \"UTF8\": 0x00")
        || said.contains("unsupported Unicode escape sequence")
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
