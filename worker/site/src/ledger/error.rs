//! Errors of the site's ledger.

use undertone_api::signed::SignedError;
use undertone_privacy::ledger::{FilterKind, LedgerError as RuleError};
use undertone_privacy::mechanism::PriceError;
use undertone_privacy::{Event, PrivacyUnit};

use super::anchor::AnchorError;
use crate::books::BooksError;
use crate::store::StoreError;
use crate::witness::positions::PositionError;

/// Reasons why the ledger refuses or cannot continue. In either case nothing may leave the site.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The rules refuse.
    #[error(transparent)]
    Rule(Box<RuleError>),
    /// The event has no price.
    #[error(transparent)]
    Price(#[from] PriceError),
    /// The job has no price for the unit of another limit.
    #[error("{0}")]
    Unpriced(String),
    /// The limit of another unit does not admit the job.
    #[error(
        "the job is charged to the limit of the unit {unit:?} as well, which bounds what all jobs release: {source}"
    )]
    OtherUnit {
        /// The unit.
        unit: PrivacyUnit,
        /// The reason.
        #[source]
        source: Box<LedgerError>,
    },
    /// The policy names another filter than the account keeps.
    #[error(
        "policy.toml names the filter `{}` for the unit {unit:?}, and the account has admitted jobs by the filter `{}` and keeps it \
         for life: set `filter = \"{}\"` in that budget",
        stated.word(), kept.word(), kept.word()
    )]
    Filter {
        /// The unit of the account.
        unit: PrivacyUnit,
        /// The filter of the account.
        kept: FilterKind,
        /// The filter in the policy.
        stated: FilterKind,
    },
    /// A limit with the Gaussian filter begins after releases that it would have to cover.
    #[error(
        "the budget for the unit {unit:?} names the filter `gaussian`, and jobs of the same data were reserved before it, without a \
         certificate for this unit: set `filter = \"renyi\"` in that budget"
    )]
    LateFilter {
        /// The unit of the account.
        unit: PrivacyUnit,
    },
    /// The limit can admit nothing.
    #[error("the site's budget admits nothing: {0}")]
    Hopeless(#[from] undertone_privacy::ledger::BudgetError),
    /// Another reservation exists for the job.
    #[error("the job reserved {found} releases under another manifest: a job's cost never changes")]
    Changed {
        /// The number of reserved releases.
        found: u64,
    },
    /// The job is settled.
    #[error("the job is over at this site and its reservation is settled: propose a new job")]
    Settled,
    /// An audit froze the account.
    #[error(
        "the account is frozen since {at}: {reason} (job {job}); it is cleared at this site's terminal, with `ledger unfreeze`"
    )]
    Frozen {
        /// The job whose audit froze it.
        job: String,
        /// The reason.
        reason: String,
        /// The time of the freeze.
        at: String,
    },
    /// Nothing is reserved for the job.
    #[error("nothing is reserved for the job on this account")]
    NotReserved,
    /// The release differs from the reserved one.
    #[error("the job reserved {reserved:?}, and asks to release {asked:?}")]
    OtherEvent {
        /// The reserved event.
        reserved: Box<Event>,
        /// The requested event.
        asked: Box<Event>,
    },
    /// The release already happened, or its bytes are lost.
    #[error(
        "{series}/{round} was released before, or a receipt pays for it whose bytes this site does not have: it is never made a second time"
    )]
    Released {
        /// The series.
        series: String,
        /// The round.
        round: u32,
    },
    /// Exact results require data marked as open.
    #[error("exact results leave only a dataset that the site's policy marks as open")]
    NotOpen,
    /// The server contradicted itself.
    #[error(
        "alarm {id} is open at this site ({problem}): nothing leaves until somebody at its terminal has looked at it (`undertone-worker ledger alarm show`)"
    )]
    Alarm {
        /// The alarm's number.
        id: i64,
        /// The contradiction.
        problem: String,
    },
    /// The ledger was restored from a backup and not yet compared with the server's receipts.
    #[error(
        "this ledger was restored from a backup of {backup_at}: nothing leaves until the running worker has compared it with the receipts that the server has"
    )]
    Restored {
        /// The time of the backup.
        backup_at: String,
    },
    /// The server's receipts cannot be imported.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The ledger does not continue its anchor.
    #[error(transparent)]
    Anchor(#[from] AnchorError),
    /// A peer has seen receipts of this site that the ledger does not have.
    #[error(transparent)]
    Position(#[from] PositionError),
    /// The rows are inconsistent.
    #[error(transparent)]
    Books(#[from] BooksError),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A receipt could not be signed.
    #[error("a receipt could not be signed")]
    Signing(#[from] SignedError),
}

impl From<RuleError> for LedgerError {
    fn from(error: RuleError) -> Self {
        Self::Rule(Box::new(error))
    }
}

/// Reasons why receipts are not imported. In that case none of them is stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// The receipt is not signed by the site's key.
    #[error("the server shows a receipt that this site's key has not signed: {0}")]
    Signature(#[from] SignedError),
    /// The ledger has another receipt under this number.
    #[error(
        "the server has another receipt {0} of this site than its ledger: the ledger has forked, two copies of it were in use"
    )]
    Forked(u64),
    /// The receipt does not follow the one before it.
    #[error("receipt {0}, which the server shows, does not follow the one before it")]
    Chain(u64),
    /// The receipt belongs to another worker.
    #[error("receipt {0}, which the server shows, is another worker's")]
    Foreign(u64),
    /// The receipt contradicts the ledger's rows of its job.
    #[error("receipt {number}, which the server shows, does not fit what the ledger says of its job: {problem}")]
    Unfit {
        /// The receipt's number.
        number: u64,
        /// The contradiction.
        problem: String,
    },
}

impl ImportError {
    /// Returns the number of the receipt that contradicts the ledger, if one does.
    pub const fn number(&self) -> Option<u64> {
        match self {
            Self::Signature(_) => None,
            Self::Forked(number) | Self::Chain(number) | Self::Foreign(number) | Self::Unfit { number, .. } => {
                Some(*number)
            }
        }
    }
}
