//! ONNX graphs of rows: the same figures as the model of the same weights, and the refusals.

use undertone_api::job::dp_sgd::{AcousticModel, RowColumns};
use undertone_api::job::evaluation::{Report, Spec};
use undertone_api::table::{ColumnKind, TableColumn};
use undertone_onnx::COLUMNS_PROPERTY;
use undertone_worker_encoder::fixtures::{FREE, linear};

use super::super::evaluated::EvaluatedModel;
use super::super::local::evaluate;
use super::super::model_file::read_any_model;
use super::super::rows::{RowEvaluation, RowModel};
use super::rows::{columns, of_users, write_table};
use super::{TestEvaluation, write_dataset};
use crate::run::evaluation::EvaluationError;
use crate::speech::model::gradient::{Engine, Example};
use crate::speech::model::{Model, ModelShape, ModelUsage, Normalizer};

fn column(name: &str, kind: ColumnKind) -> TableColumn {
    TableColumn { name: name.to_owned(), kind }
}

/// Returns an untrained model of rows with some hidden layers.
fn initialize_model(columns: &RowColumns, layers: u32) -> Model {
    let (inputs, outputs) = (columns.inputs() as usize, columns.outputs() as usize);
    let spec = AcousticModel { normalize: layers > 0, ..AcousticModel::from_rows(columns.clone(), layers, 6) };
    let plain = Normalizer { mean: vec![0.0; inputs], deviation: vec![1.0; inputs] };
    let mut model = Model::initialize(ModelShape::from_spec(&spec, inputs, outputs), plain, 3);
    model.set_usage(ModelUsage { rows: Some(Box::new(columns.clone())), ..ModelUsage::default() });
    model
}

/// Returns the file of a linear model with these weights, `[inputs, outputs]`.
fn linear_file(columns: &RowColumns, weights: &[f32]) -> Vec<u8> {
    let mut model = initialize_model(columns, 0);
    model.parameters_mut().fill(0.0);
    model.parameters_mut()[..weights.len()].copy_from_slice(weights);
    model.to_safetensors().unwrap()
}

/// Names the columns of the table in the spec.
fn name_columns(spec: &mut Spec) {
    spec.columns = Some(Box::new(columns(ColumnKind::Boolean)));
}

/// Runs a job on the users of tables.
fn run_job(file: &[u8], change: fn(&mut Spec)) -> Report {
    let job = TestEvaluation::with_data(write_table, file, |spec| {
        of_users(spec);
        change(spec);
    });
    job.run_all();
    job.report()
}

fn score(model: &EvaluatedModel, features: &[f32]) -> Vec<f32> {
    let labels = vec![0; features.len() / model.inputs()];
    let mut all = Vec::new();
    let example = [Example { features, labels: &labels }];
    model.classify(&mut Engine::new(), &example, &mut |_, scores| all.extend_from_slice(scores));
    all
}

#[test]
fn graph_of_rows_has_the_scores_of_its_model() {
    let values = ["a", "b", "c"].map(str::to_owned).to_vec();
    let real = ColumnKind::Real { least: 0.0, most: 9.0, step: 0.5 };
    let features = vec![
        column("age", ColumnKind::Integer { least: 0, most: 100 }),
        column("ward", ColumnKind::Category { values: values.clone() }),
        column("smokes", ColumnKind::Boolean),
    ];
    let numbers: Vec<f32> = (0..5 * 40).map(|i| (i % 11) as f32 / 5.5 - 1.0).collect();
    for target in [ColumnKind::Category { values }, real] {
        let columns =
            RowColumns { target: column("result", target), features: features.clone(), rows_per_unit: 3, text: None };
        for layers in [0, 2] {
            let file = initialize_model(&columns, layers).to_safetensors().unwrap();
            let graph = undertone_onnx::convert(&file).unwrap();
            let [own, graph] = [file, graph].map(|file| EvaluatedModel::read(&file, None, read_any_model).unwrap());
            assert_eq!((graph.inputs(), graph.classes()), (own.inputs(), own.classes()));
            assert!(graph.columns() == Some(&columns) && own.columns() == Some(&columns));
            let (expected, scores) = (score(&own, &numbers), score(&graph, &numbers));
            assert_eq!(scores.len(), 40 * columns.outputs() as usize);
            for (one, other) in expected.iter().zip(&scores) {
                assert!((one - other).abs() < 1e-4, "{one} {other}");
            }
        }
    }
}

#[test]
fn job_measures_a_graph_of_rows_as_its_model() {
    let weights = [0.0, 10.0];
    let own = linear_file(&columns(ColumnKind::Boolean), &weights);
    let exported = undertone_onnx::convert(&own).unwrap();
    let foreign = linear(1, 2, &weights).into_bytes();
    let expected = run_job(&own, |_| ());
    for report in [run_job(&exported, |_| ()), run_job(&exported, name_columns), run_job(&foreign, name_columns)] {
        assert_eq!((report.sites, report.classes.len()), (2, 2));
        for (one, other) in expected.classes.iter().zip(&report.classes) {
            let positives = one.positives.iter().zip(&other.positives);
            for (one, other) in positives.chain(one.negatives.iter().zip(&other.negatives)) {
                assert!((one - other).abs() < 0.5, "{one} {other}");
            }
        }
        let [one, other] = [&expected, &report].map(|report| report.accuracy.unwrap().value);
        assert!((one - other).abs() < 0.02 && (other - 0.9).abs() < 0.02, "{one} {other}");
    }
}

#[test]
fn command_measures_a_graph_of_rows_as_its_model() {
    let folder = tempfile::tempdir().unwrap();
    let (path, table) = (folder.path().join("model"), folder.path().join("rows"));
    write_table(&table, 1);
    let measure = |file: &[u8], named: Option<&RowColumns>| {
        std::fs::write(&path, file).unwrap();
        let mut model = RowModel::read_evaluated(&path, named).unwrap().unwrap();
        RowEvaluation { model: String::new(), ..model.evaluate(&table, "rows").unwrap() }
    };
    let classes = columns(ColumnKind::Boolean);
    let number =
        RowColumns { target: classes.features[0].clone(), features: vec![classes.target.clone()], ..classes.clone() };
    for (columns, outputs, weights) in [(classes, 2, vec![0.0, 10.0]), (number, 1, vec![0.5])] {
        let own = linear_file(&columns, &weights);
        let expected = measure(&own, None);
        assert!(expected.rows == 120 && (expected.accuracy.is_some() || expected.rmse.is_some()), "{expected:?}");
        assert_eq!(measure(&undertone_onnx::convert(&own).unwrap(), None), expected);
        assert_eq!(measure(&linear(1, outputs, &weights).into_bytes(), Some(&columns)), expected);
    }
    let refused = RowModel::read(&path).err().unwrap();
    assert!(matches!(refused, EvaluationError::Graph), "no predictions by a graph: {refused}");
}

#[test]
fn row_that_a_graph_cannot_score_has_equal_scores() {
    let mut graph = linear(1, 2, &[1.0, 2.0]).node("Log", &["features"], "logarithms");
    graph.0.output.clear();
    let file = graph.output("logarithms", &[FREE, 2]).into_bytes();
    let model = EvaluatedModel::read(&file, Some(&columns(ColumnKind::Boolean)), read_any_model).unwrap();
    let scores = score(&model, &[-0.5, 0.5, 0.0]);
    assert_eq!(scores.len(), 6);
    for (score, expected) in scores.iter().zip([0.0, 0.0, 0.5_f32.ln(), 0.0, 0.0, 0.0]) {
        assert!((score - expected).abs() < 1e-6, "{scores:?}");
    }
    // Half of the users have a negative input.
    let report = run_job(&file, name_columns);
    for class in &report.classes {
        let users: f64 = class.positives.iter().chain(&class.negatives).sum();
        assert!((users - 80.0).abs() < 1.0, "each user counts: {users}");
    }
}

#[test]
fn graph_that_does_not_fit_its_columns_is_refused() {
    let refuse = |file: &[u8], named: Option<&RowColumns>| {
        EvaluatedModel::read(file, named, read_any_model).err().unwrap().to_string()
    };
    let own = columns(ColumnKind::Boolean);
    let unnamed = refuse(&linear(1, 2, &[0.0; 2]).into_bytes(), None);
    assert!(unnamed.contains("nothing names their columns") && unnamed.contains("--columns"), "{unnamed}");
    let outputs = refuse(&linear(1, 3, &[0.0; 3]).into_bytes(), Some(&own));
    assert!(outputs.contains("gives 3 scores for a row, and the target `returns` needs 2"), "{outputs}");
    let inputs = refuse(&linear(2, 2, &[0.0; 4]).into_bytes(), Some(&own));
    assert!(inputs.contains("`numbers` has 2 numbers for a row, and the columns give 1"), "{inputs}");
    let mut two = linear(1, 2, &[0.0; 2]);
    let mut more = two.0.input[0].clone();
    more.name = Some("more".to_owned());
    two.0.input.push(more);
    let two = refuse(&two.into_bytes(), Some(&own));
    assert!(two.contains("it has 2 inputs, and a classifier of rows has one"), "{two}");
    let stored = |text: &str| linear(1, 2, &[0.0; 2]).into_bytes_with(&[(COLUMNS_PROPERTY, text)]);
    let format = refuse(&stored("{}"), None);
    assert!(format.contains("undertone.columns has no columns as JSON") && format.contains("target"), "{format}");
    let without = serde_json::to_string(&RowColumns { rows_per_unit: 0, ..own }).unwrap();
    let limit = refuse(&stored(&without), None);
    assert!(limit.contains("columns.rows_per_unit: from 1 to 1000, not 0"), "{limit}");
}

#[test]
fn other_columns_than_those_of_the_file_are_refused() {
    let refuse = |file: &[u8], named: &RowColumns| {
        EvaluatedModel::read(file, Some(named), read_any_model).err().unwrap().to_string()
    };
    let own = columns(ColumnKind::Boolean);
    let other = RowColumns { rows_per_unit: 7, ..own.clone() };
    let file = linear_file(&own, &[0.0, 10.0]);
    for file in [undertone_onnx::convert(&file).unwrap(), file] {
        let names = refuse(&file, &other);
        assert!(names.contains("the model's file names its columns"), "{names}");
    }
    let speech = refuse(&super::model_file(4), &own);
    assert!(speech.contains("the model reads speech, which has no columns"), "{speech}");
    let text = ColumnKind::Text { most_grams: 4, characters: false };
    let texts = RowColumns { features: vec![column("note", text)], ..own };
    let texts = refuse(&linear(1, 2, &[0.0; 2]).into_bytes(), &texts);
    assert!(texts.contains("columns.features.0") && texts.contains("computes the hashes"), "{texts}");
}

#[test]
fn table_without_the_columns_of_a_graph_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    write_table(&path("rows"), 1);
    write_dataset(&path("speech"), 1);
    std::fs::write(path("model"), linear(1, 2, &[0.0, 10.0]).into_bytes()).unwrap();
    let refuse = |data: &str, change: fn(&mut TableColumn)| {
        let mut own = columns(ColumnKind::Boolean);
        change(&mut own.features[0]);
        let mut model = RowModel::read_evaluated(&path("model"), Some(&own)).unwrap().unwrap();
        model.evaluate(&path(data), data).unwrap_err().to_string()
    };
    let unknown = refuse("rows", |column| column.name = "weight".to_owned());
    assert!(unknown.contains("has no column `weight`"), "{unknown}");
    let other = refuse("rows", |column| column.kind = ColumnKind::Integer { least: 0, most: 99 });
    assert!(other.contains("declares column `age` with another kind or range"), "{other}");
    let speech = refuse("speech", |_| ());
    assert!(speech.contains("`speech` is no table"), "{speech}");
    // A graph of `[batch, rows, inputs]` without columns could be one of speech.
    let mut model = initialize_model(&columns(ColumnKind::Boolean), 0);
    model.set_usage(ModelUsage::default());
    std::fs::write(path("model"), undertone_onnx::convert(&model.to_safetensors().unwrap()).unwrap()).unwrap();
    let unnamed = evaluate(&path("model"), &path("rows"), "rows").unwrap_err();
    assert!(matches!(unnamed, EvaluationError::UnnamedColumns), "{unnamed}");
}

#[test]
fn job_on_a_graph_of_rows_is_refused_before_a_release() {
    let graph = linear(1, 2, &[0.0, 10.0]).into_bytes();
    let job = TestEvaluation::with_data(write_table, &graph, |spec| {
        of_users(spec);
        name_columns(spec);
        spec.columns.as_mut().unwrap().features[0].kind = ColumnKind::Integer { least: 0, most: 99 };
    });
    job.server.state().files.insert("model.safetensors".to_owned(), graph.clone());
    let end = job.run_process(1).unwrap_err().to_string();
    assert!(end.contains("declares column `age`"), "{end}");
    assert_eq!((job.payments(1), job.server.state().vectors.len()), (0, 0));

    let unnamed = TestEvaluation::with_data(write_table, &graph, of_users);
    let end = unnamed.run_process(0).unwrap_err().to_string();
    assert!(end.contains("nothing names their columns"), "{end}");

    let classes = columns(ColumnKind::Boolean);
    let number = RowColumns { target: classes.features[0].clone(), features: vec![classes.target.clone()], ..classes };
    let number = undertone_onnx::convert(&linear_file(&number, &[0.5])).unwrap();
    let job = TestEvaluation::with_data(write_table, &number, of_users);
    let end = job.run_process(0).unwrap_err().to_string();
    assert!(end.contains("the number `age`, which has no classes"), "{end}");
}
