//! Whole runs on the tables of three sites.

use undertone_api::job::dp_sgd::{AcousticModel, Arm, Report, RowColumns, Spec, TextEmbedding, TrainingLoss};

use super::report;
use super::training::TestTraining;
use crate::run::RunError;
use crate::run::evaluation::rows::RowModel;
use crate::run::fake::CrashPoint;
use crate::tables::source::SourceOptions;

/// Returns the accuracy and the loss of an arm on the lead's table.
fn figures(report: &Report, arm: Arm) -> (f64, f64) {
    let result = report.arms.iter().find(|result| result.arm == arm).unwrap();
    (result.tests[0].accuracy, result.tests[0].loss)
}

fn rows(spec: &mut Spec) -> &mut RowColumns {
    spec.model.rows.as_mut().unwrap()
}

#[test]
fn sites_learn_from_rows_and_use_the_model() {
    let job = TestTraining::with_tables(|spec| spec.warm_start.epochs = 0);
    job.crash(1, CrashPoint::Stored, "private", 3);
    job.run_all();
    let report = report(&job);
    let ((_, before), (after, loss)) = (figures(&report, Arm::Public), figures(&report, Arm::Private));
    assert!(after > 0.8 && loss < before, "{after}; {before} to {loss}");
    assert!(report.arms[1].tests[0].macro_f1.is_some_and(|f1| f1 > 0.75));
    assert_eq!(report.parameters, 6 * 2, "five inputs and a bias for each of two classes");
    assert_eq!((job.payments(0), job.payments(1), job.payments(2)), (0, 40, 40));
    let lead = job.parameters(0, "private");
    assert!(job.parameters(1, "private") == lead && job.parameters(2, "private") == lead);
    let path = job.data_folder(0).with_file_name("model.safetensors");
    std::fs::write(&path, job.file("model.safetensors")).unwrap();
    let mut model = RowModel::read(&path).unwrap().expect("a model of rows");
    let result = model.evaluate(&job.data_folder(0), "data-0").unwrap();
    assert!((result.accuracy.unwrap() - after).abs() < 1e-12, "{result:?}");
    let counted: u64 = result.values.iter().map(|value| value.rows).sum();
    assert_eq!((counted, result.rows as u64), (report.arms[0].tests[0].frames, report.arms[0].tests[0].frames));
    assert!(model.evaluate(&job.data_folder(1), "data-1").unwrap().accuracy.unwrap() > 0.75);
}

#[test]
fn perceptron_learns_classes_and_numbers() {
    let perceptron = |spec: &mut Spec| {
        let rows = spec.model.rows.take().unwrap();
        spec.model = AcousticModel { classes: spec.model.classes, ..AcousticModel::from_rows(*rows, 2, 8) };
    };
    let classes = TestTraining::with_tables(perceptron);
    classes.run_all();
    assert!(figures(&report(&classes), Arm::Private).0 > 0.75);
    let numbers = TestTraining::with_tables(|spec| {
        rows(spec).target = super::training::columns()[4].clone();
        (spec.model.loss, spec.model.classes) = (TrainingLoss::SquaredError, Some(1));
        spec.warm_start.epochs = 0;
    });
    numbers.run_all();
    let report = report(&numbers);
    let ((_, before), (_, after)) = (figures(&report, Arm::Public), figures(&report, Arm::Private));
    assert!(after < 0.5 * before && report.arms[1].tests[0].macro_f1.is_none(), "{before} to {after}");
    let path = numbers.data_folder(0).with_file_name("model.safetensors");
    std::fs::write(&path, numbers.file("model.safetensors")).unwrap();
    let result = RowModel::read(&path).unwrap().unwrap().evaluate(&numbers.data_folder(0), "data-0").unwrap();
    // The range of the target is 1,000, and that of the loss 2.
    assert!((result.rmse.unwrap() - 500.0 * after.sqrt()).abs() < 1.0, "{result:?}");
}

#[test]
fn sites_learn_from_texts_and_predict_for_new_ones() {
    let job = TestTraining::with_tables(|spec| {
        let rows = rows(spec);
        rows.features = vec![super::training::columns()[5].clone()];
        rows.text = Some(TextEmbedding { buckets: 32, width: 4 });
        spec.warm_start.epochs = 0;
    });
    job.run_all();
    let report = report(&job);
    let (before, after) = (figures(&report, Arm::Public), figures(&report, Arm::Private));
    assert!(after.0 > 0.9 && after.1 < before.1, "{before:?} to {after:?}");
    assert_eq!(report.parameters, 32 * 4 + 5 * 2, "a table of vectors, and a weight for each number and a bias");
    assert!(job.parameters(1, "private") == job.parameters(0, "private"));
    let path = job.data_folder(0).with_file_name("model.safetensors");
    std::fs::write(&path, job.file("model.safetensors")).unwrap();
    let mut model = RowModel::read(&path).unwrap().expect("a model of rows");
    assert!(model.evaluate(&job.data_folder(1), "data-1").unwrap().accuracy.unwrap() > 0.9);
    let input = path.with_file_name("new.csv");
    std::fs::write(&input, "note\nSEVERE  pain again\nPain IS gone\n").unwrap();
    let mut out = Vec::new();
    let sources = SourceOptions::Files { paths: vec![input], format: None };
    assert_eq!(model.predict(&sources, &mut out).unwrap().predicted, 2);
    let out = String::from_utf8(out).unwrap();
    let predictions: Vec<&str> = out.lines().skip(1).filter_map(|line| line.split(',').nth(1)).collect();
    assert_eq!(predictions, ["true", "false"], "{out}");
    assert!(undertone_onnx::convert(&job.file("model.safetensors")).is_err());
}

#[test]
fn table_that_does_not_fit_is_refused_before_any_release() {
    let other = TestTraining::with_tables(|spec| {
        rows(spec).features[0].kind = undertone_api::table::ColumnKind::Integer { least: 0, most: 99 };
    });
    let end = other.run_process(1).unwrap_err();
    assert!(matches!(&end, RunError::Failed(_)) && end.to_string().contains("`age`"), "{end}");
    let speakers = TestTraining::with_tables(|spec| spec.unit = undertone_privacy::PrivacyUnit::Speaker);
    assert!(speakers.run_process(1).unwrap_err().to_string().contains("`unit` `user`"));
    assert_eq!((other.submissions(1), speakers.submissions(1)), (0, 0));
}

#[test]
fn selection_scores_runs_on_rows_set_aside() {
    let selection = r#"{"shape":0,"stopping":0.5,"most_runs":2,"development":10,
        "candidates":[{"learning_rate":0.02},{"learning_rate":0.05}]}"#;
    let job = TestTraining::with_tables(|spec| {
        spec.selection = Some(serde_json::from_str(selection).unwrap());
        let private = spec.private.as_mut().unwrap();
        (private.rounds, private.local_steps) = (4, 2);
    });
    job.run_all();
    assert_eq!(report(&job).arms.len(), 2);
    assert!(job.parameters(1, "private") == job.parameters(0, "private"));
}
