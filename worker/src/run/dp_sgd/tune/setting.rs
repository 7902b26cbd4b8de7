//! The settings: points of a grid around a spec, and a spec with one of them in it.

use std::fmt;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use undertone_api::job::dp_sgd::{Ema, ModelParts, Optimizer, Rounds, Spec};
use undertone_privacy::SamplingRate;

use super::error::TuneError;

/// The parameters that the grid varies. Clip, rate, batch and rounds are factors of the spec's values; an empty list
/// keeps the spec's.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SettingGrid {
    /// Factors of every party's clip.
    pub clip: Vec<f64>,
    /// Factors of the learning rate.
    pub rate: Vec<f64>,
    /// Factors of every party's q, and so of the batch it expects.
    pub batch: Vec<f64>,
    /// Factors of the number of rounds.
    pub rounds: Vec<f64>,
    /// Other optimizers, each with a separate learning rate for the factors; in addition to the spec's.
    pub optimizers: Vec<Optimizer>,
    /// Trained parts, `None` for all; in place of the spec's.
    pub parts: Vec<Option<ModelParts>>,
    /// Decays of the mean of the iterates, `None` for none; in place of the spec's.
    pub averaging: Vec<Option<f64>>,
}

/// One point of the grid.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TuneSetting {
    /// Factor of every party's clip.
    pub clip: f64,
    /// Factor of every party's q.
    pub batch: f64,
    /// The step, with its learning rate.
    #[serde(flatten)]
    pub optimizer: Optimizer,
    /// Rounds.
    pub rounds: u32,
    /// The trained parts; `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub train: Option<ModelParts>,
    /// Averaging of iterates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub averaging: Option<Ema>,
}

impl TuneSetting {
    /// Returns the spec's own setting.
    pub const fn from_rounds(rounds: &Rounds) -> Self {
        let Rounds { rounds, optimizer, train, averaging, .. } = *rounds;
        Self { clip: 1.0, batch: 1.0, optimizer, rounds, train, averaging }
    }

    /// Puts the setting into a spec. The noise does not change; a goal's noise is computed afterwards.
    pub fn apply(&self, spec: &mut Spec) {
        let Some(rounds) = spec.private.as_mut() else { return };
        rounds.optimizer = self.optimizer;
        rounds.rounds = self.rounds;
        rounds.train = self.train;
        rounds.averaging = self.averaging;
        for party in &mut spec.participants {
            if let Some(noise) = party.noise.as_mut() {
                noise.clip *= self.clip;
            }
            let product = (party.sampling_rate.get() * self.batch).min(1.0);
            // A product of two positive numbers, at most 1: a rate. An unchanged rate is not rounded again.
            if self.batch.to_bits() != 1.0_f64.to_bits()
                && let Ok(rate) = SamplingRate::new(product)
            {
                party.sampling_rate = rate;
            }
        }
    }
}

impl fmt::Display for TuneSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.optimizer {
            Optimizer::Sgd { .. } => "sgd",
            Optimizer::Adam { .. } => "adam",
            Optimizer::DpAdam { .. } => "dp_adam",
        };
        let Self { clip, batch, rounds, .. } = self;
        write!(f, "{name} {:.3e}, clip x{clip}, batch x{batch}, {rounds} rounds", self.optimizer.learning_rate())?;
        if let Some(parts) = self.train {
            let names: Vec<_> = parts.iter().map(undertone_api::job::dp_sgd::ModelPart::name).collect();
            write!(f, ", trains {}", names.join("+"))?;
        }
        if let Some(Ema { decay }) = self.averaging {
            write!(f, ", ema {decay}")?;
        }
        Ok(())
    }
}

impl SettingGrid {
    /// Returns every point of the grid around the private arm of `spec`, and the spec's own, at most `most` of them.
    /// The spec's own is first; `seed` determines the order of the others.
    ///
    /// # Errors
    /// [`TuneError::Spec`] when a factor is not a positive finite number.
    pub fn settings(&self, rounds: &Rounds, most: usize, seed: u64) -> Result<Vec<TuneSetting>, TuneError> {
        let own = TuneSetting::from_rounds(rounds);
        let factors = |list: &[f64], name: &str| {
            if list.iter().any(|factor| !(factor.is_finite() && *factor > 0.0)) {
                return Err(TuneError::Spec(format!("a factor of the {name} must be a finite number greater than 0")));
            }
            Ok(if list.is_empty() { vec![1.0] } else { list.to_vec() })
        };
        let clips = factors(&self.clip, "clip")?;
        let rates = factors(&self.rate, "learning rate")?;
        let batches = factors(&self.batch, "batch")?;
        let lengths = factors(&self.rounds, "number of rounds")?;
        let optimizers: Vec<Optimizer> =
            std::iter::once(own.optimizer).chain(self.optimizers.iter().copied()).collect();
        let parts = if self.parts.is_empty() { vec![own.train] } else { self.parts.clone() };
        let averaging: Vec<Option<Ema>> = if self.averaging.is_empty() {
            vec![own.averaging]
        } else {
            self.averaging.iter().map(|decay| decay.map(|decay| Ema { decay })).collect()
        };
        let mut all = Vec::new();
        for optimizer in optimizers {
            for (rate, clip) in pairs(&rates, &clips) {
                for (batch, length) in pairs(&batches, &lengths) {
                    let optimizer = optimizer.with_learning_rate(optimizer.learning_rate() * rate);
                    let rounds = (f64::from(own.rounds) * length).round().max(1.0) as u32;
                    all.extend(parts.iter().flat_map(|train| {
                        averaging.iter().map(move |averaging| TuneSetting {
                            clip,
                            batch,
                            optimizer,
                            rounds,
                            train: *train,
                            averaging: *averaging,
                        })
                    }));
                }
            }
        }
        all.retain(|setting| *setting != own);
        shuffle(&mut all, seed);
        all.insert(0, own);
        all.truncate(most.max(1));
        Ok(all)
    }
}

fn pairs<'a>(first: &'a [f64], second: &'a [f64]) -> impl Iterator<Item = (f64, f64)> {
    first.iter().flat_map(move |one| second.iter().map(move |other| (*one, *other)))
}

/// Shuffles by Fisher and Yates; a bias of 2⁻⁴⁰ in the order of a search is harmless.
pub(super) fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    for last in (1..items.len()).rev() {
        items.swap(last, (rng.next_u64() % (last as u64 + 1)) as usize);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "constants of a test are in range")]

    use undertone_api::job::dp_sgd::{Optimizer, Rounds};

    use super::{SettingGrid, TuneSetting};

    const RULE: Optimizer = Optimizer::Sgd { learning_rate: 0.5, momentum: 0.9 };

    fn grid() -> SettingGrid {
        let optimizers = vec![Optimizer::DpAdam { learning_rate: 0.01 }];
        SettingGrid {
            clip: vec![0.5, 1.0, 2.0],
            rate: vec![0.1, 1.0],
            rounds: vec![1.0, 2.5],
            optimizers,
            ..SettingGrid::default()
        }
    }

    #[test]
    fn settings_begin_with_the_specs_own_and_have_no_duplicate() {
        let rounds = Rounds::new(10, RULE);
        let all = grid().settings(&rounds, 100, 7).unwrap();
        assert_eq!(all[0], TuneSetting::from_rounds(&rounds));
        assert_eq!(all.len(), 3 * 2 * 2 * 2, "its own is one of the points");
        for (index, setting) in all.iter().enumerate() {
            assert!(!all[..index].contains(setting), "{setting}");
        }
        assert!(all.iter().any(|setting| setting.rounds == 25));
        assert!(all.iter().any(|setting| setting.optimizer == Optimizer::DpAdam { learning_rate: 0.001 }));
    }

    #[test]
    fn seed_decides_the_order_and_limit_keeps_the_first() {
        let rounds = Rounds::new(10, RULE);
        let order = |most, seed| grid().settings(&rounds, most, seed).unwrap();
        assert_eq!(order(100, 1), order(100, 1));
        assert_ne!(order(100, 1), order(100, 2));
        assert_eq!(order(5, 1), order(100, 1)[..5]);
    }

    #[test]
    fn factor_that_is_not_positive_is_refused() {
        for factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let grid = SettingGrid { rate: vec![factor], ..SettingGrid::default() };
            assert!(grid.settings(&Rounds::new(10, RULE), 9, 1).is_err(), "{factor}");
        }
    }
}
