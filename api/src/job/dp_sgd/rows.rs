//! A model of the rows of tables: features and target by declared columns, a linear model or a perceptron with hidden
//! layers.
//!
//! Each row is a frame of the model, and all rows of a unit are clipped together. The columns are declared in the spec as
//! in the table of each participant, so that the number of inputs and their scales are public facts:
//!
//! | column | inputs |
//! |---|---|
//! | integer, real, date, boolean | one: the declared range, mapped to -1 to 1; 0 if the value is missing |
//! | category | one for each declared value: 1 for the row's own, else 0; zeros if the value is missing |
//! | text | the rows of its n-grams in the embedding, after the inputs of all other columns; -1 where there are no more |
//!
//! The embedding has one table of vectors for all texts. The first layer replaces the n-grams of each text by the mean of
//! their vectors, or by zeros if there are none ([`TextEmbedding`]).
//!
//! The target is a boolean or a category (softmax and cross-entropy), or an integer or a real number (squared error, with
//! the declared range mapped to -1 to 1). A row without a target is not used.

mod limits;

use serde::{Deserialize, Serialize};

use super::{AcousticModel, RecurrentCell, TrainingLoss};
use crate::table::grams::select_code_bucket;
use crate::table::{ColumnKind, MOST_COLUMNS, TableColumn};

/// The most inputs of a model of rows.
pub const MOST_ROW_INPUTS: u32 = 65_536;
/// The most rows of a unit that train a model.
pub const MOST_ROWS_PER_UNIT: u32 = 1000;
/// The greatest level of a number as a target: its range has 65,536 levels, which a label of 16 bits counts.
pub const TARGET_LEVELS: u16 = u16::MAX;

/// The least and the most rows of an embedding: an `f32` represents each of their numbers.
const BUCKETS: (u32, u32) = (2, 1 << 20);
/// The most numbers of a vector of an embedding.
const MOST_WIDTH: u32 = 256;

/// The embedding of texts: a table of trained vectors, one for all n-grams with the same bucket of their hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = DpSgdText))]
#[serde(deny_unknown_fields)]
pub struct TextEmbedding {
    /// The vectors: 2 to 1,048,576. N-grams of the same bucket share a vector.
    #[cfg_attr(feature = "openapi", schema(minimum = 2, maximum = 1_048_576))]
    pub buckets: u32,
    /// The numbers of a vector: 1 to 256.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 256))]
    pub width: u32,
}

/// The columns of a model of rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = DpSgdRows))]
#[serde(deny_unknown_fields)]
pub struct RowColumns {
    /// The column that the model predicts, as each table declares it: a boolean or a category, or an integer or a real
    /// number with `model.loss` `squared_error`.
    pub target: TableColumn,
    /// The columns that the model reads, as each table declares them: 1 to 255.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 255))]
    pub features: Vec<TableColumn>,
    /// The most rows of a unit in training and in an `evaluation` job: 1 to 1,000. Of a unit with more, the first in the
    /// site's keyed order are used.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1000))]
    pub rows_per_unit: u32,
    /// The embedding of the features that are texts. Absent without such features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<TextEmbedding>,
}

impl RowColumns {
    /// Returns the number of inputs of a row. Saturates for unchecked columns.
    pub fn inputs(&self) -> u32 {
        self.plain_inputs().saturating_add(self.texts().saturating_mul(self.grams_per_text()))
    }

    /// Returns the number of inputs of the columns that are no texts.
    fn plain_inputs(&self) -> u32 {
        self.features.iter().map(|column| count_inputs(&column.kind)).fold(0, u32::saturating_add)
    }

    /// Returns the number of features that are texts.
    pub fn texts(&self) -> u32 {
        self.gram_limits().count() as u32
    }

    /// Returns the number of inputs of each text: the most n-grams of any.
    pub fn grams_per_text(&self) -> u32 {
        self.gram_limits().max().unwrap_or(0)
    }

    fn gram_limits(&self) -> impl Iterator<Item = u32> {
        self.features.iter().filter_map(|column| match column.kind {
            ColumnKind::Text { most_grams, .. } => Some(most_grams),
            _ => None,
        })
    }

    /// Returns the numbers of a row after the embedding; `None` without an embedding.
    pub(super) fn embedded_width(&self) -> Option<u64> {
        let TextEmbedding { width, .. } = self.text?;
        Some(u64::from(self.plain_inputs()) + u64::from(self.texts()) * u64::from(width))
    }

    /// Returns the outputs of the model: one for each value of a target with values, 1 for a number.
    pub fn outputs(&self) -> u32 {
        match &self.target.kind {
            ColumnKind::Boolean => 2,
            ColumnKind::Category { values } => u32::try_from(values.len()).unwrap_or(u32::MAX),
            ColumnKind::Integer { .. }
            | ColumnKind::Real { .. }
            | ColumnKind::Date { .. }
            | ColumnKind::Key { .. }
            | ColumnKind::Text { .. } => 1,
        }
    }

    /// Returns the loss that suits the target.
    pub const fn loss(&self) -> TrainingLoss {
        match self.target.kind {
            ColumnKind::Boolean | ColumnKind::Category { .. } => TrainingLoss::CrossEntropy,
            ColumnKind::Integer { .. }
            | ColumnKind::Real { .. }
            | ColumnKind::Date { .. }
            | ColumnKind::Key { .. }
            | ColumnKind::Text { .. } => TrainingLoss::SquaredError,
        }
    }

    /// Returns the features, then the target: the order in which a site reads the codes of a row.
    pub fn columns(&self) -> Vec<TableColumn> {
        self.features.iter().chain([&self.target]).cloned().collect()
    }

    /// Appends the inputs of a row with these codes of the features, in their order: those of the texts after all others.
    ///
    /// A code outside the declared range counts as the nearest end of it.
    pub fn encode_features(&self, codes: &[Option<i64>], inputs: &mut Vec<f32>) {
        let mut rest = codes;
        let mut texts = Vec::new();
        for column in &self.features {
            let (own, after) = rest.split_at(column.kind.code_count().min(rest.len()));
            rest = after;
            let code = own.first().copied().flatten();
            match &column.kind {
                ColumnKind::Text { .. } => texts.push(own),
                ColumnKind::Category { values } => {
                    let own = code.and_then(|code| usize::try_from(code).ok());
                    inputs.extend((0..values.len()).map(|place| if own == Some(place) { 1.0 } else { 0.0 }));
                }
                // Within ±1, so that the conversion loses digits alone.
                kind => inputs.push(code.map_or(0.0, |code| scale(kind, code)) as f32),
            }
        }
        let buckets = self.text.map_or(0, |text| text.buckets);
        for own in texts {
            let grams = own.iter().map(|code| code.map_or(NO_GRAM, |code| select_code_bucket(code, buckets) as f32));
            inputs.extend(grams.chain(std::iter::repeat(NO_GRAM)).take(self.grams_per_text() as usize));
        }
    }

    /// Returns the label of a row with this code of the target: the place of the value, or the level of a number, from 0
    /// for the least to [`TARGET_LEVELS`] for the greatest. `None` without a target.
    pub fn encode_target(&self, code: Option<i64>) -> Option<u16> {
        let code = code?;
        match self.loss() {
            TrainingLoss::CrossEntropy | TrainingLoss::Ctc => {
                u16::try_from(code).ok().filter(|place| u32::from(*place) < self.outputs())
            }
            TrainingLoss::SquaredError => {
                let share = f64::midpoint(scale(&self.target.kind, code), 1.0);
                Some(libm::round(share * f64::from(TARGET_LEVELS)) as u16)
            }
        }
    }

    /// Returns the value of a prediction of a numeric target, clamped to the declared range: -1 is its least value, 1 its
    /// greatest.
    pub fn decode_number(&self, prediction: f64) -> f64 {
        let (least, most) = self.target.kind.code_range();
        let share = f64::midpoint(prediction.clamp(-1.0, 1.0), 1.0);
        (least as f64 + share * (most as f64 - least as f64)) * self.target.kind.step()
    }

    /// Returns the width of the declared range of a numeric target, in its own unit.
    pub fn target_range(&self) -> f64 {
        self.decode_number(1.0) - self.decode_number(-1.0)
    }

    /// Returns the text of an output of a target with values.
    pub fn display_class(&self, class: usize) -> String {
        i64::try_from(class).map_or_else(|_| String::new(), |code| self.target.kind.display_code(code))
    }
}

/// The input in the place of an n-gram that a text does not have.
pub const NO_GRAM: f32 = -1.0;

/// Returns the prediction that a level of a numeric target asks for: -1 to 1.
pub fn level_value(level: u16) -> f32 {
    f32::from(level) / f32::from(TARGET_LEVELS) * 2.0 - 1.0
}

fn count_inputs(kind: &ColumnKind) -> u32 {
    match kind {
        ColumnKind::Category { values } => u32::try_from(values.len()).unwrap_or(u32::MAX),
        ColumnKind::Boolean | ColumnKind::Integer { .. } | ColumnKind::Real { .. } | ColumnKind::Date { .. } => 1,
        // A key has no number; `check` refuses it.
        ColumnKind::Key { .. } | ColumnKind::Text { .. } => 0,
    }
}

/// Maps a code to -1 to 1 over the declared range.
fn scale(kind: &ColumnKind, code: i64) -> f64 {
    let (least, most) = kind.code_range();
    let width = (most as f64 - least as f64).max(1.0);
    ((code.clamp(least, most.max(least)) as f64 - least as f64) / width * 2.0 - 1.0).clamp(-1.0, 1.0)
}

impl AcousticModel {
    /// Makes a model of rows with hidden layers of these units, each followed by tanh; a linear model without any.
    pub fn from_rows(rows: RowColumns, layers: u32, hidden: u32) -> Self {
        let loss = rows.loss();
        let hidden = if layers == 0 { 0 } else { hidden };
        Self { layers, loss, rows: Some(Box::new(rows)), ..Self::lstm(hidden, None) }
    }

    /// Returns the numbers that the model reads in each frame: those of the columns for a model of rows, else
    /// `coefficients`, those of the speech.
    pub fn inputs(&self, coefficients: u32) -> u32 {
        self.rows.as_ref().map_or(coefficients, |rows| rows.inputs())
    }

    /// Returns whether the model has none of the options of speech.
    pub(super) fn is_plain(&self) -> bool {
        self.cell == RecurrentCell::Lstm && !self.bidirectional && self.context.is_none()
    }
}

/// The most columns of features: one column of a table is the target.
const MOST_FEATURES: usize = MOST_COLUMNS - 1;

#[cfg(test)]
mod tests {
    use super::{NO_GRAM, RowColumns, TARGET_LEVELS, TextEmbedding, level_value};
    use crate::job::dp_sgd::{AcousticModel, ModelPart, TrainingLoss};
    use crate::table::{ColumnKind, TableColumn};

    fn column(name: &str, kind: ColumnKind) -> TableColumn {
        TableColumn { name: name.to_owned(), kind }
    }

    fn rows(target: ColumnKind) -> RowColumns {
        let values = ["a", "b", "c"].map(str::to_owned).to_vec();
        let features = vec![
            column("age", ColumnKind::Integer { least: 0, most: 100 }),
            column("ward", ColumnKind::Category { values }),
            column("smokes", ColumnKind::Boolean),
        ];
        RowColumns { target: column("risk", target), features, rows_per_unit: 4, text: None }
    }

    #[test]
    fn features_are_scaled_by_declared_ranges_alone() {
        let rows = rows(ColumnKind::Boolean);
        let mut inputs = Vec::new();
        rows.encode_features(&[Some(75), Some(1), Some(0)], &mut inputs);
        rows.encode_features(&[None, None, None], &mut inputs);
        rows.encode_features(&[Some(400), Some(2), Some(1)], &mut inputs);
        let expected = [0.5, 0.0, 1.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0];
        assert_eq!(inputs, expected);
        assert_eq!(rows.inputs(), 5);
        let wide = ColumnKind::Integer { least: -(1 << 52), most: 1 << 52 };
        let mut inputs = Vec::new();
        let wide = RowColumns { features: vec![column("wide", wide)], ..rows };
        wide.encode_features(&[Some(i64::MAX)], &mut inputs);
        assert_eq!(inputs, [1.0]);
    }

    #[test]
    fn documented_row_has_the_documented_inputs() {
        let page = include_str!("../../../../docs/src/how-to/train-on-tables.md");
        let rows = rows(ColumnKind::Boolean);
        let mut inputs = Vec::new();
        rows.encode_features(&[Some(75), rows.features[1].kind.encode_category("b"), Some(0)], &mut inputs);
        let [age, a, b, c, smokes] = inputs[..] else { panic!("five inputs: {inputs:?}") };
        let sentence = format!("the row `75, b, no` has the inputs {age}, {a}, {b}, {c} and {smokes}.");
        assert!(page.contains(&sentence), "{sentence}");
        // The code of 2.6 is 5 of 0 to 18.
        let cost = ColumnKind::Real { least: 0.0, most: 9.0, step: 0.5 };
        let code = cost.encode_real(2.6);
        let mut inputs = Vec::new();
        RowColumns { features: vec![column("cost", cost)], ..rows }.encode_features(&[code], &mut inputs);
        assert!((inputs[0] - (2.0 * 5.0 / 18.0 - 1.0)).abs() < 1e-6, "{inputs:?}");
    }

    #[test]
    fn texts_are_buckets_after_all_other_inputs() {
        let mut rows = rows(ColumnKind::Boolean);
        rows.features.insert(0, column("note", ColumnKind::Text { most_grams: 2, characters: false }));
        rows.features.push(column("reason", ColumnKind::Text { most_grams: 3, characters: true }));
        rows.text = Some(TextEmbedding { buckets: 16, width: 4 });
        let codes = [Some((1 << 52) - 1), None, Some(75), Some(1), Some(0), Some(0), Some(1 << 51), Some(1 << 50)];
        let mut inputs = Vec::new();
        rows.encode_features(&codes, &mut inputs);
        assert_eq!(inputs, [0.5, 0.0, 1.0, 0.0, -1.0, 15.0, NO_GRAM, NO_GRAM, 0.0, 8.0, 4.0]);
        assert_eq!((rows.inputs(), rows.texts(), rows.grams_per_text()), (11, 2, 3));
        let model = AcousticModel::from_rows(rows.clone(), 1, 7);
        let sizes: Vec<u64> = model.parts().iter().map(|part| model.part_parameters(part, 11, 2)).collect();
        assert_eq!(sizes, [16 * 4, (5 + 2 * 4 + 1) * 7, 8 * 2]);
        assert_eq!(model.parts().iter().next(), Some(ModelPart::Embedding));
        let linear = AcousticModel::from_rows(rows, 0, 0);
        assert_eq!(linear.parameters(linear.parts(), 11, 2), 64 + 14 * 2);
    }

    #[test]
    fn targets_are_places_or_levels_of_the_declared_range() {
        let values = ["low", "high"].map(str::to_owned).to_vec();
        let classes = rows(ColumnKind::Category { values });
        assert_eq!((classes.outputs(), classes.loss()), (2, TrainingLoss::CrossEntropy));
        assert_eq!(
            [Some(1), Some(2), Some(-1), None].map(|code| classes.encode_target(code)),
            [Some(1), None, None, None]
        );
        assert_eq!(classes.display_class(1), "high");
        let number = rows(ColumnKind::Real { least: 10.0, most: 30.0, step: 0.5 });
        assert_eq!((number.outputs(), number.loss()), (1, TrainingLoss::SquaredError));
        let levels = [20, 40, 60, 900].map(|code| number.encode_target(Some(code)));
        assert_eq!(levels, [Some(0), Some(32_768), Some(TARGET_LEVELS), Some(TARGET_LEVELS)]);
        for (level, value) in [(0, 10.0), (32_768, 20.0), (TARGET_LEVELS, 30.0)] {
            assert!((number.decode_number(f64::from(level_value(level))) - value).abs() < 1e-3, "{level}");
        }
        assert!((number.decode_number(7.0) - 30.0).abs() < 1e-12 && (number.target_range() - 20.0).abs() < 1e-12);
    }

    #[test]
    fn parameters_are_those_of_dense_layers() {
        let count = |layers, hidden| {
            let model = AcousticModel::from_rows(rows(ColumnKind::Boolean), layers, hidden);
            let (inputs, classes) = (model.inputs(0), 2);
            (
                model.parameters(model.parts(), inputs, classes),
                model.part_parameters(ModelPart::Output, inputs, classes),
            )
        };
        assert_eq!(count(0, 9), (12, 12), "five inputs and a bias for each of two classes");
        assert_eq!(count(2, 7), (6 * 7 + 8 * 7 + 8 * 2, 16));
    }

    #[test]
    fn speech_model_is_written_without_columns() {
        let text = serde_json::to_string(&AcousticModel::lstm(20, None)).unwrap_or_default();
        assert_eq!(text, r#"{"hidden":20,"classes":null}"#);
        let linear = AcousticModel::from_rows(rows(ColumnKind::Boolean), 0, 9);
        let text = serde_json::to_string(&linear).unwrap_or_default();
        assert!(text.contains(r#""layers":0,"rows":{"target":{"name":"risk","kind":"boolean"}"#), "{text}");
        assert_eq!(serde_json::from_str::<AcousticModel>(&text).ok(), Some(linear));
    }
}
