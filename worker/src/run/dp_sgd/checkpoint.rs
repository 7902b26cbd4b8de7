//! The state of an arm, on disk: parameters, optimizer, mean of the iterates, round. Written whole or not at all.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use undertone_api::job::dp_sgd::{Ema, Optimizer as Rule};

use super::error::TrainingError;
use crate::dp::optimizer::iterates::IterateMean;
use crate::dp::optimizer::{Optimizer, OptimizerMemory};
use crate::run::RunError;
use crate::site::folder::write_durably;

/// A state from which an arm can resume.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ArmCheckpoint {
    /// The number of finished rounds (or epochs).
    pub(super) round: u32,
    /// Their duration, seconds.
    pub(super) seconds: f64,
    /// The trained parameters after them.
    pub(super) parameters: Vec<f32>,
    /// The optimizer after them.
    pub(super) optimizer: Optimizer,
    /// The mean of the parameters after each of them, if they are averaged.
    pub(super) iterates: Option<IterateMean>,
}

/// The properties that a usable checkpoint must have.
#[derive(Debug, Clone, Copy)]
pub(super) struct CheckpointPlan {
    /// The number of trained parameters.
    pub(super) length: usize,
    /// The optimizer rule.
    pub(super) rule: Rule,
    /// The averaging of iterates.
    pub(super) averaging: Option<Ema>,
}

impl CheckpointPlan {
    /// Makes the state before the first round.
    pub(super) fn begin(self, parameters: Vec<f32>) -> ArmCheckpoint {
        ArmCheckpoint {
            round: 0,
            seconds: 0.0,
            parameters,
            optimizer: Optimizer::new(self.rule, self.length),
            iterates: self.averaging.map(|ema| IterateMean::new(ema.decay, self.length)),
        }
    }
}

/// Returns the path of a series' checkpoint.
pub(super) fn path(folder: &Path, series: &str) -> PathBuf {
    folder.join(format!("{series}.checkpoint"))
}

impl ArmCheckpoint {
    /// Returns the result to measure, keep and publish: the mean of the iterates if they are averaged, else the
    /// parameters.
    pub(super) fn result(&self) -> &[f32] {
        match &self.iterates {
            Some(iterates) if iterates.steps() > 0 => iterates.mean(),
            _ => &self.parameters,
        }
    }

    /// Writes it over the last one of the series; durable when this returns.
    ///
    /// # Errors
    /// [`RunError::Disk`] when the disk is full or fails, [`RunError::Failed`] when it refuses otherwise.
    pub(super) fn save(&self, folder: &Path, series: &str) -> Result<(), RunError> {
        let OptimizerMemory { steps, first, second, noise } = self.optimizer.memory();
        let mean = self.iterates.as_ref().map_or(&[][..], IterateMean::mean);
        let averaged = self.iterates.as_ref().map_or(0, IterateMean::steps);
        let parts = [("parameters", &self.parameters[..]), ("first", first), ("second", second), ("mean", mean)].map(
            |(name, values)| (name, values.len(), values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>()),
        );
        // Numbers are written in the shortest form that parses to the same bits.
        let about = HashMap::from([
            ("round".to_owned(), self.round.to_string()),
            ("seconds".to_owned(), self.seconds.to_string()),
            ("steps".to_owned(), steps.to_string()),
            ("noise".to_owned(), noise.to_string()),
            ("averaged".to_owned(), averaged.to_string()),
        ]);
        let views: Result<Vec<_>, _> = parts
            .iter()
            .map(|(name, length, data)| Ok((*name, TensorView::new(Dtype::F32, vec![*length], data)?)))
            .collect();
        let file = views.and_then(|views| safetensors::serialize(views, Some(about)));
        let file = file.map_err(TrainingError::Checkpoint)?;
        Ok(write_durably(&path(folder, series), &file)?)
    }

    /// Reads the last checkpoint of a series; returns `None` without one, or when it does not match this plan. Then the
    /// series is replayed from its start, which costs time and no privacy.
    pub(super) fn load(folder: &Path, series: &str, plan: CheckpointPlan) -> Option<Self> {
        let path = path(folder, series);
        let file = fs::read(&path).ok()?;
        let checkpoint = Self::read(&file, plan);
        if checkpoint.is_none() {
            tracing::warn!(path = %path.display(), "cannot read the checkpoint; this arm of the job starts again");
        }
        checkpoint
    }

    fn read(file: &[u8], plan: CheckpointPlan) -> Option<Self> {
        let (_, header) = SafeTensors::read_metadata(file).ok()?;
        let about = header.metadata().as_ref()?;
        let tensors = SafeTensors::deserialize(file).ok()?;
        let vector = |name: &str| {
            let (values, _) = tensors.tensor(name).ok()?.data().as_chunks::<4>();
            Some(values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect::<Vec<f32>>())
        };
        // Older checkpoints, from before a rule needed it, do not contain the noise in the second moment.
        let noise = about.get("noise").map_or(Some(0.0), |noise| noise.parse().ok())?;
        let memory = OptimizerMemory {
            steps: about.get("steps")?.parse().ok()?,
            first: vector("first")?,
            second: vector("second")?,
            noise,
        };
        let iterates = match plan.averaging {
            None => None,
            Some(ema) => {
                let mean = vector("mean").filter(|mean| mean.len() == plan.length)?;
                Some(IterateMean::resume(ema.decay, about.get("averaged")?.parse().ok()?, mean))
            }
        };
        Some(Self {
            round: about.get("round")?.parse().ok()?,
            seconds: about.get("seconds")?.parse().ok()?,
            parameters: vector("parameters").filter(|parameters| parameters.len() == plan.length)?,
            optimizer: Optimizer::resume(plan.rule, plan.length, memory)?,
            iterates,
        })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use undertone_api::job::dp_sgd::{Ema, Optimizer as Rule};

    use super::{ArmCheckpoint, CheckpointPlan};
    use crate::dp::optimizer::StepDirection;

    const PLAN: CheckpointPlan =
        CheckpointPlan { length: 3, rule: Rule::DpAdam { learning_rate: 0.01 }, averaging: Some(Ema { decay: 0.9 }) };

    fn trained_checkpoint() -> ArmCheckpoint {
        let mut checkpoint = PLAN.begin(vec![0.1, -0.2, 0.3]);
        for round in 1..=5 {
            let vector = [round as f32, 0.1, -1.0 / 3.0];
            checkpoint.optimizer.step(
                &mut checkpoint.parameters,
                StepDirection::averaged(&vector, 0.1 / f64::from(round)),
                0.7,
            );
            checkpoint.iterates.as_mut().unwrap().add(&checkpoint.parameters);
            (checkpoint.round, checkpoint.seconds) = (round, f64::from(round) / 3.0);
        }
        checkpoint
    }

    #[test]
    fn checkpoint_is_read_back_to_the_bit() {
        let dir = tempfile::tempdir().unwrap();
        let checkpoint = trained_checkpoint();
        checkpoint.save(dir.path(), "private").unwrap();
        assert_eq!(ArmCheckpoint::load(dir.path(), "private", PLAN), Some(checkpoint));
        assert_eq!(ArmCheckpoint::load(dir.path(), "open", PLAN), None);
    }

    #[test]
    fn checkpoint_of_another_plan_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        trained_checkpoint().save(dir.path(), "private").unwrap();
        let sgd = Rule::Sgd { learning_rate: 0.1, momentum: 0.9 };
        for plan in [CheckpointPlan { length: 4, ..PLAN }, CheckpointPlan { rule: sgd, ..PLAN }] {
            assert_eq!(ArmCheckpoint::load(dir.path(), "private", plan), None);
        }
        PLAN.begin(vec![0.0; 3]).save(dir.path(), "private").unwrap();
        let mut plain = CheckpointPlan { averaging: None, ..PLAN }.begin(vec![0.5; 3]);
        plain.save(dir.path(), "private").unwrap();
        assert_eq!(ArmCheckpoint::load(dir.path(), "private", PLAN), None, "it has no mean, which the plan requires");
        plain.round = 9;
        assert_ne!(ArmCheckpoint::load(dir.path(), "private", CheckpointPlan { averaging: None, ..PLAN }), Some(plain));
    }

    #[test]
    fn published_parameters_are_the_mean_of_the_iterates() {
        let start = PLAN.begin(vec![1.0, 2.0, 3.0]);
        assert_eq!(start.result(), [1.0, 2.0, 3.0]);
        let checkpoint = trained_checkpoint();
        assert_eq!(checkpoint.result(), checkpoint.iterates.as_ref().unwrap().mean());
        assert_ne!(checkpoint.result(), checkpoint.parameters);
        let plain = CheckpointPlan { averaging: None, ..PLAN }.begin(vec![1.0, 2.0, 3.0]);
        assert_eq!(plain.result(), plain.parameters);
    }
}
