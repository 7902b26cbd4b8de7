//! Where an arm stands, on disk: parameters, optimizer, round. Written whole or not at all.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use undertone_api::job::dp_sgd::Optimizer as Rule;

use crate::dp::optimizer::{Memory, Optimizer};
use crate::run::RunError;
use crate::speech::model::Model;

/// A standing that can be gone on from.
pub(super) struct Checkpoint {
    /// Rounds (or epochs) done.
    pub(super) round: u32,
    /// Seconds they took.
    pub(super) seconds: f64,
    /// Parameters after them.
    pub(super) parameters: Vec<f32>,
    /// The optimizer after them.
    pub(super) optimizer: Optimizer,
}

fn path(folder: &Path, series: &str) -> PathBuf {
    folder.join(format!("{series}.checkpoint"))
}

impl Checkpoint {
    /// Writes a checkpoint over the last one of the series; durable when this returns.
    ///
    /// # Errors
    /// [`RunError::Failed`] when the disk refuses.
    pub(super) fn save(
        folder: &Path,
        series: &str,
        round: u32,
        seconds: f64,
        model: &Model,
        optimizer: &Optimizer,
    ) -> Result<(), RunError> {
        let Memory { steps, first, second } = optimizer.memory();
        let parts = [("parameters", model.parameters()), ("first", first), ("second", second)].map(|(name, values)| {
            (name, values.len(), values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>())
        });
        let about = HashMap::from([
            ("round".to_owned(), round.to_string()),
            ("seconds".to_owned(), seconds.to_string()),
            ("steps".to_owned(), steps.to_string()),
        ]);
        let views: Result<Vec<_>, _> = parts
            .iter()
            .map(|(name, length, data)| Ok((*name, TensorView::new(Dtype::F32, vec![*length], data)?)))
            .collect();
        let file = views.and_then(|views| safetensors::serialize(views, Some(about)));
        let file = file.map_err(|error| RunError::Failed(format!("the checkpoint cannot be written: {error}")))?;
        let path = path(folder, series);
        write_whole(&path, &file).map_err(|error| {
            RunError::Failed(format!(
                "the checkpoint {} cannot be written ({error}): is the disk full?",
                path.display()
            ))
        })
    }

    /// Reads the last checkpoint of a series; `None` when there is none, or when it is not one of this model and rule.
    /// Then the series is replayed from its start, which costs time and no privacy.
    pub(super) fn load(folder: &Path, series: &str, model: &Model, rule: Rule) -> Option<Self> {
        let path = path(folder, series);
        let file = fs::read(&path).ok()?;
        let checkpoint = Self::read(&file, model, rule);
        if checkpoint.is_none() {
            tracing::warn!(path = %path.display(), "the checkpoint is not readable; starting this part of the job again");
        }
        checkpoint
    }

    fn read(file: &[u8], model: &Model, rule: Rule) -> Option<Self> {
        let (_, header) = SafeTensors::read_metadata(file).ok()?;
        let about = header.metadata().as_ref()?;
        let tensors = SafeTensors::deserialize(file).ok()?;
        let vector = |name: &str| {
            let (values, _) = tensors.tensor(name).ok()?.data().as_chunks::<4>();
            Some(values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect::<Vec<f32>>())
        };
        let (parameters, length) = (vector("parameters")?, model.parameters().len());
        let memory =
            Memory { steps: about.get("steps")?.parse().ok()?, first: vector("first")?, second: vector("second")? };
        (parameters.len() == length).then_some(Self {
            round: about.get("round")?.parse().ok()?,
            seconds: about.get("seconds")?.parse().ok()?,
            parameters,
            optimizer: Optimizer::resume(rule, length, memory)?,
        })
    }
}

/// Writes beside the target, makes it durable, and puts it in the target's place.
fn write_whole(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let beside = path.with_extension("partial");
    let mut file = File::create(&beside)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    if let Some(folder) = path.parent() {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}
