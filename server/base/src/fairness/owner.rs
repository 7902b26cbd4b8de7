//! The owner of work. A request begins as a stranger's; the code that authenticates its caller records the owner, so
//! that operations need not pass it on.

use std::cell::Cell;
use std::fmt::Debug;
use std::hash::Hash;

use undertone_api::id::{MemberId, OrganizationId};

use crate::auth::Actor;

/// An owner of turns in a fair queue. The order decides between equals.
pub trait QueueOwner: Copy + Debug + Ord + Hash {
    /// The owner in texts for refused callers: "your organization".
    const NAME: &'static str;

    /// Returns the weight: the share relative to an owner of weight one when all owners wait.
    fn weight(self) -> u32;

    /// Returns the class in metrics: a bounded number of names.
    fn class(self) -> &'static str;

    /// Returns whether the number of its waiting requests is limited separately.
    fn is_limited(self) -> bool;
}

tokio::task_local! {
    static CALLER: Cell<WorkOwner>;
}

/// The owner of work, in the order that decides between equals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkOwner {
    /// The server's own tasks, without a request.
    System,
    /// Groups of receipts of workers of all organizations, so that no organization's queue delays a group.
    Receipts,
    /// Heartbeats and leases of an organization's workers: short, and a delay costs the lease.
    Liveness(OrganizationId),
    /// Workers and members of an organization.
    Organization(OrganizationId),
    /// A member without a role in any organization.
    Member(MemberId),
    /// All unauthenticated callers together.
    Stranger,
}

impl WorkOwner {
    /// Returns the owner of the current task: the recognized caller of its request, or the system outside of requests.
    pub fn current() -> Self {
        CALLER.try_with(Cell::get).unwrap_or(Self::System)
    }

    /// Returns the owner of heartbeats and leases of the same organization.
    pub(crate) const fn liveness(self) -> Self {
        match self {
            Self::Organization(id) => Self::Liveness(id),
            other => other,
        }
    }

    /// Runs `work` for this owner, also in a separate task.
    pub async fn scope<F: Future>(self, work: F) -> F::Output {
        CALLER.scope(Cell::new(self), work).await
    }
}

impl QueueOwner for WorkOwner {
    const NAME: &'static str = "your organization";

    fn weight(self) -> u32 {
        match self {
            Self::System => 8,
            Self::Receipts => 4,
            Self::Stranger => 2,
            Self::Liveness(_) | Self::Organization(_) | Self::Member(_) => 1,
        }
    }

    fn class(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Receipts => "receipts",
            Self::Liveness(_) => "liveness",
            Self::Organization(_) => "organization",
            Self::Member(_) => "member",
            Self::Stranger => "stranger",
        }
    }

    fn is_limited(self) -> bool {
        !matches!(self, Self::System | Self::Receipts | Self::Stranger)
    }
}

impl From<&Actor> for WorkOwner {
    /// Returns the member's organization; of several, the one that joined first, so that a request cannot choose.
    fn from(actor: &Actor) -> Self {
        actor.organizations().first().map_or(Self::Member(actor.id()), |id| Self::Organization(*id))
    }
}

/// Records the owner of this task's request. Outside of a request it has no effect.
pub fn recognize_caller(owner: WorkOwner) {
    // Outside of a request there is no caller to record.
    let _ = CALLER.try_with(|caller| caller.set(owner));
}

#[cfg(test)]
mod tests {
    use undertone_api::id::OrganizationId;
    use uuid::Uuid;

    use super::{WorkOwner, recognize_caller};

    const NORTH: WorkOwner = WorkOwner::Organization(OrganizationId(Uuid::from_u128(1)));

    #[tokio::test]
    async fn recognized_caller_owns_the_rest_of_the_request() {
        let owners = WorkOwner::Stranger
            .scope(async {
                let before = WorkOwner::current();
                recognize_caller(NORTH);
                let spawned = tokio::spawn(WorkOwner::current().scope(async { WorkOwner::current() }));
                (before, WorkOwner::current(), spawned.await.expect("no panic"))
            })
            .await;
        assert_eq!(owners, (WorkOwner::Stranger, NORTH, NORTH));
    }

    #[tokio::test]
    async fn task_without_a_request_is_the_systems() {
        recognize_caller(NORTH);
        assert_eq!(WorkOwner::current(), WorkOwner::System);
    }
}
