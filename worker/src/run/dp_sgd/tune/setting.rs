//! The settings: points of a grid around a spec, and a spec with one of them in it.

use std::fmt;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use undertone_api::job::dp_sgd::{Ema, ModelParts, Optimizer, Rounds, Spec, UnitAugmentation};
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
    /// Numbers of altered copies of each unit, 1 for none; in place of the spec's. Absent in the identity of a search
    /// without them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<u32>,
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
    /// Altered copies of each unit, 1 for none; `None` for those of the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<u32>,
}

/// Returns the altered copies of each unit in `copies` copies: with the alterations of the spec's `own`, or the usual
/// ones. `None` for one copy, the unit as it is.
fn augment(own: Option<UnitAugmentation>, copies: u32) -> Option<UnitAugmentation> {
    let usual = UnitAugmentation::with_usual_alterations(copies);
    (copies != 1).then(|| UnitAugmentation { copies, ..own.unwrap_or(usual) })
}

impl TuneSetting {
    /// Returns the spec's own setting.
    pub const fn from_rounds(rounds: &Rounds) -> Self {
        let Rounds { rounds, optimizer, train, averaging, .. } = *rounds;
        Self { clip: 1.0, batch: 1.0, optimizer, rounds, train, averaging, copies: None }
    }

    /// Puts the setting into a spec. The noise does not change; a goal's noise is computed afterwards.
    pub fn apply(&self, spec: &mut Spec) {
        let Some(rounds) = spec.private.as_mut() else { return };
        rounds.optimizer = self.optimizer;
        rounds.rounds = self.rounds;
        rounds.train = self.train;
        rounds.averaging = self.averaging;
        if let Some(copies) = self.copies {
            rounds.augmentation = augment(rounds.augmentation, copies);
        }
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
        match self.copies {
            None => Ok(()),
            Some(1) => write!(f, ", without copies"),
            Some(copies) => write!(f, ", {copies} copies"),
        }
    }
}

impl SettingGrid {
    /// Checks the numbers of copies by the limits of the spec.
    ///
    /// # Errors
    /// [`TuneError::Spec`] with the option, the number and the limit.
    pub(super) fn check_copies(&self, spec: &Spec) -> Result<(), TuneError> {
        let own = spec.private.and_then(|rounds| rounds.augmentation);
        for copies in self.copies.iter().copied() {
            let violation = augment(own, copies).and_then(|augmentation| spec.find_wrong_copies(&augmentation));
            if let Some(violation) = violation {
                let why =
                    format!("--copies {copies}: {} (`{}`); 1 stands for none", violation.message, violation.field);
                return Err(TuneError::Spec(why));
            }
        }
        Ok(())
    }

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
        // The spec's own number is no other setting.
        let own_copies = rounds.augmentation.map_or(1, |augmentation| augmentation.copies);
        let mut copies: Vec<Option<u32>> =
            self.copies.iter().map(|copies| Some(*copies).filter(|copies| *copies != own_copies)).collect();
        if copies.is_empty() {
            copies.push(None);
        }
        let mut all = Vec::new();
        for optimizer in optimizers {
            for (rate, clip) in pairs(&rates, &clips) {
                for (batch, length) in pairs(&batches, &lengths) {
                    let optimizer = optimizer.with_learning_rate(optimizer.learning_rate() * rate);
                    let rounds = (f64::from(own.rounds) * length).round().max(1.0) as u32;
                    all.extend(parts.iter().flat_map(|train| {
                        pairs(&averaging, &copies).map(move |(averaging, copies)| TuneSetting {
                            clip,
                            batch,
                            optimizer,
                            rounds,
                            train: *train,
                            averaging,
                            copies,
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

fn pairs<A: Copy, B: Copy>(first: &[A], second: &[B]) -> impl Iterator<Item = (A, B)> {
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

    use undertone_api::job::dp_sgd::{MaskedRuns, Optimizer, Rounds, Spec, UnitAugmentation};

    use super::{SettingGrid, TuneSetting};
    use crate::run::dp_sgd::tune::TuneError;
    use crate::run::dp_sgd::tune::tests::{row_spec, spec};

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

    /// Returns the copies of the private arm with each setting of a grid around the spec's own, sorted.
    fn copies(spec: &Spec, copies: &[u32]) -> Vec<Option<UnitAugmentation>> {
        let grid = SettingGrid { copies: copies.to_vec(), ..SettingGrid::default() };
        let settings = grid.settings(&spec.private.unwrap(), 100, 7).unwrap();
        let augmentation = |setting: &TuneSetting| {
            let mut spec = spec.clone();
            setting.apply(&mut spec);
            spec.private.unwrap().augmentation
        };
        let mut all: Vec<_> = settings.iter().map(augmentation).collect();
        all.sort_by_key(|augmentation| augmentation.map_or(1, |augmentation| augmentation.copies));
        all
    }

    #[test]
    fn copies_replace_those_of_the_spec_and_keep_its_alterations() {
        let usual = UnitAugmentation::with_usual_alterations;
        let mut spec = spec();
        assert_eq!(copies(&spec, &[]), [None]);
        assert_eq!(copies(&spec, &[1, 4]), [None, Some(usual(4))], "without copies is the spec's own");
        let frame_masks = Some(MaskedRuns { count: 1, longest: 4 });
        let own = UnitAugmentation { frame_masks, coefficient_masks: None, ..usual(4) };
        spec.private.as_mut().unwrap().augmentation = Some(own);
        assert_eq!(copies(&spec, &[]), [Some(own)]);
        let two = UnitAugmentation { copies: 2, ..own };
        assert_eq!(copies(&spec, &[4, 2, 1]), [None, Some(two), Some(own)]);
        let setting = TuneSetting { copies: Some(1), ..TuneSetting::from_rounds(&spec.private.unwrap()) };
        assert!(setting.to_string().ends_with(", without copies"), "{setting}");
        // A setting of an earlier version has no copies of its own.
        let text = serde_json::to_string(&TuneSetting { copies: None, ..setting }).unwrap();
        assert!(!text.contains("copies"), "{text}");
        let mut again = spec.clone();
        serde_json::from_str::<TuneSetting>(&text).unwrap().apply(&mut again);
        assert_eq!(again, spec);
        let text = serde_json::to_string(&SettingGrid::default()).unwrap();
        assert!(!text.contains("copies"), "earlier searches keep their identity: {text}");
    }

    #[test]
    fn copies_have_the_limits_of_the_spec() {
        let check = |spec: &Spec, copies| {
            let grid = SettingGrid { copies: vec![1, copies], ..SettingGrid::default() };
            grid.check_copies(spec)
        };
        for valid in [1, 2, 16] {
            assert!(check(&spec(), valid).is_ok(), "{valid}");
        }
        for wrong in [0, 17] {
            let Err(TuneError::Spec(why)) = check(&spec(), wrong) else { panic!("{wrong} copies are admitted") };
            assert!(
                why.contains(&format!("--copies {wrong}: from 2 to 16")) && why.contains("1 stands for none"),
                "{why}"
            );
        }
        assert!(check(&row_spec(), 1).is_ok());
        let Err(TuneError::Spec(why)) = check(&row_spec(), 2) else { panic!("rows have no frames") };
        assert!(why.contains("--copies 2") && why.contains("spec.private.augmentation"), "{why}");
    }

    #[test]
    fn factor_that_is_not_positive_is_refused() {
        for factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let grid = SettingGrid { rate: vec![factor], ..SettingGrid::default() };
            assert!(grid.settings(&Rounds::new(10, RULE), 9, 1).is_err(), "{factor}");
        }
    }
}
