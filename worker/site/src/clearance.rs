//! Permission for one release to leave the site, as values that only this module can construct and that are consumed by
//! use.
//!
//! The order of a release: permission, finished bytes on disk, payment with the reference to these bytes,
//! countersignature of the server, sending (`privacy.md`, 14.6). A [`ReleaseGrant`] is the first step: it permits one
//! release of one event and charges nothing. [`gate::pay`](crate::gate::pay) charges it, with the finished bytes.

mod permit;

use std::sync::Arc;

use undertone_privacy::Event;

pub use permit::{SelectionPermit, SplitError, StepPermit, StepPermits, UsedPermit, VectorTicket};

/// Identifies a grant within one process. A release carries the id of its grant, so that no release under another grant
/// can be paid in its place.
#[derive(Debug, Clone)]
pub struct GrantId(Arc<()>);

impl GrantId {
    fn new() -> Self {
        Self(Arc::new(()))
    }

    /// Returns whether both identify one grant.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Permission to make one release of exactly one event: the site's rules allow it, and its ledger has reserved it.
/// Nothing is charged yet, and the release may not leave yet.
#[derive(Debug)]
#[must_use = "a release that may be made and is not is lost to the job"]
pub struct ReleaseGrant {
    event: Event,
    id: GrantId,
}

impl ReleaseGrant {
    pub(super) fn new(event: Event) -> Self {
        Self { event, id: GrantId::new() }
    }

    /// Returns the permitted event, with exact parameters.
    pub const fn event(&self) -> &Event {
        &self.event
    }

    /// Returns the grant's id.
    pub const fn id(&self) -> &GrantId {
        &self.id
    }

    fn into_parts(self) -> (Event, GrantId) {
        (self.event, self.id)
    }

    /// Makes a grant for tests of the engine, which have no site.
    #[cfg(any(test, feature = "testing"))]
    pub fn in_test(event: Event) -> Self {
        Self::new(event)
    }
}

/// Proof that the site's own policy marks a dataset as public. It grants nothing that is charged, so it can be cloned.
#[derive(Debug, Clone)]
pub struct PublicProof(());

impl PublicProof {
    pub(super) const fn new() -> Self {
        Self(())
    }

    /// Makes a proof for tests of the engine, which have no site.
    #[cfg(any(test, feature = "testing"))]
    pub const fn in_test() -> Self {
        Self(())
    }
}

/// Permission to make one release.
#[derive(Debug)]
pub enum Clearance {
    /// The release is reserved, and is charged before it leaves.
    Granted(ReleaseGrant),
    /// The release comes from public data.
    Public(PublicProof),
}

impl Clearance {
    /// Returns the grant's id; `None` for public data.
    pub const fn grant(&self) -> Option<&GrantId> {
        match self {
            Self::Granted(grant) => Some(grant.id()),
            Self::Public(_) => None,
        }
    }
}

/// Proof that one sealed batch may leave for recipients other than the server. Its payment, the reference to it and the
/// server's countersignature of the payment are on this site's disk, or the batch comes from public data.
///
/// ```compile_fail,E0451
/// use undertone_worker_site::clearance::DepartureProof;
/// let bare = DepartureProof { digest: None };
/// ```
#[derive(Debug)]
pub struct DepartureProof {
    /// The batch's digest; `None` for public data.
    digest: Option<String>,
}

impl DepartureProof {
    pub(super) const fn for_payment(digest: String) -> Self {
        Self { digest: Some(digest) }
    }

    /// Makes the proof for a batch of public data.
    pub const fn for_public(_proof: &PublicProof) -> Self {
        Self { digest: None }
    }

    /// Returns whether the batch with this digest may leave; `charged` states whether it must be charged.
    pub fn covers(&self, digest: &str, charged: bool) -> bool {
        match &self.digest {
            Some(paid) => paid == digest,
            None => !charged,
        }
    }

    /// Makes a proof for tests of the lines, which have no site.
    #[cfg(any(test, feature = "testing"))]
    pub fn in_test(digest: &str) -> Self {
        Self::for_payment(digest.to_owned())
    }
}
