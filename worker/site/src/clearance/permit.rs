//! One grant for several releases, which leave the site combined into one vector: `privacy.md`, 4.5 and 5.
//!
//! [`Clearance::split`] divides a grant for `Repeated { count, of }` into exactly `count` [`StepPermit`]s for `of` and one
//! [`VectorTicket`]. One noisy release that stays at the site consumes a permit. The vector made of these releases alone
//! consumes the ticket, and is charged as a whole before it leaves. Neither can be copied. Tests in `release::update`
//! of training show that a permit makes one step:
//!
//! ```compile_fail,E0599
//! use undertone_worker_site::clearance::StepPermits;
//! fn twice_as_many(permits: StepPermits) -> (StepPermits, StepPermits) {
//!     (permits.clone(), permits)
//! }
//! ```

use std::num::NonZeroU32;

use undertone_privacy::Event;
use undertone_privacy::selection::Runs;

use super::{Clearance, GrantId};

/// The error when a grant cannot be split.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("the site grants {granted:?}, which is no grant for {count} equal steps: spec and manifest disagree")]
pub struct SplitError {
    /// The granted event.
    pub granted: Box<Event>,
    /// The requested number of steps.
    pub count: NonZeroU32,
}

/// Returns whether two parts belong to one grant. Parts of public data have no grant.
fn is_same(one: Option<&GrantId>, other: Option<&GrantId>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => one.is_same(other),
        _ => false,
    }
}

/// Permission for one release that stays at the site, as a step of a vector that leaves.
#[derive(Debug)]
#[must_use = "a step that may be made and is not is lost"]
pub struct StepPermit {
    event: Option<Event>,
    grant: Option<GrantId>,
}

impl StepPermit {
    /// Returns the permitted release; `None` for public data.
    pub const fn event(&self) -> Option<&Event> {
        self.event.as_ref()
    }

    /// Consumes the permit and returns a stub that identifies its grant.
    pub fn into_stub(self) -> UsedPermit {
        UsedPermit(self.grant)
    }
}

/// A used permit: it identifies the grant of a release, and permits nothing.
#[derive(Debug)]
pub struct UsedPermit(Option<GrantId>);

impl UsedPermit {
    /// Returns whether both belong to one grant.
    pub fn has_grant_of(&self, other: &Self) -> bool {
        is_same(self.0.as_ref(), other.0.as_ref())
    }
}

/// All permits of one grant, taken one by one.
#[derive(Debug)]
#[must_use = "steps that may be made and are not are lost"]
pub struct StepPermits {
    of: Option<Event>,
    grant: Option<GrantId>,
    left: u32,
}

impl StepPermits {
    /// Takes the next permit; `None` when all are taken.
    pub fn take(&mut self) -> Option<StepPermit> {
        self.left = self.left.checked_sub(1)?;
        Some(StepPermit { event: self.of.clone(), grant: self.grant.clone() })
    }

    /// Returns the number of remaining permits.
    pub const fn remaining(&self) -> u32 {
        self.left
    }
}

/// Permission for the one vector made of a grant's releases.
#[derive(Debug)]
#[must_use = "without it the steps cannot leave"]
pub struct VectorTicket {
    grant: Option<GrantId>,
    steps: NonZeroU32,
}

impl VectorTicket {
    /// Returns the number of releases that the vector must contain.
    pub const fn steps(&self) -> NonZeroU32 {
        self.steps
    }

    /// Returns whether a release with this stub may leave with the ticket.
    pub fn admits(&self, stub: &UsedPermit) -> bool {
        is_same(self.grant.as_ref(), stub.0.as_ref())
    }

    /// Returns the vector's grant; `None` for public data.
    pub fn into_grant(self) -> Option<GrantId> {
        self.grant
    }
}

/// Permission for the winning update among the runs of a selection. It is not a [`VectorTicket`], so no run can leave by
/// itself; only the private selection of training accepts it.
#[derive(Debug)]
#[must_use = "without it no run can leave"]
pub struct SelectionPermit {
    ticket: VectorTicket,
    runs: Runs,
}

impl SelectionPermit {
    /// Returns the granted distribution of the number of runs that count.
    pub const fn runs(&self) -> Runs {
        self.runs
    }

    /// Converts the permit into the ticket of the winning run.
    pub fn into_ticket(self) -> VectorTicket {
        self.ticket
    }
}

/// Returns the single release of a grant for `count` of them, or the granted event as the error.
fn step_of(granted: Event, count: NonZeroU32) -> Result<Event, Event> {
    match granted {
        Event::Repeated { count: times, of } if times == u64::from(count.get()) => Ok(*of),
        once if count.get() == 1 && !matches!(once, Event::Repeated { .. }) => Ok(once),
        other => Err(other),
    }
}

impl Clearance {
    /// Splits the permission for one vector into permits for its `count` releases and the ticket with which it leaves.
    /// The grant must be for the release repeated `count` times; for one step, a grant for the release itself suffices.
    ///
    /// # Errors
    /// [`SplitError`] when another event was granted. Nothing was charged.
    pub fn split(self, count: NonZeroU32) -> Result<(StepPermits, VectorTicket), SplitError> {
        let (of, grant) = match self {
            Self::Public(_) => (None, None),
            Self::Granted(grant) => {
                let (event, id) = grant.into_parts();
                let of = step_of(event, count).map_err(|granted| SplitError { granted: Box::new(granted), count })?;
                (Some(of), Some(id))
            }
        };
        Ok((StepPermits { of, grant: grant.clone(), left: count.get() }, VectorTicket { grant, steps: count }))
    }

    /// Splits a grant for the best of several runs of `count` releases each, as [`Clearance::split`]. Returns permits
    /// for every run, and one selection permit: the runs are submitted under it, and the winner's vector leaves with it. The grant
    /// must be for the selection ([`Event::Selected`], with a bound on the number of runs).
    ///
    /// # Errors
    /// [`SplitError`] when another event was granted, or for public data, which has no grant.
    pub fn split_runs(self, count: NonZeroU32) -> Result<(Vec<StepPermits>, SelectionPermit), SplitError> {
        let refuse = |granted| SplitError { granted: Box::new(granted), count };
        let Self::Granted(grant) = self else { return Err(refuse(Event::NonPrivate)) };
        let (event, id) = grant.into_parts();
        let (of, runs, most) = match event {
            Event::Selected { of, runs: runs @ Runs::CappedNegativeBinomial { most, .. } } => (*of, runs, most),
            other => return Err(refuse(other)),
        };
        let of = step_of(of, count).map_err(refuse)?;
        let grant = Some(id);
        let permits = || StepPermits { of: Some(of.clone()), grant: grant.clone(), left: count.get() };
        let all = std::iter::repeat_with(permits).take(usize::from(most.get())).collect();
        Ok((all, SelectionPermit { ticket: VectorTicket { grant, steps: count }, runs }))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "constants of a test are in range")]

    use std::num::{NonZeroU16, NonZeroU32};

    use undertone_privacy::selection::Runs;
    use undertone_privacy::unit::{RunShape, StoppingRate};
    use undertone_privacy::{Event, NoiseMultiplier};

    use super::super::{Clearance, PublicProof, ReleaseGrant};

    fn once(z: f64) -> Event {
        Event::Gaussian { noise_multiplier: NoiseMultiplier::new(z).unwrap() }
    }

    fn times(count: u64, of: Event) -> Event {
        Event::Repeated { count, of: Box::new(of) }
    }

    fn count(count: u32) -> NonZeroU32 {
        NonZeroU32::new(count).unwrap()
    }

    fn granted(event: Event) -> Clearance {
        Clearance::Granted(ReleaseGrant::in_test(event))
    }

    #[test]
    fn payment_for_three_steps_gives_three_permits_and_no_fourth() {
        let (mut permits, ticket) = granted(times(3, once(1.0))).split(count(3)).unwrap();
        assert_eq!((permits.remaining(), ticket.steps().get()), (3, 3));
        for _ in 0..3 {
            assert_eq!(permits.take().unwrap().event(), Some(&once(1.0)));
        }
        assert!(permits.take().is_none() && permits.take().is_none());
    }

    #[test]
    fn payment_for_other_steps_gives_none() {
        for event in [times(2, once(1.0)), times(4, once(1.0)), once(1.0), Event::NonPrivate] {
            let error = granted(event.clone()).split(count(3)).unwrap_err();
            assert_eq!((*error.granted, error.count.get()), (event, 3));
        }
        assert!(granted(times(2, once(1.0))).split(count(1)).is_err());
    }

    #[test]
    fn one_step_may_be_paid_by_itself() {
        for event in [once(2.0), times(1, once(2.0))] {
            let (mut permits, _ticket) = granted(event).split(count(1)).unwrap();
            assert_eq!(permits.take().unwrap().event(), Some(&once(2.0)));
            assert!(permits.take().is_none());
        }
    }

    #[test]
    fn selection_gives_permits_for_every_run() {
        let runs = Runs::CappedNegativeBinomial {
            shape: RunShape::new(0.0).unwrap(),
            stopping: StoppingRate::new(0.25).unwrap(),
            most: NonZeroU16::new(5).unwrap(),
        };
        let selected = |of| Event::Selected { of: Box::new(of), runs };
        let (mut permits, selection_permit) = granted(selected(times(2, once(1.0)))).split_runs(count(2)).unwrap();
        assert_eq!(selection_permit.runs(), runs);
        let ticket = selection_permit.into_ticket();
        assert_eq!((permits.len(), ticket.steps().get()), (5, 2));
        for run in &mut permits {
            let permit = run.take().unwrap();
            assert_eq!(permit.event(), Some(&once(1.0)));
            assert!(ticket.admits(&permit.into_stub()) && run.remaining() == 1);
        }
        assert!(granted(selected(times(3, once(1.0)))).split_runs(count(2)).is_err(), "of other runs");
        assert!(granted(times(2, once(1.0))).split_runs(count(2)).is_err(), "of one run");
        assert!(granted(selected(times(2, once(1.0)))).split(count(2)).is_err(), "a selection is not a run");
    }

    #[test]
    fn permits_of_two_payments_do_not_go_together() {
        let stub = |clearance: Clearance| {
            let (mut permits, ticket) = clearance.split(count(2)).unwrap();
            (permits.take().unwrap().into_stub(), permits.take().unwrap().into_stub(), ticket)
        };
        let (one, again, ticket) = stub(granted(times(2, once(1.0))));
        let (other, ..) = stub(granted(times(2, once(1.0))));
        let (public, ..) = stub(Clearance::Public(PublicProof::in_test()));
        assert!(one.has_grant_of(&again) && ticket.admits(&one));
        assert!(!one.has_grant_of(&other) && !ticket.admits(&other), "an equal payment is another one");
        assert!(!one.has_grant_of(&public) && !ticket.admits(&public));
    }
}
