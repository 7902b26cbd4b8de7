//! `personalize`: a model fine-tuned on a dataset of the site, for the site alone.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use super::table::format_table;
use super::{CommandFailure, find_dataset};
use crate::personal::{PersonalGain, PersonalModel, PersonalTraining, personalize};
use crate::site::folder::{Folder, write_durably};

/// The rows of the table of speakers; `--json` prints all of them.
const ROWS: usize = 20;

/// Fine-tune a model on a dataset of this site, without noise and without a charge, for this site alone.
///
/// The training split is trained on, and the gain is measured on the test split. The model is written into the folder
/// `personal` of the site and marked: no job reads it, this worker does not send it, and the server does not accept it. The loss is
/// the cross-entropy of frames, which does not fit models of characters (CTC).
#[derive(Debug, Args)]
pub(super) struct PersonalizeCommand {
    /// The model: a safetensors file of a job.
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// The dataset of this site, with a test split.
    #[arg(long, value_name = "NAME")]
    dataset: String,
    /// Passes over the training split: 1 to 1,000.
    #[arg(long, default_value_t = 5)]
    epochs: u32,
    /// Utterances in a batch: 1 to 1,024.
    #[arg(long, default_value_t = 8)]
    batch: u32,
    /// Learning rate of Adam: above 0, at most 1.
    #[arg(long, default_value_t = 0.001)]
    learning_rate: f64,
    /// Seed of the order of the utterances.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl PersonalizeCommand {
    /// Personalizes the model, writes it, and prints the gains to `out`.
    pub(super) fn run(&self, folder: &Folder, out: &mut dyn Write) -> Result<(), CommandFailure> {
        let dataset = find_dataset(folder, &self.dataset)?;
        let Self { epochs, batch, learning_rate, seed, .. } = *self;
        let terms = PersonalTraining { epochs, batch, learning_rate, seed };
        let result = personalize(&self.model, &dataset, &self.dataset, terms)?;
        let path = folder.personal().join(format!("{}-{}.safetensors", self.dataset, &result.digest[..12]));
        write_durably(&path, &result.content)?;
        let text = if self.json {
            let mut json = serde_json::to_value(&result)?;
            json["file"] = path.display().to_string().into();
            serde_json::to_string_pretty(&json)? + "\n"
        } else {
            format_result(&result, &path)
        };
        out.write_all(text.as_bytes())?;
        Ok(())
    }
}

fn format_row(gain: &PersonalGain) -> Vec<String> {
    let share = |share: f64| format!("{:.2} %", share * 100.0);
    vec![
        gain.speaker.clone().unwrap_or_else(|| "all".to_owned()),
        gain.frames.to_string(),
        share(gain.before),
        share(gain.after),
        format!("{:+.2}", (gain.after - gain.before) * 100.0),
    ]
}

/// Formats the result as text: the gain of the site, then of the speakers with the most frames.
fn format_result(result: &PersonalModel, path: &Path) -> String {
    let mut speakers: Vec<_> = result.speakers.iter().collect();
    speakers.sort_by_key(|gain| std::cmp::Reverse(gain.frames));
    let rows: Vec<_> = std::iter::once(&result.site).chain(speakers.into_iter().take(ROWS)).map(format_row).collect();
    format!(
        "PERSONAL: {}\n\n\
         Begun with  {}\n\
         Dataset     {} ({} utterances trained on)\n\
         File        {}\n\n\
         {}",
        result.personal,
        result.model,
        result.dataset,
        result.trained,
        path.display(),
        format_table(&["SPEAKER", "FRAMES", "BEFORE", "AFTER", "POINTS"], &rows),
    )
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use undertone_api::job::dp_sgd::TrainingLoss;

    use crate::cli::evaluate::tests::{run_at, site};
    use crate::personal::PERSONAL;
    use crate::run::evaluation::read_model;
    use crate::speech::model::ModelUsage;

    #[test]
    fn model_of_characters_is_refused() {
        let dir = site();
        let path = dir.path().join("model");
        let mut model = read_model(&std::fs::read(&path).unwrap()).unwrap();
        model.set_usage(ModelUsage { loss: Some(TrainingLoss::Ctc), ..ModelUsage::default() });
        std::fs::write(&path, model.to_safetensors().unwrap()).unwrap();
        let model = path.display().to_string();
        let error = run_at(dir.path(), &["personalize", &model, "--dataset", "ward"]).unwrap_err();
        assert!(error.contains("loss `ctc`"), "{error}");
    }

    #[test]
    fn personal_model_is_marked_and_measured_by_speaker() {
        let dir = site();
        let model = dir.path().join("model").display().to_string();
        let text = run_at(dir.path(), &["personalize", &model, "--dataset", "ward", "--epochs", "1"]).unwrap();
        assert!(text.starts_with(&format!("PERSONAL: {PERSONAL}")) && text.contains("SPEAKER"), "{text}");
        let arguments =
            ["personalize", &model, "--dataset", "ward", "--epochs", "30", "--learning-rate", "0.02", "--json"];
        let json = run_at(dir.path(), &arguments).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&json["personal"], &json["trained"]), (&PERSONAL.into(), &20.into()));
        assert_eq!(json["speakers"].as_array().map(Vec::len), Some(4));
        let frames = |gain: &serde_json::Value| gain["frames"].as_u64().unwrap();
        let speakers = json["speakers"].as_array().unwrap();
        assert_eq!(speakers.iter().map(frames).sum::<u64>(), frames(&json["site"]));
        // The command is repeatable, and the file is personal: this site evaluates it, and no job reads it.
        assert_eq!(run_at(dir.path(), &arguments).unwrap(), serde_json::to_string_pretty(&json).unwrap() + "\n");
        let file = json["file"].as_str().unwrap();
        let refusal = read_model(&std::fs::read(file).unwrap()).map(|_| ()).unwrap_err().to_string();
        assert!(refusal.contains("the model is personal"), "{refusal}");
        let evaluated = run_at(dir.path(), &["evaluate", file, "--dataset", "ward", "--json"]).unwrap();
        let evaluated: serde_json::Value = serde_json::from_str(&evaluated).unwrap();
        assert!((evaluated["accuracy"].as_f64().unwrap() - json["site"]["after"].as_f64().unwrap()).abs() < 1e-12);
    }

    #[test]
    fn unusable_input_has_a_specific_error() {
        let dir = site();
        let model = dir.path().join("model").display().to_string();
        let error = |more: &[&str]| {
            let arguments = [&["personalize", &*model, "--dataset", "ward"], more].concat();
            run_at(dir.path(), &arguments).unwrap_err()
        };
        assert!(error(&["--epochs", "0"]).contains("--epochs: from 1 to 1000, not 0"));
        assert!(error(&["--batch", "1025"]).contains("--batch: from 1 to 1024, not 1025"));
        assert!(error(&["--learning-rate", "1.5"]).contains("--learning-rate: above 0, at most 1, not 1.5"));
        let unknown = run_at(dir.path(), &["personalize", &model, "--dataset", "unknown"]).unwrap_err();
        assert!(unknown.contains("no dataset `unknown`"), "{unknown}");
    }
}
