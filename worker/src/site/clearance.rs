//! Permission to let one vector leave the site, as values that only this room can make and that are used up by leaving.

mod permit;

use undertone_api::signed::Signed;
use undertone_privacy::Event;

pub(crate) use permit::Stub;
pub use permit::{Permit, Permits, Prize, SplitError, Ticket};

/// Proof that one release was paid: the site's ledger has committed it and the disk has it.
#[derive(Debug)]
#[must_use = "a release that was paid and is not made is budget thrown away"]
pub struct Spent {
    event: Event,
    receipt: Signed,
}

impl Spent {
    pub(super) const fn new(event: Event, receipt: Signed) -> Self {
        Self { event, receipt }
    }

    /// The release that was paid for, with exact parameters.
    pub const fn event(&self) -> &Event {
        &self.event
    }

    /// The site's signed receipt.
    pub const fn receipt(&self) -> &Signed {
        &self.receipt
    }

    fn into_parts(self) -> (Event, Signed) {
        (self.event, self.receipt)
    }

    /// Proof for tests of the engine, which have no site.
    #[cfg(test)]
    pub(crate) fn in_test(event: Event) -> Self {
        Self { event, receipt: Signed { payload: String::new(), signature: String::new() } }
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
    #[cfg(test)]
    pub(crate) const fn in_test() -> Self {
        Self(())
    }
}

/// Permission for one vector.
#[derive(Debug)]
pub enum Clearance {
    /// It was paid for.
    Paid(Spent),
    /// It comes from public data.
    Public(Published),
}
