//! `export`: a model as an ONNX graph, which other programs run.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use safetensors::tensor::{Dtype, TensorView};

use super::CommandFailure;
use crate::run::evaluation::{EvaluationError, digest_file, read_any_model};
use crate::speech::model::Model;
use crate::speech::model::gradient::{Engine, Example};

/// The lengths of the example recordings, in frames.
const LENGTHS: [usize; 4] = [1, 2, 37, 400];
/// The seed of their features.
const SEED: u64 = 1;

/// Export a model as an ONNX graph.
///
/// The graph reads `features` [batch, frames, inputs] and gives `logits` [batch, frames, classes]. The normalization of
/// the features is part of it. For a model of rows a frame is a row with the inputs of its columns. Personal models are not exported. `--examples` also writes recordings with random
/// features and the scores that this program computes for them, to compare another program with.
#[derive(Debug, Args)]
pub(super) struct ExportCommand {
    /// The model: a safetensors file of a job.
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// The ONNX file to write.
    #[arg(long, value_name = "FILE", default_value = "model.onnx")]
    output: PathBuf,
    /// A safetensors file to write with examples: `features.N` and `logits.N`.
    #[arg(long, value_name = "FILE")]
    examples: Option<PathBuf>,
}

impl ExportCommand {
    /// Writes the files and prints their digests to `out`.
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<(), CommandFailure> {
        let read = |source| EvaluationError::File { path: self.model.clone(), source };
        let content = std::fs::read(&self.model).map_err(read)?;
        let model = read_any_model(&content)?;
        let graph = undertone_onnx::convert(&content)?;
        write_file(&self.output, &graph)?;
        writeln!(out, "{}  {}", digest_file(&graph), self.output.display())?;
        if let Some(path) = &self.examples {
            let examples = write_examples(&model)?;
            write_file(path, &examples)?;
            writeln!(out, "{}  {}", digest_file(&examples), path.display())?;
        }
        Ok(())
    }
}

fn write_file(path: &Path, content: &[u8]) -> Result<(), EvaluationError> {
    std::fs::write(path, content).map_err(|source| EvaluationError::File { path: path.to_owned(), source })
}

/// Returns recordings with features around the mean of the model's data, and their scores.
fn write_examples(model: &Model) -> Result<Vec<u8>, safetensors::SafeTensorError> {
    let (shape, normalizer) = (model.shape(), model.normalizer());
    let mut rng = ChaCha20Rng::seed_from_u64(SEED);
    let mut engine = Engine::new();
    let mut parts = Vec::new();
    for (number, frames) in LENGTHS.into_iter().enumerate() {
        let mut features = Vec::with_capacity(frames * shape.inputs);
        for _ in 0..frames {
            for (mean, deviation) in normalizer.mean.iter().zip(&normalizer.deviation) {
                let uniform = (rng.next_u32() >> 8) as f32 / (1 << 23) as f32 - 1.0;
                features.push(mean + 2.0 * deviation * uniform);
            }
        }
        let mut logits = Vec::new();
        let example = [Example { features: &features, labels: &vec![0; frames] }];
        engine.classify(model, &example, &mut |_, own| logits = own.to_vec());
        parts.push((format!("features.{number}"), vec![frames, shape.inputs], to_bytes(&features)));
        parts.push((format!("logits.{number}"), vec![frames, shape.classes], to_bytes(&logits)));
    }
    let mut views = Vec::with_capacity(parts.len());
    for (name, dimensions, data) in &parts {
        views.push((name.as_str(), TensorView::new(Dtype::F32, dimensions.clone(), data)?));
    }
    safetensors::serialize(views, None)
}

fn to_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use safetensors::SafeTensors;

    use crate::cli::evaluate::tests::{run_at, site};
    use crate::run::evaluation::read_model;

    #[test]
    fn export_writes_the_graph_and_examples() {
        let dir = site();
        let path = |name: &str| dir.path().join(name).display().to_string();
        let (model, graph, examples) = (path("model"), path("model.onnx"), path("examples"));
        let arguments = ["export", &model, "--output", &graph, "--examples", &examples];
        let text = run_at(dir.path(), &arguments).unwrap();
        let content = std::fs::read(&model).unwrap();
        assert_eq!(std::fs::read(&graph).unwrap(), undertone_onnx::convert(&content).unwrap());
        let accuracy = |model: &str| {
            let text = run_at(dir.path(), &["evaluate", model, "--dataset", "ward"]).unwrap();
            text.lines().find(|line| line.starts_with("Accuracy")).unwrap().to_owned()
        };
        assert_eq!(accuracy(&graph), accuracy(&model), "the graph is evaluated as the model");
        let shape = *read_model(&content).unwrap().shape();
        let file = std::fs::read(&examples).unwrap();
        let tensors = SafeTensors::deserialize(&file).unwrap();
        assert_eq!(tensors.tensor("features.3").unwrap().shape(), [400, shape.inputs]);
        assert_eq!(tensors.tensor("logits.3").unwrap().shape(), [400, shape.classes]);
        assert_eq!(run_at(dir.path(), &arguments).unwrap(), text, "the same model gives the same files");
    }

    #[test]
    fn personal_model_is_not_exported() {
        let dir = site();
        let model = dir.path().join("model");
        let personal = read_model(&std::fs::read(&model).unwrap()).unwrap().to_personal_file().unwrap();
        std::fs::write(&model, personal).unwrap();
        let error = run_at(dir.path(), &["export", &model.display().to_string()]).unwrap_err();
        assert!(error.contains("the model is personal"), "{error}");
    }
}
