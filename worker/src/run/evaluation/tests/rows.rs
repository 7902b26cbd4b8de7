//! Models of rows on tables: each unit counts once, with its first rows, and the classes are the target's values.

use std::fmt::Write as _;
use std::path::Path;

use undertone_api::job::dp_sgd::{AcousticModel, RowColumns};
use undertone_api::table::{ColumnKind, TableColumn, TableSchema};
use undertone_privacy::PrivacyUnit;

use super::{Spec, TestEvaluation, write_dataset};
use crate::speech::model::{Model, ModelShape, ModelUsage, Normalizer};
use crate::speech::progress::SilentProgress;
use crate::tables::add::{AddOptions, add};
use crate::tables::source::SourceOptions;

/// Patients of a site.
const PATIENTS: u32 = 40;

pub(super) fn columns(target: ColumnKind) -> RowColumns {
    let column = |name: &str, kind| TableColumn { name: name.to_owned(), kind };
    RowColumns {
        target: column("returns", target),
        features: vec![column("age", ColumnKind::Integer { least: 0, most: 100 })],
        rows_per_unit: 2,
        text: None,
    }
}

/// Returns the file of a linear model: of two classes the second if and only if the age is above 50.
fn model_file(target: ColumnKind) -> Vec<u8> {
    let columns = columns(target);
    let outputs = columns.outputs() as usize;
    let spec = AcousticModel::from_rows(columns.clone(), 0, 0);
    let plain = Normalizer { mean: vec![0.0], deviation: vec![1.0] };
    let mut model = Model::initialize(ModelShape::from_spec(&spec, 1, outputs), plain, 1);
    model.parameters_mut().fill(0.0);
    model.parameters_mut()[outputs - 1] = 10.0;
    model.set_usage(ModelUsage { rows: Some(Box::new(columns)), ..ModelUsage::default() });
    model.to_safetensors().unwrap()
}

/// Writes a table of patients with three rows each. The label is the model's, but for the patients of every tenth number.
pub(crate) fn write_table(target: &Path, seed: u64) {
    let mut text = "patient,age,returns\n".to_owned();
    for row in 0..3 * PATIENTS {
        let patient = row % PATIENTS;
        let age = if patient.is_multiple_of(2) { 90 } else { 10 };
        let returns = (age > 50) != patient.is_multiple_of(10);
        writeln!(text, "{seed}-{patient},{age},{returns}").unwrap();
    }
    let folder = target.parent().unwrap();
    let path = folder.join(format!("rows-{seed}.csv"));
    std::fs::write(&path, text).unwrap();
    let RowColumns { target: label, features, .. } = columns(ColumnKind::Boolean);
    let options = AddOptions {
        sources: SourceOptions::Files { paths: vec![path], format: None },
        schema: TableSchema {
            unit_column: "patient".to_owned(),
            columns: vec![features[0].clone(), label],
            encoder: None,
        },
        zone: None,
        output: target.to_owned(),
        name: target.file_name().unwrap().to_string_lossy().into_owned(),
        replace: false,
        created: String::new(),
        fresh_key: [7; 32],
    };
    add(&options, None, &SilentProgress).unwrap();
}

pub(super) fn of_users(spec: &mut Spec) {
    spec.unit = PrivacyUnit::User;
    spec.classes = vec![0, 1];
}

#[test]
fn users_of_tables_count_once_each() {
    let job = TestEvaluation::with_data(write_table, &model_file(ColumnKind::Boolean), of_users);
    job.run_all();
    let report = job.report();
    assert_eq!((report.sites, report.classes.len()), (2, 2));
    let users = 2.0 * f64::from(PATIENTS);
    for class in &report.classes {
        let units: f64 = class.positives.iter().chain(&class.negatives).sum();
        assert!((units - users).abs() < 1.0, "each user has the weight 1: {units}");
    }
    let accuracy = report.accuracy.unwrap();
    assert!((accuracy.value - 0.9).abs() < 0.02, "{accuracy:?}");
    assert_eq!([job.payments(0), job.payments(1), job.payments(2)], [0, 1, 1], "one release of each site");
}

#[test]
fn model_of_a_number_and_data_of_other_content_are_refused_before_a_release() {
    let number = ColumnKind::Real { least: 0.0, most: 1.0, step: 0.5 };
    let job = TestEvaluation::with_data(write_table, &model_file(number), of_users);
    let end = job.run_process(0).unwrap_err().to_string();
    assert!(end.contains("the number `returns`, which has no classes"), "{end}");

    let file = model_file(ColumnKind::Boolean);
    let job = TestEvaluation::with_data(write_dataset, &file, of_users);
    job.server.state().files.insert("model.safetensors".to_owned(), file);
    let end = job.run_process(1).unwrap_err().to_string();
    assert!(end.contains("`data-1` is no table"), "{end}");
    assert_eq!((job.payments(1), job.server.state().vectors.len()), (0, 0));
}
