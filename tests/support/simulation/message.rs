//! The messages on the wire: the calls of a worker, and their answers.

use undertone_api::problem::Code;
use undertone_api::signed::Signed;
use undertone_server_core::service::finish::PartOutcome;
use undertone_server_core::service::offer::WorkOffer;
use undertone_worker::daemon::Submission;

/// A call of a worker.
#[derive(Debug, Clone)]
pub(super) enum WorkerCall {
    /// Requests a proposal to decide or work to run.
    NextOffer { decided: Vec<String>, leases: Vec<String> },
    /// A signed answer to a proposal.
    Decide(Signed),
    /// Receipts for imminent releases.
    Countersign { lease: String, receipts: Vec<Signed> },
    /// Requests the site's own receipts with greater numbers.
    Receipts { after: u64 },
    /// A vector with its receipts.
    Submit { lease: String, series: String, round: u32, letter: Submission },
    /// Requests whether the round is closed.
    Average { lease: String, series: String, round: u32 },
    /// Requests whether the job continues.
    Renew { lease: String },
    /// Reports the end of a part.
    Finish { lease: String, outcome: PartOutcome, receipts: Vec<Signed> },
}

/// An answer of the server.
#[derive(Debug)]
pub(super) enum ServerAnswer {
    Offer(Box<WorkOffer>),
    /// Done, without further content.
    Done,
    /// Countersignatures, or receipts.
    Signed(Vec<Signed>),
    /// Whether a round is closed.
    Closed(bool),
    /// Whether the job continues, with the reason if not.
    GoesOn(bool, String),
}

/// The outcome of a call at the worker.
#[derive(Debug)]
pub(super) enum CallOutcome {
    /// An answer.
    Said(ServerAnswer),
    /// The server's rejection.
    No(Code, String),
    /// No answer: lost in transit, or no server is running.
    Nothing,
}

impl WorkerCall {
    /// Formats the message for the trace.
    pub(super) fn word(&self) -> String {
        match self {
            Self::NextOffer { .. } => "next offer".to_owned(),
            Self::Decide(_) => "decide".to_owned(),
            Self::Countersign { receipts, .. } => format!("countersign {} receipts", receipts.len()),
            Self::Receipts { after } => format!("receipts after {after}"),
            Self::Submit { series, round, letter, .. } => {
                format!("submit {series}/{round} with {} receipts", letter.receipts.len())
            }
            Self::Average { series, round, .. } => format!("average {series}/{round}"),
            Self::Renew { .. } => "renew".to_owned(),
            Self::Finish { outcome: PartOutcome::Done(_), receipts, .. } => {
                format!("finish, done, with {} receipts", receipts.len())
            }
            Self::Finish { receipts, .. } => format!("finish, gave up, with {} receipts", receipts.len()),
        }
    }
}

impl CallOutcome {
    /// Formats the outcome for the trace.
    pub(super) fn word(&self) -> String {
        match self {
            Self::Said(ServerAnswer::Offer(offer)) => match **offer {
                WorkOffer::Nothing => "nothing to do".to_owned(),
                WorkOffer::Proposal { .. } => "a proposal".to_owned(),
                WorkOffer::Work { .. } => "work".to_owned(),
            },
            Self::Said(ServerAnswer::Done) => "done".to_owned(),
            Self::Said(ServerAnswer::Signed(signed)) => format!("{} documents", signed.len()),
            Self::Said(ServerAnswer::Closed(closed)) => format!("closed: {closed}"),
            Self::Said(ServerAnswer::GoesOn(on, _)) => format!("goes on: {on}"),
            Self::No(code, _) => format!("no: {}", code.slug()),
            Self::Nothing => "silence".to_owned(),
        }
    }
}
