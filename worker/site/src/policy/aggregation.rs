//! The rules for secure aggregation: `jobs.secure_aggregation` (`privacy.md`, 14.8).
//!
//! In a group each site adds less noise than alone. The guarantee against the server and t sites then rests on the
//! honest sites' noise together, and the guarantee against the server and all other sites on the site's own noise. So a
//! site takes part only if its policy allows that.

use std::num::{NonZeroU8, NonZeroU32};

use serde::{Deserialize, Serialize};
use undertone_api::job::Charge;
use undertone_privacy::event::DistributedNoise;
use undertone_privacy::ledger::{Account, LedgerError, ReservationId};
use undertone_privacy::unit::GridSteps;
use undertone_privacy::{Epsilon, Event};
use undertone_secure_aggregation::roster::GroupPolicy;

use super::{DatasetRules, LifetimeLimit, PolicyRefusal};

/// The rules for groups of secure aggregation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AggregationRules {
    /// Whether a job may use secure aggregation.
    pub allowed: bool,
    /// h: the least number of honest sites in a sum, this one included.
    pub least_honest: NonZeroU8,
    /// Whether this site adds all the noise of its guarantee itself, so that the noise of other sites is not needed.
    pub full_noise: bool,
    /// Highest ε of a job against the server and all other sites, at the δ of the unit's lifetime limit; `None` for no
    /// limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_insider_epsilon: Option<Epsilon>,
}

impl Default for AggregationRules {
    fn default() -> Self {
        let least_honest = NonZeroU8::MIN.saturating_add(1);
        Self { allowed: false, least_honest, full_noise: false, most_insider_epsilon: None }
    }
}

impl AggregationRules {
    /// Returns whether the rules are those of a policy without the key.
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the conditions for the roster of a group.
    pub const fn group_policy(&self) -> GroupPolicy {
        GroupPolicy { least_honest: self.least_honest.get() }
    }

    /// Returns the standard deviation of this site's own noise in a masked sum, in whole steps of the grid: the `share` s
    /// of the event, or the least D with D² ≥ s²·`honest` if the site adds its full noise. More noise than s widens the
    /// sum of the honest sites' noise, and its distance from one discrete Gaussian falls, so the event's price holds. The
    /// modulus has room for it: a coordinate of a whole batch is far above any noise.
    pub fn own_deviation(&self, share: u32, honest: u32) -> u32 {
        if !self.full_noise {
            return share;
        }
        let square = u128::from(share) * u128::from(share) * u128::from(honest);
        let root = square.isqrt();
        u32::try_from(root + u128::from(root * root < square)).unwrap_or(u32::MAX)
    }

    /// Returns the event of a masked sum against the server and all other sites: this site's own noise is left. `None`
    /// for an event without a masked sum.
    pub fn insider_event(&self, event: &Event) -> Option<Event> {
        let own = |noise: &DistributedNoise| {
            // Masked sums have whole steps of noise, below 2³².
            let deviation = self.own_deviation(noise.noise.get() as u32, noise.contributors.get());
            let deviation = GridSteps::new(f64::from(deviation)).unwrap_or(noise.noise);
            DistributedNoise { noise: deviation, contributors: NonZeroU32::MIN, ..*noise }
        };
        Some(match event {
            Event::DistributedDiscreteGaussian(noise) => Event::DistributedDiscreteGaussian(own(noise)),
            Event::PoissonSampledDistributedDiscreteGaussian { sampling_rate, noise } => {
                let noise = Box::new(own(noise));
                Event::PoissonSampledDistributedDiscreteGaussian { sampling_rate: *sampling_rate, noise }
            }
            Event::Repeated { count, of } => Event::Repeated { count: *count, of: Box::new(self.insider_event(of)?) },
            _ => return None,
        })
    }
}

/// Writes the rules in words, for `policy show`.
impl std::fmt::Display for AggregationRules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.allowed {
            return f.write_str("not allowed");
        }
        write!(f, "at least {} honest sites", self.least_honest)?;
        if self.full_noise {
            f.write_str(", this site's full noise")?;
        }
        match self.most_insider_epsilon {
            Some(most) => write!(f, ", epsilon {} against all others", most.get()),
            None => Ok(()),
        }
    }
}

impl DatasetRules {
    /// Checks the noise of one masked sum.
    pub(super) fn judge_masked_sum(&self, noise: &DistributedNoise) -> Result<(), PolicyRefusal> {
        let rules = &self.secure_aggregation;
        if !rules.allowed {
            return Err(PolicyRefusal::SecureAggregation);
        }
        let honest = noise.contributors.get();
        if honest < u32::from(rules.least_honest.get()) {
            return Err(PolicyRefusal::Honest { honest, least: rules.least_honest.get() });
        }
        let asked = noise.noise.get() * f64::from(honest).sqrt() / noise.clip.get();
        let least = self.least_noise_multiplier.get();
        if asked < least {
            return Err(PolicyRefusal::Noise { asked, least });
        }
        Ok(())
    }

    /// Checks that a charge against the server and all other sites stays within the limit for that, if there is one.
    pub(super) fn judge_insider(&self, charge: &Charge, limit: LifetimeLimit) -> Result<(), PolicyRefusal> {
        let rules = &self.secure_aggregation;
        let Some((most, event)) = rules.most_insider_epsilon.zip(rules.insider_event(&charge.event)) else {
            return Ok(());
        };
        let mut alone = Account::new(Some(LifetimeLimit { epsilon: most, ..limit }.budget(None)?));
        let cost = alone.balance().job_cost(&event, charge.releases, charge.adjacency)?;
        let refused = |error: LedgerError| PolicyRefusal::Insider { most: most.get(), source: Box::new(error) };
        alone.reserve_job(ReservationId(0), &cost, charge.releases).map_err(refused)
    }
}

#[cfg(test)]
mod tests {
    use std::num::{NonZeroU8, NonZeroU32};

    use undertone_privacy::event::DistributedNoise;
    use undertone_privacy::unit::GridSteps;
    use undertone_privacy::{Delta, Epsilon, Event, SamplingRate};

    use super::super::{DatasetRules, Policy, PolicyRefusal, TEMPLATE};
    use super::AggregationRules;
    use crate::testing::{charge, spec};

    fn rules(line: &str) -> DatasetRules {
        let text = TEMPLATE.replacen("[jobs]\n", &format!("[jobs]\n{line}\n"), 1);
        Policy::parse(&text, std::path::Path::new("policy.toml")).expect("a policy").rules("ward-7")
    }

    /// Returns ten masked sums of `honest` sites that each add noise of `noise` steps, with a clip of 65,536 steps.
    fn sums(honest: u32, noise: f64) -> Event {
        let steps = |steps| GridSteps::new(steps).expect("positive");
        let noise = Box::new(DistributedNoise {
            clip: steps(65_536.0),
            noise: steps(noise),
            contributors: NonZeroU32::new(honest).expect("not 0"),
            dimension: NonZeroU32::new(1000).expect("not 0"),
            rounding_bias: Delta::new(0.0).expect("in range"),
        });
        let sampling_rate = SamplingRate::new(0.125).expect("a probability");
        Event::PoissonSampledDistributedDiscreteGaussian { sampling_rate, noise }
    }

    #[test]
    fn group_needs_the_policys_consent_and_honest_sites() {
        let judge = |line: &str, event: Event| rules(line).judge(&spec(), Some(&charge(event, 10)));
        let event = || sums(2, 131_072.0);
        assert_eq!(judge("", event()), Err(PolicyRefusal::SecureAggregation));
        assert_eq!(judge("secure_aggregation = { allowed = true }", event()), Ok(()));
        let three = "secure_aggregation = { allowed = true, least_honest = 3 }";
        assert_eq!(judge(three, event()), Err(PolicyRefusal::Honest { honest: 2, least: 3 }));
        assert_eq!(judge(three, sums(3, 131_072.0)), Ok(()));
        let thin = judge("secure_aggregation = { allowed = true }", sums(2, 16_384.0));
        assert!(matches!(thin, Err(PolicyRefusal::Noise { least: 0.5, .. })), "{thin:?}");
        let limited = "secure_aggregation = { allowed = true, most_insider_epsilon = 0.5 }";
        assert!(matches!(judge(limited, event()), Err(PolicyRefusal::Insider { most: 0.5, .. })));
        assert_eq!(judge("secure_aggregation = { allowed = true, most_insider_epsilon = 50.0 }", event()), Ok(()));
    }

    #[test]
    fn rules_that_cannot_be_kept_refuse_the_file() {
        for line in ["{ allowed = 1 }", "{ least_honest = 0 }", "{ honest = 2 }", "{ most_insider_epsilon = -1.0 }"] {
            let text = TEMPLATE.replacen("[jobs]\n", &format!("[jobs]\nsecure_aggregation = {line}\n"), 1);
            assert!(Policy::parse(&text, std::path::Path::new("policy.toml")).is_err(), "{line}");
        }
    }

    #[test]
    fn full_noise_is_that_of_all_honest_sites() {
        let own = |full_noise| AggregationRules { full_noise, ..AggregationRules::default() };
        assert_eq!(own(false).own_deviation(1000, 4), 1000);
        assert_eq!(own(true).own_deviation(1000, 4), 2000);
        assert_eq!(own(true).own_deviation(1000, 2), 1415, "rounded up");
        assert_eq!(own(true).own_deviation(u32::MAX, 50), u32::MAX);
        let rules = AggregationRules { full_noise: true, ..AggregationRules::default() };
        let Some(Event::PoissonSampledDistributedDiscreteGaussian { noise, .. }) =
            rules.insider_event(&sums(2, 1000.0))
        else {
            panic!("a masked sum")
        };
        assert_eq!((noise.contributors.get(), noise.noise.get()), (1, 1415.0));
        assert_eq!(rules.insider_event(&Event::NonPrivate), None);
    }

    #[test]
    fn rules_are_shown_in_words() {
        assert_eq!(AggregationRules::default().to_string(), "not allowed");
        let rules = AggregationRules {
            allowed: true,
            least_honest: NonZeroU8::MIN.saturating_add(2),
            full_noise: true,
            most_insider_epsilon: Some(Epsilon::new(8.0).expect("a finite number")),
        };
        assert_eq!(rules.to_string(), "at least 3 honest sites, this site's full noise, epsilon 8 against all others");
    }
}
