//! The cost of a job on one account: of each release under the Rényi filter, of the whole job under the Gaussian filter.
//!
//! A mechanism whose releases have one price ([`Event::whole_releases`]) is charged as a whole under both filters.
//!
//! A row of a ledger holds the event. Under the Gaussian filter it also holds the certificate, because δ₀ was chosen from
//! the account's headroom at the time. Whoever verifies the row computes the certificate again from the event and δ₀.
//!
//! # The choice of δ₀
//!
//! The filter is sound for any δ₀ that is chosen before the job's first output. A greater δ₀ needs less μ², and leaves less
//! for later jobs. A job gets about the part of the remaining side mass that it uses of the remaining μ², so both last
//! equally long: at most one half, and all of it only if the job fits in no other way.

use serde::{Deserialize, Serialize};

use super::budget::GridKind;
use super::certificate::{certify, certify_selections_by_curve};
use super::draft::Draft;
use super::{Account, Balance, Budget, Cost, Headroom, LedgerError, Reservation, ReservationId};
use crate::adjacency::Adjacency;
use crate::curve::{Curve, OrderGrid};
use crate::event::Event;
use crate::fixed::Fixed;
use crate::mechanism::{self, PriceError};
use crate::unit::{Delta, Epsilon};

/// The rule by which an account admits jobs, see [`crate::ledger`]. Chosen with the first budget of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilterKind {
    /// Rényi loss at each order of a grid. Releases are charged one by one, and a job that stops early gets the rest back.
    #[default]
    Renyi,
    /// Gaussian certificates. A job is charged as a whole by its first release, and admits more rounds of long training.
    Gaussian,
}

impl FilterKind {
    /// Returns the grid of a new account with a limit of this ε.
    pub fn grid(self, epsilon: Epsilon) -> GridKind {
        match self {
            Self::Renyi => GridKind::for_epsilon(epsilon),
            Self::Gaussian => GridKind::Gaussian,
        }
    }

    /// Returns true for the default, which stored forms leave out.
    pub fn is_renyi(&self) -> bool {
        *self == Self::Renyi
    }

    /// Returns the word in budgets and policies.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Renyi => "renyi",
            Self::Gaussian => "gaussian",
        }
    }
}

impl GridKind {
    /// Returns the filter of accounts with this grid.
    pub const fn filter(self) -> FilterKind {
        match self {
            Self::Standard | Self::Research => FilterKind::Renyi,
            Self::Gaussian => FilterKind::Gaussian,
        }
    }
}

/// The certificate by which a ledger's row charges a job, as stored in the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobCertificate {
    /// μ² in units of 2⁻⁶⁴, rounded up.
    mu_squared: Fixed,
    /// δ₀ in units of 2⁻⁶⁴.
    side_delta: Fixed,
    /// The number of releases that it covers together: all of the job, or 1 where each release is certified by itself.
    covers: u64,
}

/// Why the certificate of a row is rejected.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CertificateError {
    /// The account has the Gaussian filter, and the row has no certificate.
    #[error("it has no certificate, and the account has the filter `gaussian`")]
    Missing,
    /// The account has the Rényi filter, and the row has a certificate.
    #[error("it has a Gaussian certificate, and the account has the filter `renyi`")]
    Unexpected,
    /// The certificate covers a number of releases that is neither the job's nor 1.
    #[error("its certificate covers {covers} releases of {releases}")]
    Covers {
        /// The number of covered releases.
        covers: u64,
        /// The number of reserved releases.
        releases: u64,
    },
    /// The event and δ₀ have another certificate.
    #[error(
        "its certificate is not that of its event: mu^2 is {stated}, and its event has {computed} (in units of 2^-64)"
    )]
    Wrong {
        /// The stated μ².
        stated: Fixed,
        /// The computed μ².
        computed: Fixed,
    },
    /// The event has no price.
    #[error(transparent)]
    Price(#[from] PriceError),
}

impl JobCertificate {
    fn new(cost: &Cost, covers: u64) -> Option<Self> {
        Some(Self { mu_squared: cost.mu_squared()?, side_delta: cost.side_delta(), covers })
    }

    /// Returns μ, rounded up.
    pub fn mu(&self) -> f64 {
        self.mu_squared.to_f64_up().sqrt().next_up()
    }

    /// Returns δ₀, rounded up.
    pub fn side_delta(&self) -> f64 {
        self.side_delta.to_f64_up()
    }

    /// Returns the number of releases that it covers together.
    pub const fn covers(&self) -> u64 {
        self.covers
    }

    /// Computes the certificate again from the event that it was stated for. That of a job with selections may be stated by the
    /// Rényi curve too: earlier versions knew no other, and it is valid.
    ///
    /// # Errors
    /// [`CertificateError::Wrong`] when it is another, [`CertificateError::Price`] when there is none.
    pub fn verify(&self, event: &Event, adjacency: Adjacency) -> Result<(), CertificateError> {
        let side = delta(self.side_delta);
        let is_stated =
            |cost: &Cost| (cost.mu_squared(), cost.side_delta()) == (Some(self.mu_squared), self.side_delta);
        let cost = certify(event, self.covers, adjacency, side);
        let by_curve = || certify_selections_by_curve(event, self.covers, adjacency, side);
        if cost.as_ref().is_ok_and(is_stated) || by_curve().as_ref().is_some_and(is_stated) {
            return Ok(());
        }
        let computed = cost?.mu_squared().unwrap_or(Fixed::INFINITE);
        Err(CertificateError::Wrong { stated: self.mu_squared, computed })
    }
}

/// The cost of a job on one account.
#[derive(Debug, Clone, PartialEq)]
pub enum JobCost {
    /// The cost of each release.
    PerRelease(Cost),
    /// The cost of the job, spent by its first release: under the Gaussian filter, and of a mechanism that is charged as a whole.
    Whole(Cost),
}

impl JobCost {
    /// Returns the cost of a job on an account with the orders `grid`, as its row states it. A stated certificate is taken
    /// as it is: see [`JobCertificate::verify`].
    ///
    /// # Errors
    /// [`CertificateError`] when the row does not fit the account, or its event has no price.
    pub fn from_row(
        event: &Event,
        releases: u64,
        adjacency: Adjacency,
        grid: &OrderGrid,
        certificate: Option<&JobCertificate>,
    ) -> Result<Self, CertificateError> {
        check_releases(event, releases)?;
        match (*grid == OrderGrid::gaussian(), certificate) {
            (false, None) => Ok(Self::for_event(event, mechanism::curve(event, adjacency, grid)?)),
            (false, Some(_)) => Err(CertificateError::Unexpected),
            (true, None) => Err(CertificateError::Missing),
            (true, Some(stated)) => {
                let cost = Curve::gaussian(stated.mu_squared, stated.side_delta);
                match stated.covers {
                    covers if covers == releases => Ok(Self::Whole(cost)),
                    1 => Ok(Self::PerRelease(cost)),
                    covers => Err(CertificateError::Covers { covers, releases }),
                }
            }
        }
    }

    /// Makes the cost of an event whose Rényi curve is `cost`: of each release, or of all of a mechanism that is charged as a
    /// whole.
    pub fn for_event(event: &Event, cost: Cost) -> Self {
        if event.whole_releases().is_some() { Self::Whole(cost) } else { Self::PerRelease(cost) }
    }

    /// Returns the cost that is counted: of each release, or of the job.
    pub const fn cost(&self) -> &Cost {
        match self {
            Self::PerRelease(cost) | Self::Whole(cost) => cost,
        }
    }

    /// Returns the cost of all `releases` of the job.
    pub fn total(&self, releases: u64) -> Cost {
        match self {
            Self::PerRelease(cost) => cost.times(releases),
            Self::Whole(cost) => cost.clone(),
        }
    }

    /// Returns the certificate that the row of a reservation of `releases` states; `None` under the Rényi filter.
    pub fn certificate(&self, releases: u64) -> Option<JobCertificate> {
        match self {
            Self::PerRelease(cost) => JobCertificate::new(cost, 1),
            Self::Whole(cost) => JobCertificate::new(cost, releases),
        }
    }
}

impl Balance {
    /// Returns the filter by which this account admits jobs.
    pub fn filter(&self) -> FilterKind {
        if *self.grid() == OrderGrid::gaussian() { FilterKind::Gaussian } else { FilterKind::Renyi }
    }

    /// Returns the cost of a job of `releases` releases on this account, with a δ₀ from the remaining side mass (see the
    /// module).
    ///
    /// # Errors
    /// [`PriceError`] when the job cannot be priced, or not certified with the remaining side mass.
    pub fn job_cost(&self, event: &Event, releases: u64, adjacency: Adjacency) -> Result<JobCost, PriceError> {
        check_releases(event, releases)?;
        match self.filter() {
            FilterKind::Renyi => Ok(JobCost::for_event(event, self.price(event, adjacency)?)),
            FilterKind::Gaussian => certify_within(&self.headroom(), event, releases, adjacency).map(JobCost::Whole),
        }
    }

    /// Returns the cost of a job whose planned number of releases is unknown: of each release, certified by itself under the
    /// Gaussian filter, so that the sum holds for any number of them. It is much more than that of the job as a whole.
    ///
    /// # Errors
    /// As [`Balance::job_cost`].
    pub fn cost_of_unplanned(&self, event: &Event, releases: u64, adjacency: Adjacency) -> Result<JobCost, PriceError> {
        if event.whole_releases().is_some() {
            // The event states the planned number.
            return self.job_cost(event, releases, adjacency);
        }
        if self.filter() == FilterKind::Renyi {
            return Ok(JobCost::PerRelease(self.price(event, adjacency)?));
        }
        let side = self.headroom().side_delta().units() / 2 / u128::from(releases.max(1));
        certify(event, 1, adjacency, delta(Fixed::from_units(side))).map(JobCost::PerRelease)
    }

    /// Reserves a job at its cost, as [`Balance::reserve`] or [`Balance::reserve_whole`].
    ///
    /// # Errors
    /// As [`Balance::reserve`].
    pub fn reserve_job(
        &mut self,
        id: ReservationId,
        cost: &JobCost,
        releases: u64,
    ) -> Result<Reservation, LedgerError> {
        match cost {
            JobCost::PerRelease(cost) => self.reserve(id, cost, releases),
            JobCost::Whole(cost) => self.reserve_whole(id, cost, releases),
        }
    }
}

impl Account {
    /// Reserves a job at its cost, as [`Account::reserve`] or [`Account::reserve_whole`].
    ///
    /// # Errors
    /// As [`Account::reserve`].
    pub fn reserve_job(&mut self, id: ReservationId, cost: &JobCost, releases: u64) -> Result<(), LedgerError> {
        match cost {
            JobCost::PerRelease(cost) => self.reserve(id, cost, releases),
            JobCost::Whole(cost) => self.reserve_whole(id, cost, releases),
        }
    }

    /// Drafts [`Account::reserve_job`] under this budget.
    ///
    /// # Errors
    /// As [`Account::set_budget`] and [`Account::reserve_job`].
    pub fn draft_reserve_job(
        &self,
        budget: Budget,
        id: ReservationId,
        cost: &JobCost,
        releases: u64,
    ) -> Result<Draft, LedgerError> {
        match cost {
            JobCost::PerRelease(cost) => self.draft_reserve(budget, id, cost, releases),
            JobCost::Whole(cost) => self.draft_reserve_whole(budget, id, cost, releases),
        }
    }
}

impl Reservation {
    /// Makes the reservation of a job at its cost, from its stored parts.
    ///
    /// # Errors
    /// As [`Reservation::from_parts`].
    pub fn from_job(
        id: ReservationId,
        cost: JobCost,
        releases: u64,
        committed: u64,
        settled: bool,
    ) -> Result<Self, LedgerError> {
        match cost {
            JobCost::PerRelease(cost) => Self::from_parts(id, cost, releases, committed, settled),
            JobCost::Whole(cost) => Self::from_whole_parts(id, cost, releases, committed, settled),
        }
    }
}

/// Checks that a job releases at most as often as a mechanism that is charged as a whole.
fn check_releases(event: &Event, releases: u64) -> Result<(), PriceError> {
    match event.whole_releases() {
        Some(most) if releases > most => {
            let why = format!("it has {most} releases, and {releases} are asked for: plan them as one mechanism");
            Err(PriceError::NoPrice { event: event.name(), why })
        }
        _ => Ok(()),
    }
}

/// The least δ₀ that is chosen while more remains: below it the errors of composed loss distributions cost more than δ₀ saves.
const LEAST_SIDE: u128 = 1 << 34;

/// Certifies a job with a part of the remaining side mass: its part of the remaining μ², to a power of two.
fn certify_within(headroom: &Headroom, event: &Event, releases: u64, adjacency: Adjacency) -> Result<Cost, PriceError> {
    let all = headroom.side_delta().units();
    let with = |units: u128| certify(event, releases, adjacency, delta(Fixed::from_units(units)));
    let half = with(all / 2);
    // The second order is 2, where the loss αμ²/2 is μ².
    let most = headroom.remaining().nth(1).and_then(|(_, left)| left).unwrap_or(Fixed::ZERO);
    let part = |cost: &Cost| cost.mu_squared().map_or(f64::INFINITY, |used| used.to_f64_up() / most.to_f64_down());
    match &half {
        Ok(cost) if cost.side_delta() == Fixed::ZERO => half,
        Ok(cost) if part(cost) <= 0.25 => {
            let halvings = (-libm::log2(part(cost).max(1e-9))) as u32;
            let units = (all >> halvings).max(LEAST_SIDE).min(all / 2);
            match with(units) {
                // Where the errors are as large as δ₀, the certificate is that of another method, and dear.
                Ok(less) if part(&less) <= 2.0 * part(cost) => Ok(less),
                _ => half,
            }
        }
        Ok(cost) if part(cost) <= 1.0 => half,
        _ => with(all).or(half),
    }
}

/// Returns a side mass as δ, exactly: its units have few enough digits, or are rounded down to these.
fn delta(side: Fixed) -> Delta {
    Delta::new(side.to_f64_down()).unwrap_or(Delta::ZERO)
}

#[cfg(test)]
mod tests;
