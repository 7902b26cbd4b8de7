//! `evaluate`: a model on a dataset of the site, for the site's own eyes.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::table::format_table;
use super::{CommandFailure, find_dataset};
use crate::run::evaluation::local::{LocalEvaluation, evaluate};
use crate::run::evaluation::rows::{RowEvaluation, RowModel};
use crate::run::evaluation::{EvaluationError, read_columns};
use crate::site::folder::Folder;

/// The rows of each table; `--json` prints all of them.
const ROWS: usize = 20;

/// Evaluate a model on a dataset of this site: accuracy by class, confusions and calibration, exactly and without noise.
///
/// The test split is evaluated, or the whole dataset if it has no split; a model of rows is evaluated on the rows of a table. The result is as private as the data: the command
/// prints it at this terminal, and neither stores nor sends it.
#[derive(Debug, Args)]
pub(super) struct EvaluateCommand {
    /// The model: a safetensors file of a job, or an ONNX graph that scores the frames of speech or the rows of a table.
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// The dataset of this site.
    #[arg(long, value_name = "NAME")]
    dataset: String,
    /// The columns of an ONNX graph of rows whose file does not name them: JSON with `target`, `features` in the order of the
    /// graph's inputs, and `rows_per_unit`, as in `columns` of an evaluation job.
    #[arg(long, value_name = "FILE")]
    columns: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl EvaluateCommand {
    /// Evaluates the model and prints the result to `out`.
    pub(super) fn run(&self, folder: &Folder, out: &mut dyn Write) -> Result<(), CommandFailure> {
        let dataset = find_dataset(folder, &self.dataset)?;
        let columns = self.columns.as_deref().map(read_columns).transpose()?;
        if let Some(mut model) = RowModel::read_evaluated(&self.model, columns.as_ref())? {
            let result = model.evaluate(&dataset, &self.dataset)?;
            let text = if self.json { serde_json::to_string_pretty(&result)? + "\n" } else { format_rows(&result) };
            out.write_all(text.as_bytes())?;
            return Ok(());
        }
        if columns.is_some() {
            return Err(EvaluationError::SpeechColumns.into());
        }
        let result = evaluate(&self.model, &dataset, &self.dataset)?;
        let text = if self.json { serde_json::to_string_pretty(&result)? + "\n" } else { format_result(&result) };
        out.write_all(text.as_bytes())?;
        Ok(())
    }
}

fn format_share(part: Option<f64>) -> String {
    part.map_or_else(|| "-".to_owned(), |part| format!("{:.2} %", part * 100.0))
}

/// Formats the result of a model of rows as text: the figures, then the values of the target with the most rows.
fn format_rows(result: &RowEvaluation) -> String {
    let mut text = format!(
        "PRIVATE: {}\n\n\
         Model               {}\n\
         Dataset             {} ({} units, {} rows)\n\
         Predicted column    {}\n",
        result.private, result.model, result.dataset, result.units, result.rows, result.target,
    );
    let figures = [
        ("Accuracy            ", result.accuracy.map(|accuracy| format_share(Some(accuracy)))),
        ("Root mean square    ", result.rmse.map(|error| error.to_string())),
        ("Mean absolute error ", result.mean_absolute_error.map(|error| error.to_string())),
    ];
    for (name, figure) in figures {
        text.extend(figure.map(|figure| format!("{name}{figure}\n")));
    }
    let mut values: Vec<_> = result.values.iter().collect();
    values.sort_by_key(|value| std::cmp::Reverse(value.rows));
    let share = |part: u64, of: u64| format_share((of > 0).then(|| part as f64 / of as f64));
    let rows: Vec<Vec<String>> = values
        .iter()
        .take(ROWS)
        .map(|value| {
            let (accuracy, precision) = (share(value.correct, value.rows), share(value.correct, value.predicted));
            vec![value.value.clone(), value.rows.to_string(), accuracy, precision]
        })
        .collect();
    if !rows.is_empty() {
        text = format!("{text}\n{}", format_table(&["VALUE", "ROWS", "ACCURACY", "PRECISION"], &rows));
    }
    text
}

/// Formats the result as text: the figures, then the classes, confusions and groups of confidence with the most frames.
fn format_result(result: &LocalEvaluation) -> String {
    let mut classes: Vec<_> = result.classes.iter().collect();
    classes.sort_by_key(|class| std::cmp::Reverse(class.frames));
    let class_rows: Vec<Vec<String>> = classes
        .iter()
        .take(ROWS)
        .map(|class| {
            vec![
                class.class.to_string(),
                class.frames.to_string(),
                format_share(class.accuracy()),
                format_share(class.precision()),
            ]
        })
        .collect();
    let confusions: Vec<Vec<String>> = result
        .confusions
        .iter()
        .take(ROWS)
        .map(|one| vec![one.label.to_string(), one.predicted.to_string(), one.frames.to_string()])
        .collect();
    let groups: Vec<Vec<String>> = result
        .calibration
        .iter()
        .filter(|group| group.frames > 0)
        .map(|group| {
            vec![
                format!("{:.1} to {:.1}", group.from, group.to),
                group.frames.to_string(),
                format_share(Some(group.confidence)),
                format_share(Some(group.accuracy)),
            ]
        })
        .collect();
    format!(
        "PRIVATE: {}\n\n\
         Model              {}\n\
         Dataset            {} ({} utterances, {} frames)\n\
         Accuracy           {}\n\
         Calibration error  {}\n\n\
         {}\n{}\n{}",
        result.private,
        result.model,
        result.dataset,
        result.utterances,
        result.frames,
        format_share(Some(result.accuracy)),
        format_share(Some(result.calibration_error)),
        format_table(&["CLASS", "FRAMES", "ACCURACY", "PRECISION"], &class_rows),
        format_table(&["CLASS", "TAKEN FOR", "FRAMES"], &confusions),
        format_table(&["CONFIDENCE", "FRAMES", "MEAN", "ACCURACY"], &groups),
    )
}

#[cfg(test)]
pub(super) mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use clap::Parser;
    use undertone_worker_encoder::fixtures::linear;

    use crate::cli::{CommandLine, format_error, run_command};
    use crate::run::evaluation::local::PRIVATE;
    use crate::run::evaluation::tests::rows::write_table;
    use crate::run::evaluation::tests::{model_file, write_dataset};
    use crate::site::folder::Folder;

    /// Runs a command at the site in a folder.
    pub(in super::super) fn run_at(dir: &std::path::Path, more: &[&str]) -> Result<String, String> {
        let site = dir.join("site").display().to_string();
        let arguments = ["undertone-worker", "--site", &site].into_iter().chain(more.iter().copied());
        let mut out = Vec::new();
        run_command(&CommandLine::try_parse_from(arguments).unwrap(), &mut out)
            .map_err(|failure| format_error(&*failure.error))?;
        Ok(String::from_utf8(out).unwrap())
    }

    fn run(dir: &std::path::Path, more: &[&str]) -> Result<String, String> {
        run_at(dir, &[&["evaluate"], more].concat())
    }

    /// Returns a folder with a site that has the dataset `ward`, and the file `model` beside it.
    pub(in super::super) fn site() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path().join("site"));
        std::fs::create_dir_all(folder.datasets()).unwrap();
        write_dataset(&folder.datasets().join("ward"), 1);
        std::fs::write(dir.path().join("model"), model_file(4)).unwrap();
        dir
    }

    #[test]
    fn result_is_marked_private_as_text_and_json() {
        let dir = site();
        let model = dir.path().join("model").display().to_string();
        let text = run(dir.path(), &[&model, "--dataset", "ward"]).unwrap();
        assert!(text.starts_with(&format!("PRIVATE: {PRIVATE}")) && text.contains("TAKEN FOR"), "{text}");
        let json: serde_json::Value =
            serde_json::from_str(&run(dir.path(), &[&model, "--dataset", "ward", "--json"]).unwrap()).unwrap();
        assert_eq!(json["private"], PRIVATE);
        assert_eq!(json["utterances"], 4, "the test split");
        let correct: u64 = json["classes"].as_array().unwrap().iter().map(|c| c["correct"].as_u64().unwrap()).sum();
        let share = correct as f64 / json["frames"].as_f64().unwrap();
        assert!((json["accuracy"].as_f64().unwrap() - share).abs() < 1e-12);
    }

    #[test]
    fn unusable_input_has_a_specific_error() {
        let dir = site();
        let path = |name: &str| dir.path().join(name).display().to_string();
        let model = path("model");
        assert!(run(dir.path(), &[&model, "--dataset", "unknown"]).unwrap_err().contains("no dataset `unknown`"));
        assert!(run(dir.path(), &[&path("absent"), "--dataset", "ward"]).unwrap_err().contains("cannot read"));
        std::fs::write(path("narrow"), model_file(2)).unwrap();
        assert!(
            run(dir.path(), &[&path("narrow"), "--dataset", "ward"]).unwrap_err().contains("4 classes, the model 2")
        );
        std::fs::create_dir_all(dir.path().join("site/data/empty")).unwrap();
        assert!(run(dir.path(), &[&model, "--dataset", "empty"]).unwrap_err().contains("no labels"));
    }

    #[test]
    fn graph_of_rows_is_measured_by_the_documented_columns() {
        let page = include_str!("../../../docs/src/explanation/evaluation.md");
        let columns = page.split("```json").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        let dir = site();
        let path = |name: &str| dir.path().join(name).display().to_string();
        write_table(&dir.path().join("site/data/visits"), 1);
        std::fs::write(path("graph.onnx"), linear(1, 2, &[0.0, 10.0]).into_bytes()).unwrap();
        std::fs::write(path("columns.json"), columns).unwrap();
        std::fs::write(path("damaged.json"), "{}").unwrap();
        let run_on = |model: &str, dataset: &str, more: &[&str]| {
            run(dir.path(), &[&[&*path(model), "--dataset", dataset], more].concat())
        };
        let text = run_on("graph.onnx", "visits", &["--columns", &path("columns.json")]).unwrap();
        assert!(text.contains("Predicted column    returns") && text.contains("90.00 %"), "{text}");
        assert!(
            run_on("graph.onnx", "visits", &[]).unwrap_err().contains("name them in `columns` of the spec or with")
        );
        let damaged = run_on("graph.onnx", "visits", &["--columns", &path("damaged.json")]).unwrap_err();
        assert!(damaged.contains("--columns has no columns as JSON"), "{damaged}");
        let speech = run_on("model", "ward", &["--columns", &path("columns.json")]).unwrap_err();
        assert!(speech.contains("the model reads speech"), "{speech}");
    }
}
