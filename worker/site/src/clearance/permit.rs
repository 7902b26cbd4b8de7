//! One grant for several releases, of which what is made of them leaves as one vector: `privacy.md`, 4.5 and 5.
//!
//! [`Clearance::split`] cuts a grant for `Repeated { count, of }` into exactly `count` [`Permit`]s for `of` and one [`Ticket`].
//! A permit is used up by one noisy release that stays at the site; the ticket by the one vector that is made of these
//! releases and of nothing else. That vector is charged as a whole before it leaves. Neither can be copied; that a
//! permit makes one step is tested where steps are made (`release::update` of training):
//!
//! ```compile_fail,E0599
//! use undertone_worker_site::clearance::Permits;
//! fn twice_as_many(permits: Permits) -> (Permits, Permits) {
//!     (permits.clone(), permits)
//! }
//! ```

use std::num::NonZeroU32;

use undertone_privacy::Event;
use undertone_privacy::selection::Runs;

use super::{Clearance, GrantId};

/// Why a grant is not cut.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("the site grants {granted:?}, which is no grant for {count} equal steps: spec and manifest disagree")]
pub struct SplitError {
    /// What was granted.
    pub granted: Box<Event>,
    /// Steps that were asked for.
    pub count: NonZeroU32,
}

/// Whether two parts are of one grant. Public data need none.
fn is_same(one: Option<&GrantId>, other: Option<&GrantId>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => one.is(other),
        _ => false,
    }
}

/// Permission for one release that stays at the site, as a step on the way to a vector that leaves.
#[derive(Debug)]
#[must_use = "a step that may be made and is not is lost"]
pub struct Permit {
    event: Option<Event>,
    grant: Option<GrantId>,
}

impl Permit {
    /// The release that may be made; `None` for public data.
    pub const fn event(&self) -> Option<&Event> {
        self.event.as_ref()
    }

    /// What shows, once the permit is used up, of which grant it was.
    pub fn into_stub(self) -> Stub {
        Stub(self.grant)
    }
}

/// A used permit: it says under which grant a release was made, and permits nothing.
#[derive(Debug)]
pub struct Stub(Option<GrantId>);

impl Stub {
    /// Whether both are of one grant.
    pub fn goes_with(&self, other: &Self) -> bool {
        is_same(self.0.as_ref(), other.0.as_ref())
    }
}

/// All permits of one grant, to be taken one by one.
#[derive(Debug)]
#[must_use = "steps that may be made and are not are lost"]
pub struct Permits {
    of: Option<Event>,
    grant: Option<GrantId>,
    left: u32,
}

impl Permits {
    /// The next; `None` when all are taken.
    pub fn take(&mut self) -> Option<Permit> {
        self.left = self.left.checked_sub(1)?;
        Some(Permit { event: self.of.clone(), grant: self.grant.clone() })
    }

    /// How many are left.
    pub const fn left(&self) -> u32 {
        self.left
    }
}

/// Permission for the one vector that is made of a grant's releases.
#[derive(Debug)]
#[must_use = "without it the steps cannot leave"]
pub struct Ticket {
    grant: Option<GrantId>,
    steps: NonZeroU32,
}

impl Ticket {
    /// Of how many releases the vector must be made.
    pub const fn steps(&self) -> NonZeroU32 {
        self.steps
    }

    /// Whether releases with such permits may leave by it.
    pub fn admits(&self, stub: &Stub) -> bool {
        is_same(self.grant.as_ref(), stub.0.as_ref())
    }

    /// The grant that the vector was made under; none for public data.
    pub fn into_grant(self) -> Option<GrantId> {
        self.grant
    }
}

/// Permission for the one update that wins among the runs of a selection. It is no [`Ticket`], so that no run leaves by itself:
/// only a `Contest` of training takes it.
#[derive(Debug)]
#[must_use = "without it no run can leave"]
pub struct Prize {
    ticket: Ticket,
    runs: Runs,
}

impl Prize {
    /// How the number of runs that count is drawn, by what was granted.
    pub const fn runs(&self) -> Runs {
        self.runs
    }

    /// Turns it into the ticket of the run that won.
    pub fn into_ticket(self) -> Ticket {
        self.ticket
    }
}

/// The release of which `granted` is `count`; nothing when it is none.
fn step_of(granted: Event, count: NonZeroU32) -> Result<Event, Event> {
    match granted {
        Event::Repeated { count: times, of } if times == u64::from(count.get()) => Ok(*of),
        once if count.get() == 1 && !matches!(once, Event::Repeated { .. }) => Ok(once),
        other => Err(other),
    }
}

impl Clearance {
    /// Cuts the permission for one vector into permits for the `count` releases of which it is made, and the ticket with which
    /// it leaves. What must be granted is the release `count` times; for one step, the release itself will do.
    ///
    /// # Errors
    /// [`SplitError`] when something else was granted. Nothing was charged.
    pub fn split(self, count: NonZeroU32) -> Result<(Permits, Ticket), SplitError> {
        let (of, grant) = match self {
            Self::Public(_) => (None, None),
            Self::Granted(grant) => {
                let (event, id) = grant.into_parts();
                let of = step_of(event, count).map_err(|granted| SplitError { granted: Box::new(granted), count })?;
                (Some(of), Some(id))
            }
        };
        Ok((Permits { of, grant: grant.clone(), left: count.get() }, Ticket { grant, steps: count }))
    }

    /// As [`Clearance::split`], for the best of several runs of `count` releases each: permits for every run that is made, and
    /// one prize, for which they are entered and with which one run's vector leaves. What must be granted is the selection among them
    /// ([`Event::Selected`], with a bound on the number of runs).
    ///
    /// # Errors
    /// [`SplitError`] when something else was granted, or nothing: public data are not selected from.
    pub fn split_runs(self, count: NonZeroU32) -> Result<(Vec<Permits>, Prize), SplitError> {
        let refuse = |granted| SplitError { granted: Box::new(granted), count };
        let Self::Granted(grant) = self else { return Err(refuse(Event::NonPrivate)) };
        let (event, id) = grant.into_parts();
        let (of, runs, most) = match event {
            Event::Selected { of, runs: runs @ Runs::CappedNegativeBinomial { most, .. } } => (*of, runs, most),
            other => return Err(refuse(other)),
        };
        let of = step_of(of, count).map_err(refuse)?;
        let grant = Some(id);
        let permits = || Permits { of: Some(of.clone()), grant: grant.clone(), left: count.get() };
        let all = std::iter::repeat_with(permits).take(usize::from(most.get())).collect();
        Ok((all, Prize { ticket: Ticket { grant, steps: count }, runs }))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "constants of a test are in range")]

    use std::num::{NonZeroU16, NonZeroU32};

    use undertone_privacy::selection::Runs;
    use undertone_privacy::unit::{RunShape, StoppingRate};
    use undertone_privacy::{Event, NoiseMultiplier};

    use super::super::{Clearance, Published, ReleaseGrant};

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
    fn a_payment_for_three_steps_gives_three_permits_and_no_fourth() {
        let (mut permits, ticket) = granted(times(3, once(1.0))).split(count(3)).unwrap();
        assert_eq!((permits.left(), ticket.steps().get()), (3, 3));
        for _ in 0..3 {
            assert_eq!(permits.take().unwrap().event(), Some(&once(1.0)));
        }
        assert!(permits.take().is_none() && permits.take().is_none());
    }

    #[test]
    fn a_payment_for_other_steps_gives_none() {
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
    fn a_selection_gives_permits_for_every_run_and_one_prize() {
        let runs = Runs::CappedNegativeBinomial {
            shape: RunShape::new(0.0).unwrap(),
            stopping: StoppingRate::new(0.25).unwrap(),
            most: NonZeroU16::new(5).unwrap(),
        };
        let selected = |of| Event::Selected { of: Box::new(of), runs };
        let (mut permits, prize) = granted(selected(times(2, once(1.0)))).split_runs(count(2)).unwrap();
        assert_eq!(prize.runs(), runs);
        let ticket = prize.into_ticket();
        assert_eq!((permits.len(), ticket.steps().get()), (5, 2));
        for run in &mut permits {
            let permit = run.take().unwrap();
            assert_eq!(permit.event(), Some(&once(1.0)));
            assert!(ticket.admits(&permit.into_stub()) && run.left() == 1);
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
        let (public, ..) = stub(Clearance::Public(Published::in_test()));
        assert!(one.goes_with(&again) && ticket.admits(&one));
        assert!(!one.goes_with(&other) && !ticket.admits(&other), "an equal payment is another one");
        assert!(!one.goes_with(&public) && !ticket.admits(&public));
    }
}
