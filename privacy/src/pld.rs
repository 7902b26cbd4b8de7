//! Privacy-loss distributions: the tight (ε, δ) of a closed plan, for reports and certificates.
//!
//! Valid for plans whose parameters are fixed before the first output (Zhu, Dong and Wang 2022); a tight number must never decide
//! the admission of the next, adaptively chosen job. A certificate may (`certificate.rs`): it replaces a whole job by one
//! Gaussian release, for which there is a filter. Every answer is an upper bound: connect-the-dots dominates each step at
//! both directions of the neighbouring relation, and round-off is counted as mass.
//!
//! Noise is priced as continuous. Training draws it on a grid of at least 2²⁰ steps to a standard deviation: Rényi
//! bounds are proved for that (`mechanism/discrete.rs`), tight numbers are checked numerically, δ of one step to a part
//! of about 2⁻⁴⁰.
//!
//! `pair.rs` holds the single steps, `selected.rs` makes a pair of the best of several runs, `grid.rs` puts them on a grid, `moments.rs` tilts them, `window.rs` composes them with
//! the transforms of `fft.rs`, `refine.rs` halves the grid until the answer stands. To add a mechanism: its dominating pair
//! there, its event in [`Plan::add`].

mod certificate;
mod fft;
mod grid;
#[cfg(test)]
mod laws;
mod mills;
mod moments;
mod pair;
mod profile;
mod refine;
mod selected;
mod window;

pub use certificate::GaussianCertificate;
pub use pair::Pair;

use crate::adjacency::Adjacency;
use crate::event::Event;
use crate::gaussian::GaussianProfile;
use crate::group;
use crate::mechanism;
use crate::selection::Runs;
use crate::unit::{Delta, Epsilon};
use refine::PlanQuestion;

/// Why a plan has no tight number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PldError {
    /// The distribution does not fit into any sensible grid.
    #[error("the plan's losses are spread too widely for a grid: report the Rényi bound")]
    TooWide,
    /// No dominating pair is known for some part of the plan.
    #[error("{0} has no privacy-loss distribution: report the Rényi bound")]
    NoPair(&'static str),
}

/// A closed plan: mechanisms with their numbers of applications.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    pairs: Vec<(Pair, u64)>,
    /// All plain Gaussians together: they compose exactly.
    gaussian: f64,
    /// Whether some part loses everything for certain.
    leaks: bool,
    /// A part without a dominating pair.
    unpaired: Option<&'static str>,
    /// Whether some part is a private selection, whose pair may reveal more than the selection.
    selects: bool,
}

impl Plan {
    /// Makes an empty plan.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the plan that an event describes.
    pub fn of(event: &Event, adjacency: Adjacency) -> Self {
        let mut plan = Self::new();
        plan.add(event, adjacency, 1);
        plan
    }

    /// Adds `count` of an event. Events state their guarantee or noise for one unit added or removed; see
    /// [`crate::mechanism::curve`].
    pub fn add(&mut self, event: &Event, adjacency: Adjacency, count: u64) {
        let replaces = adjacency == Adjacency::ReplaceOne;
        let changes = if replaces { 2.0 } else { 1.0 };
        match event {
            _ if count == 0 => {}
            Event::Gaussian { noise_multiplier } => self.add_gaussian(noise_multiplier.get() / changes, count),
            Event::PoissonSampledGaussian { sampling_rate, noise_multiplier } => {
                let q = sampling_rate.get();
                let z = noise_multiplier.get();
                if q >= 1.0 {
                    self.add_gaussian(z / changes, count);
                } else if replaces {
                    self.add_pair(Pair::sampled_gaussian_replacing(q, z), count);
                } else {
                    self.add_pair(Pair::sampled_gaussian(q, z), count);
                }
            }
            Event::BandedGaussian { sampling_rate, noise_multiplier, bands, releases } => {
                let turn = Event::PoissonSampledGaussian {
                    sampling_rate: *sampling_rate,
                    noise_multiplier: *noise_multiplier,
                };
                match count.checked_mul(releases.get().div_ceil(bands.get()).into()) {
                    Some(count) => self.add(&turn, adjacency, count),
                    None => self.leaks = true,
                }
            }
            Event::Laplace { epsilon } => self.add_pair(Pair::laplace(epsilon.get() * changes), count),
            Event::Pure { epsilon } => self.add_pair(Pair::approximate(epsilon.get() * changes, 0.0), count),
            Event::Approximate { epsilon, delta } => {
                let delta = if replaces { group::pair_delta(*epsilon, *delta) } else { delta.get() };
                self.add_pair(Pair::approximate(epsilon.get() * changes, delta), count);
            }
            Event::NonPrivate => self.leaks = true,
            Event::Composed { events } => events.iter().for_each(|part| self.add(part, adjacency, count)),
            Event::Repeated { count: times, of } => match count.checked_mul(*times) {
                Some(count) => self.add(of, adjacency, count),
                None => self.leaks = true,
            },
            Event::Substituted { of } => self.add(of, Adjacency::ReplaceOne, count),
            Event::SampledThreshold { .. } | Event::TruncatedLaplace { .. } => {
                self.add_approximate(event, adjacency, count);
            }
            // Their Rényi curves are not hockey sticks of any known pair.
            Event::DiscreteGaussian { .. }
            | Event::PoissonSampledDiscreteGaussian { .. }
            | Event::DistributedDiscreteGaussian(_)
            | Event::PoissonSampledDistributedDiscreteGaussian { .. } => self.unpaired = Some(event.name()),
            Event::Selected { of, runs } => self.add_selected(&Self::of(of, adjacency), *runs, count),
        }
    }

    /// Adds `count` selections of the best of some runs of `run`.
    fn add_selected(&mut self, run: &Self, runs: Runs, count: u64) {
        self.selects = true;
        if let Some(event) = run.unpaired {
            self.unpaired = Some(event);
        } else if run.leaks {
            self.leaks = true;
        } else if let pairs = run.all_pairs()
            && !pairs.is_empty()
        {
            match Pair::selected(&pairs, runs) {
                Some(pair) => self.add_pair(pair, count),
                None => self.unpaired = Some("a selection"),
            }
        }
    }

    /// Adds `count` of an event that is priced by an (ε, δ) guarantee.
    fn add_approximate(&mut self, event: &Event, adjacency: Adjacency, count: u64) {
        match mechanism::guarantee(event, adjacency) {
            Ok((epsilon, delta)) => self.add_pair(Pair::approximate(epsilon.get(), delta.get()), count),
            Err(_) => self.unpaired = Some(event.name()),
        }
    }

    /// Returns the number of steps that are not plain Gaussians.
    pub(crate) fn steps(&self) -> u64 {
        self.pairs.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// Returns roughly the mean loss of all parts, in nats.
    pub(crate) fn mean_loss(&self) -> f64 {
        let pairs = self.pairs.iter().map(|(pair, count)| *count as f64 * pair.directions[0].mean());
        pairs.sum::<f64>() + 0.5 * self.gaussian * self.gaussian
    }

    /// Returns true if every part has a dominating pair.
    pub(crate) const fn is_paired(&self) -> bool {
        self.unpaired.is_none()
    }

    /// Adds `count` plain Gaussians of noise multiplier z; 0 hides nothing.
    pub fn add_gaussian(&mut self, z: f64, count: u64) {
        if count > 0 {
            self.gaussian = libm::hypot(self.gaussian, (count as f64).sqrt() / z);
        }
    }

    /// Adds `count` mechanisms with this dominating pair.
    pub fn add_pair(&mut self, pair: Pair, count: u64) {
        if count == 0 {
            return;
        }
        match self.pairs.iter_mut().find(|(known, _)| *known == pair) {
            Some((_, known)) => *known = known.saturating_add(count),
            None => self.pairs.push((pair, count)),
        }
    }

    /// Returns the least ε at δ, rounded up; `None` when there is no finite one.
    ///
    /// # Errors
    /// [`PldError::TooWide`] when the losses do not fit into any sensible grid.
    pub fn epsilon(&self, delta: Delta) -> Result<Option<Epsilon>, PldError> {
        if let Some(event) = self.unpaired {
            return Err(PldError::NoPair(event));
        }
        if self.leaks {
            return Ok(None);
        }
        if self.pairs.is_empty() {
            return Ok(self.gaussian_profile().epsilon(delta));
        }
        if delta.get() <= 0.0 {
            return Ok(self.pure_epsilon());
        }
        let answer = refine::worst(&self.all_pairs(), PlanQuestion::Epsilon(delta.get()))?;
        if answer.is_none() && self.selects {
            // The pair of a selection has a mass at infinity from round-off, which says nothing of the release.
            return Err(PldError::TooWide);
        }
        Ok(answer.and_then(|epsilon| Epsilon::new(epsilon).ok()))
    }

    /// Returns the least δ at ε, rounded up; 1 means no guarantee.
    ///
    /// # Errors
    /// [`PldError::TooWide`] when the losses do not fit into any sensible grid.
    pub fn delta(&self, epsilon: Epsilon) -> Result<f64, PldError> {
        if let Some(event) = self.unpaired {
            return Err(PldError::NoPair(event));
        }
        if self.leaks {
            return Ok(1.0);
        }
        if self.pairs.is_empty() {
            return Ok((self.gaussian_profile().delta(epsilon) * (1.0 + 1e-11)).min(1.0));
        }
        if let ([(pair, 1)], true) = (self.pairs.as_slice(), self.gaussian == 0.0) {
            // One step has its profile in closed form.
            let worst = pair.directions.iter().map(|loss| loss.profile(epsilon.get()) + loss.infinite());
            return Ok((worst.fold(0.0, f64::max) * (1.0 + 1e-11)).min(1.0));
        }
        let answer = refine::worst(&self.all_pairs(), PlanQuestion::Delta(epsilon.get()))?;
        Ok(answer.unwrap_or(1.0))
    }

    fn gaussian_profile(&self) -> GaussianProfile {
        GaussianProfile::of_mu(self.gaussian)
    }

    /// Returns ε at δ = 0: finite only when every loss is bounded.
    fn pure_epsilon(&self) -> Option<Epsilon> {
        if self.gaussian > 0.0 {
            return None;
        }
        let directions = (0..2).map(|direction| {
            self.pairs.iter().try_fold(0.0, |sum, (pair, count)| {
                let loss = pair.directions.get(direction).unwrap_or(&pair.directions[0]);
                let most = loss.range().1.filter(|_| loss.infinite() == 0.0)?;
                Some(sum + (most * *count as f64).next_up())
            })
        });
        let worst = directions.collect::<Option<Vec<f64>>>()?.into_iter().fold(0.0, f64::max);
        Epsilon::new(worst).ok()
    }

    /// Returns the pairs, with all plain Gaussians together as one more.
    fn all_pairs(&self) -> Vec<(Pair, u64)> {
        let gaussian = (self.gaussian > 0.0).then(|| (Pair::sampled_gaussian(1.0, 1.0 / self.gaussian), 1));
        self.pairs.iter().cloned().chain(gaussian).collect()
    }
}
