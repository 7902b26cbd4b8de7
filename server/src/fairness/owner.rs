//! Who a piece of work is for. A request begins as a stranger's; whoever recognizes its caller notes it, and rules need not pass it on.

use std::cell::Cell;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use undertone_api::id::{MemberId, OrganizationId};

use crate::auth::Actor;

tokio::task_local! {
    static CALLER: Cell<WorkOwner>;
}

/// Who a piece of work is for, in the order in which equals get their turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum WorkOwner {
    /// The server's own duties: what no request asked for.
    System,
    /// Signs of life and leases of an organization's workers: short, and what waits behind them loses its lease.
    Liveness(OrganizationId),
    /// Workers and members of an organization.
    Organization(OrganizationId),
    /// A member without a role in any organization.
    Member(MemberId),
    /// All callers who have proved nothing yet, together.
    Stranger,
}

impl WorkOwner {
    /// Returns the owner of what runs in this task: the recognized caller of its request, or the system where there is no request.
    pub(crate) fn current() -> Self {
        CALLER.try_with(Cell::get).unwrap_or(Self::System)
    }

    /// Returns the owner of signs of life and leases of the same organization.
    pub(crate) const fn liveness(self) -> Self {
        match self {
            Self::Organization(id) => Self::Liveness(id),
            other => other,
        }
    }

    /// Returns how many times as much as an organization it gets where all wait.
    pub(super) const fn weight(self) -> u32 {
        match self {
            Self::System => 8,
            Self::Stranger => 2,
            Self::Liveness(_) | Self::Organization(_) | Self::Member(_) => 1,
        }
    }

    /// Returns the name of its class, which is the same for all organizations.
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Liveness(_) => "liveness",
            Self::Organization(_) => "organization",
            Self::Member(_) => "member",
            Self::Stranger => "stranger",
        }
    }

    /// Runs `work` as this owner's, in a task of its own as well.
    pub(crate) async fn scope<F: Future>(self, work: F) -> F::Output {
        CALLER.scope(Cell::new(self), work).await
    }
}

impl From<&Actor> for WorkOwner {
    /// Returns the member's organization; of several the one that joined first, so that no request chooses.
    fn from(actor: &Actor) -> Self {
        actor.organizations().first().map_or(Self::Member(actor.id()), |id| Self::Organization(*id))
    }
}

/// Notes who the request of this task is from. Without a request it does nothing.
pub(crate) fn recognize_caller(owner: WorkOwner) {
    // Outside of a request there is no caller to note.
    let _ = CALLER.try_with(|caller| caller.set(owner));
}

/// Begins a request as a stranger's.
pub(crate) async fn scope_request(request: Request, next: Next) -> Response {
    WorkOwner::Stranger.scope(next.run(request)).await
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
