//! Models of rows: linear and with dense layers, for classes and for numbers.

use undertone_api::job::dp_sgd::{AcousticModel, ModelPart, RowColumns, TARGET_LEVELS, TextEmbedding, level_value};
use undertone_api::table::{ColumnKind, TableColumn};

use super::{
    Criterion, Engine, Model, ModelShape, Rule, TestUtterance, Unit, check_independence, check_slope, model,
    per_unit_with,
};
use crate::model::{ModelUsage, Normalizer};
use crate::optimizer::{Optimizer, StepDirection};

/// Returns the columns of a model of rows: one number, and a target of two classes.
pub(crate) fn rows() -> RowColumns {
    let column = |name: &str, kind| TableColumn { name: name.to_owned(), kind };
    RowColumns {
        target: column("risk", ColumnKind::Boolean),
        features: vec![column("age", ColumnKind::Integer { least: 0, most: 100 })],
        rows_per_unit: 5,
        text: None,
    }
}

/// Returns columns with two texts beside the number.
pub(crate) fn text_rows() -> RowColumns {
    let text = |name: &str, most_grams| TableColumn {
        name: name.to_owned(),
        kind: ColumnKind::Text { most_grams, characters: true },
    };
    let mut rows = rows();
    rows.features.extend([text("note", 3), text("reason", 2)]);
    RowColumns { text: Some(TextEmbedding { buckets: 7, width: 4 }), ..rows }
}

/// Returns models with texts: a linear one, and one with two hidden layers and layer norm.
fn text_shapes(classes: usize) -> Vec<ModelShape> {
    let model = |layers| AcousticModel::from_rows(text_rows(), layers, 6);
    let deep = AcousticModel { normalize: true, ..model(2) };
    [model(0), deep].iter().map(|model| ModelShape::from_spec(model, 7, classes)).collect()
}

/// Returns a linear model, one with a hidden layer, and one with two and layer norm.
fn shapes(classes: usize) -> Vec<ModelShape> {
    let model = |layers| AcousticModel::from_rows(rows(), layers, 6);
    let deep = AcousticModel { normalize: true, ..model(2) };
    [model(0), model(1), deep].iter().map(|model| ModelShape::from_spec(model, 3, classes)).collect()
}

#[test]
fn gradient_of_rows_is_the_slope_of_the_loss() {
    check_slope(Criterion::CrossEntropy, [shapes(4), text_shapes(4)].concat());
    check_slope(Criterion::SquaredError, [shapes(1), text_shapes(1)].concat());
}

#[test]
fn unit_gradient_of_rows_does_not_depend_on_other_units() {
    check_independence(Criterion::CrossEntropy, [shapes(4), text_shapes(4)].concat());
    check_independence(Criterion::SquaredError, [shapes(1), text_shapes(1)].concat());
}

/// The gradient of the mean loss over the rows of a unit, written out: (softmax - label) ⊗ (x, 1), and 2 (ŷ - y) (x, 1).
#[test]
fn linear_gradient_is_that_of_the_formula() {
    let (features, labels) = ([0.5_f32, -1.0, 0.25, 1.0, 0.0, -0.5], [1_u16, 0]);
    let utterance = |labels: [u16; 2]| TestUtterance { features: features.to_vec(), labels: labels.to_vec() };
    let plain = Normalizer { mean: vec![0.0; 3], deviation: vec![1.0; 3] };
    for (criterion, classes, labels) in
        [(Criterion::CrossEntropy, 2, labels), (Criterion::SquaredError, 1, [TARGET_LEVELS, 9000])]
    {
        let model = Model::initialize(shapes(classes)[0], plain.clone(), 3);
        let row = utterance(labels);
        let unit: Unit<'_> = vec![row.example()];
        let own = per_unit_with(criterion, &model, std::slice::from_ref(&unit)).remove(0);
        let mut expected = vec![0.0_f64; 4 * classes];
        for (values, label) in features.chunks(3).zip(labels) {
            let extended: Vec<f64> = values.iter().map(|value| f64::from(*value)).chain([1.0]).collect();
            let weight = |input: usize, class: usize| f64::from(model.parameters()[input * classes + class]);
            let logit = |class: usize| (0..4).map(|input| extended[input] * weight(input, class)).sum::<f64>();
            let sum: f64 = (0..classes).map(|class| logit(class).exp()).sum();
            for class in 0..classes {
                let error = match criterion {
                    Criterion::SquaredError => 2.0 * (logit(0) - f64::from(level_value(label))),
                    _ => logit(class).exp() / sum - f64::from(u8::from(usize::from(label) == class)),
                };
                for input in 0..4 {
                    expected[input * classes + class] += error * extended[input] / 2.0;
                }
            }
        }
        for (own, expected) in own.iter().zip(&expected) {
            assert!((f64::from(*own) - expected).abs() < 2e-4, "{criterion:?}: {own} {expected}");
        }
    }
}

#[test]
fn model_of_rows_learns_a_number() {
    // y = 0.4 a - 0.3 b c, which no linear model has.
    let value = |n: usize, by: usize| (n * by % 101) as f32 / 50.0 - 1.0;
    let row = |n: usize| [value(n, 17), value(n, 29), value(n, 53)];
    let target = |[a, b, c]: [f32; 3]| 0.4 * a - 0.3 * b * c;
    let level = |y: f32| (f32::midpoint(y, 1.0) * f32::from(TARGET_LEVELS)).round() as u16;
    let rows: Vec<TestUtterance> =
        (0..400).map(|n| TestUtterance { features: row(n).to_vec(), labels: vec![level(target(row(n)))] }).collect();
    let examples: Vec<_> = rows.iter().map(TestUtterance::example).collect();
    let spec = AcousticModel::from_rows(self::rows(), 1, 12);
    let mut model = model(ModelShape::from_spec(&spec, 3, 1));
    let mut engine = Engine::with_criterion(Criterion::SquaredError);
    let before = engine.score(&model, &examples);
    let mut optimizer = Optimizer::new(Rule::Adam { learning_rate: 0.02 }, model.parameters().len());
    for _ in 0..250 {
        let mut gradient = vec![0.0; model.parameters().len()];
        engine.add_gradient(&model, &examples, 1.0 / 400.0, &mut gradient);
        optimizer.step(model.parameters_mut(), StepDirection::exact(&gradient), 1.0);
    }
    let after = engine.score(&model, &examples);
    assert!(after.mean_loss() < 0.02 * before.mean_loss(), "{} to {}", before.mean_loss(), after.mean_loss());
    assert!(after.accuracy() > 0.9, "{} are within a twentieth of the range", after.accuracy());
}

#[test]
fn text_model_learns_the_words_of_a_class() {
    // A row of class n has the n-gram n, and others that say nothing.
    let row = |n: usize| vec![0.0, (n % 3) as f32, 3.0 + (n * 7 % 2) as f32, -1.0, 5.0, 6.0, -1.0];
    let rows: Vec<TestUtterance> =
        (0..60).map(|n| TestUtterance { features: row(n), labels: vec![(n % 3) as u16] }).collect();
    let examples: Vec<_> = rows.iter().map(TestUtterance::example).collect();
    let plain = Normalizer { mean: vec![0.0; 7], deviation: vec![1.0; 7] };
    let mut model = Model::initialize(text_shapes(3)[0], plain, 5);
    let mut engine = Engine::with_criterion(Criterion::CrossEntropy);
    let mut optimizer = Optimizer::new(Rule::Adam { learning_rate: 0.05 }, model.parameters().len());
    for _ in 0..100 {
        let mut gradient = vec![0.0; model.parameters().len()];
        engine.add_gradient(&model, &examples, 1.0 / 60.0, &mut gradient);
        optimizer.step(model.parameters_mut(), StepDirection::exact(&gradient), 1.0);
    }
    assert!(engine.score(&model, &examples).accuracy() > 0.99);
}

#[test]
fn file_of_rows_keeps_columns_and_dimensions() {
    let plain = shapes(2).into_iter().map(|shape| (shape, rows()));
    let texts = text_shapes(2).into_iter().map(|shape| (shape, text_rows()));
    for (shape, rows) in plain.chain(texts) {
        let mut model = model(shape);
        model.set_usage(ModelUsage { rows: Some(Box::new(rows.clone())), ..ModelUsage::default() });
        let file = model.to_safetensors().unwrap();
        let read = Model::from_safetensors(&file).unwrap();
        assert!(read == model && read.usage().rows.as_deref() == Some(&rows), "{shape:?}");
        let embeddings = usize::from(shape.text.is_some());
        assert_eq!(shape.parts().len(), embeddings + shape.layers + 1 + usize::from(shape.normalize));
        assert_eq!(shape.coordinates([ModelPart::Output].into_iter().collect()).len(), (shape.width() + 1) * 2);
    }
    let layers = [("\\\"layers\\\":1", "\\\"layers\\\":0"), ("directional\\\":false", "directional\\\":true ")];
    check_refused_dimensions(shapes(2)[1], &layers);
    let texts = [("\\\"grams\\\":3", "\\\"grams\\\":9"), ("\\\"buckets\\\":7", "\\\"buckets\\\":1")];
    check_refused_dimensions(text_shapes(2)[0], &texts);
}

/// Checks that a file with one part of its metadata replaced by another of the same length is refused.
fn check_refused_dimensions(shape: ModelShape, replacements: &[(&str, &str)]) {
    let file = model(shape).to_safetensors().unwrap();
    for (from, to) in replacements {
        let at = file.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
        let mut other = file.clone();
        other[at..at + from.len()].copy_from_slice(to.as_bytes());
        let error = Model::from_safetensors(&other).unwrap_err().to_string();
        assert!(error.contains("dimensions"), "{to}: {error}");
    }
}
