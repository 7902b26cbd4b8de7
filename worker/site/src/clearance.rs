//! Permission to let one release leave the site, as values that only this module can make and that are used up.
//!
//! The order of a release: permission, finished bytes on disk, payment with the reference to these bytes, countersignature of
//! the server, sending (`privacy.md`, 14.6). A [`ReleaseGrant`] is the first step: it lets one release of one event be made and
//! charges nothing. [`gate::pay`](crate::gate::pay) charges it, with the finished bytes.

mod permit;

use std::sync::Arc;

use undertone_privacy::Event;

pub use permit::{Permit, Permits, Prize, SplitError, Stub, Ticket};

/// Identifies a grant, for the time of one process. What is made under a grant carries it, so that nothing that was made under
/// another one is paid in its place.
#[derive(Debug, Clone)]
pub struct GrantId(Arc<()>);

impl GrantId {
    fn new() -> Self {
        Self(Arc::new(()))
    }

    /// Whether both identify one grant.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Permission to make one release of exactly one event: the site's rules allow it, and its ledger holds it reserved. Nothing is
/// charged yet, and nothing that is made may leave yet.
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

    /// The event that may be made, with exact parameters.
    pub const fn event(&self) -> &Event {
        &self.event
    }

    /// What identifies it.
    pub const fn id(&self) -> &GrantId {
        &self.id
    }

    fn into_parts(self) -> (Event, GrantId) {
        (self.event, self.id)
    }

    /// A grant for tests of the engine, which have no site.
    #[cfg(any(test, feature = "testing"))]
    pub fn in_test(event: Event) -> Self {
        Self::new(event)
    }
}

/// Proof that the site's own policy marks a dataset as public.
#[derive(Debug)]
pub struct Published(());

impl Published {
    pub(super) const fn new() -> Self {
        Self(())
    }

    /// Proof for tests of the engine, which have no site.
    #[cfg(any(test, feature = "testing"))]
    pub const fn in_test() -> Self {
        Self(())
    }
}

/// Permission to make one release.
#[derive(Debug)]
pub enum Clearance {
    /// It is reserved, and charged before it leaves.
    Granted(ReleaseGrant),
    /// It comes from public data.
    Public(Published),
}

impl Clearance {
    /// What identifies the grant; none for public data.
    pub const fn grant(&self) -> Option<&GrantId> {
        match self {
            Self::Granted(grant) => Some(grant.id()),
            Self::Public(_) => None,
        }
    }
}

/// Proof that one sealed batch may leave for others than the server: its payment and the reference to it are on this site's disk,
/// and so is the server's countersignature of the payment. Or the batch comes from public data.
///
/// ```compile_fail,E0451
/// use undertone_worker_site::clearance::Departure;
/// let bare = Departure { digest: None };
/// ```
#[derive(Debug)]
pub struct Departure {
    /// The batch's digest; none for public data.
    digest: Option<String>,
}

impl Departure {
    pub(super) const fn paid(digest: String) -> Self {
        Self { digest: Some(digest) }
    }

    /// For a batch of public data.
    pub const fn public(_published: &Published) -> Self {
        Self { digest: None }
    }

    /// Whether the batch with this digest may leave, of which an event must be charged or not.
    pub fn covers(&self, digest: &str, charged: bool) -> bool {
        match &self.digest {
            Some(paid) => paid == digest,
            None => !charged,
        }
    }

    /// Proof for tests of the lines, which have no site.
    #[cfg(any(test, feature = "testing"))]
    pub fn in_test(digest: &str) -> Self {
        Self::paid(digest.to_owned())
    }
}
