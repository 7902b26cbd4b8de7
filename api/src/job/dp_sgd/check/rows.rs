//! Limits of a model of rows of tables.

use undertone_privacy::PrivacyUnit;

use super::find_dataset;
use crate::dataset::Dataset;
use crate::job::JobKind as _;
use crate::job::check::find_other_encoder;
use crate::job::dp_sgd::{RowColumns, Spec, TrainingLoss};
use crate::problem::Violation;

/// Checks the columns, the layers and the unit of a model of rows against the tables of the job.
pub(super) fn check(spec: &Spec, rows: &RowColumns, datasets: &[Dataset], say: &mut impl FnMut(&str, String)) {
    if spec.unit != PrivacyUnit::User {
        say("unit", "`user` for a model of rows: the values of the table's column of units".to_owned());
    }
    let model = &spec.model;
    if !model.is_plain() {
        say("model.rows", "a model of rows has no `cell`, `bidirectional` or `context`: leave them out".to_owned());
    }
    if model.layers == 0 && model.hidden != 0 {
        say("model.hidden", "a linear model has no hidden units: leave it out".to_owned());
    }
    if model.layers == 0 && model.normalize {
        say("model.normalize", "a linear model has no hidden layer to normalize: leave it out".to_owned());
    }
    if rows.has_target_kind() && model.loss != rows.loss() {
        let name = if rows.loss() == TrainingLoss::SquaredError { "squared_error" } else { "cross_entropy" };
        let kind = rows.target.kind.label();
        say("model.loss", format!("`{name}` for a target of kind {kind}"));
    }
    if model.classes.is_some_and(|classes| classes != rows.outputs()) {
        let outputs = rows.outputs();
        say("model.classes", format!("the target gives {outputs} outputs; give that number, or leave it out"));
    }
    if spec.audit.is_some_and(|audit| audit.recordings > 0) {
        say("audit.recordings", "0 for a model of rows: its canaries are gradients alone".to_owned());
    }
    let tables: Vec<&Dataset> = spec.datasets().into_iter().filter_map(|(id, _)| find_dataset(datasets, id)).collect();
    for violation in rows.check("model.rows", tables.iter().copied()) {
        say(&violation.field, violation.message);
    }
    if let Some(problem) = find_other_encoder(tables) {
        say("participants", problem);
    }
}

impl Spec {
    /// Returns the first violation of a model of rows that shows without the datasets of the job; `None` for a model of
    /// speech. A site checks the specs that its terminal reads, because no server has checked them.
    pub fn find_wrong_rows(&self) -> Option<Violation> {
        let rows = self.model.rows.as_ref()?;
        let mut first = None;
        let mut say = |field: &str, message: String| {
            first.get_or_insert_with(|| Violation::new(format!("spec.{field}"), message));
        };
        super::model::check(&self.model, &mut say);
        check(self, rows, &[], &mut say);
        super::model::check_size(self, rows.inputs(), rows.outputs(), &mut say);
        first
    }
}

#[cfg(test)]
mod tests {
    use undertone_privacy::PrivacyUnit;

    use super::super::tests::{change_of_rows, change_of_speech};
    use crate::dataset::DatasetContent;
    use crate::job::JobKind as _;
    use crate::job::dp_sgd::{AcousticModel, AuditOptions, RecurrentCell, RowColumns, TextEmbedding, TrainingLoss};
    use crate::table::{ColumnKind, TableColumn};

    #[test]
    fn training_on_tables_is_valid_and_charged_by_user() {
        let (spec, datasets) = change_of_rows(|_, _| ());
        assert_eq!(spec.check(&datasets), Vec::new());
        let settled = spec.clone().settle(&datasets);
        assert_eq!((settled.model.classes, settled.check(&datasets)), (Some(2), Vec::new()));
        let charge = settled.cost(&datasets[1]).map(|charge| (charge.unit, charge.releases));
        assert_eq!(charge, Some((PrivacyUnit::User, 14)));
        let series = settled.series(&datasets);
        assert_eq!(series.last().and_then(|series| series.length), Some(4 * 8 + 9 * 2), "a bias in each layer");
        assert!(settled.most_norm(&datasets[1], &series[1]).is_some_and(f64::is_finite));
        assert_eq!(settled.units(&datasets[1]), 50, "the declared number of users");
        let (other, _) = change_of_rows(|spec, _| spec.model.layers = 2);
        assert!(settled.model(0).is_some() && settled.model(0) != other.settle(&datasets).model(0));
    }

    #[test]
    fn tables_of_different_encoders_are_refused_by_name() {
        let (spec, mut datasets) = change_of_rows(|_, _| ());
        let mut encode = |place: usize, digit: &str| {
            if let Some(table) = datasets[place].table.as_mut() {
                table.encoder = Some(digit.repeat(64));
            }
            spec.check(&datasets).into_iter().map(|violation| (violation.field, violation.message)).collect::<Vec<_>>()
        };
        assert_eq!(encode(0, "a"), Vec::new());
        assert_eq!(encode(1, "a"), Vec::new());
        let violations = encode(1, "b");
        let (field, message) = &violations[0];
        assert_eq!((violations.len(), field.as_str()), (1, "spec.participants"));
        assert!([&datasets[0].name, &datasets[1].name].iter().all(|name| message.contains(*name)), "{message}");
    }

    /// Returns the fields reported for a job with a text among its features, and an embedding, after a change.
    fn text_fields(change: fn(&mut RowColumns)) -> Vec<String> {
        let (spec, datasets) = change_of_rows(|spec, datasets| {
            let kind = ColumnKind::Text { most_grams: 20, characters: false };
            let note = TableColumn { name: "note".to_owned(), kind };
            for table in datasets.iter_mut().filter_map(|dataset| dataset.table.as_mut()) {
                table.columns.push(note.clone());
            }
            let rows = spec.model.rows.as_mut().expect("a model of rows");
            rows.features.push(note);
            rows.text = Some(TextEmbedding { buckets: 64, width: 8 });
            change(rows);
        });
        spec.check(&datasets).into_iter().map(|violation| violation.field).collect()
    }

    #[test]
    fn every_violation_of_texts_names_its_field() {
        assert_eq!(text_fields(|_| ()), [""; 0]);
        assert_eq!(text_fields(|rows| rows.text = None), ["spec.model.rows.text"]);
        assert_eq!(text_fields(|rows| drop(rows.features.pop())), ["spec.model.rows.text"]);
        assert_eq!(text_fields(|rows| rows.text = Some(TextEmbedding { buckets: 2, width: 1 })), [""; 0]);
        let buckets = "spec.model.rows.text.buckets";
        assert_eq!(text_fields(|rows| rows.text = Some(TextEmbedding { buckets: 1, width: 8 })), [buckets]);
        assert_eq!(text_fields(|rows| rows.text = Some(TextEmbedding { buckets: (1 << 20) + 1, width: 1 })), [buckets]);
        let width = "spec.model.rows.text.width";
        assert_eq!(text_fields(|rows| rows.text = Some(TextEmbedding { buckets: 64, width: 0 })), [width]);
        assert_eq!(text_fields(|rows| rows.text = Some(TextEmbedding { buckets: 64, width: 257 })), [width]);
        let target = text_fields(|rows| rows.target = rows.features.pop().expect("the text"));
        assert_eq!(target, ["spec.model.rows.target", "spec.model.rows.text"]);
    }

    #[test]
    fn every_violation_of_rows_names_its_field() {
        let fields = |change: fn(&mut crate::job::dp_sgd::Spec, &mut Vec<crate::dataset::Dataset>)| {
            let (spec, datasets) = change_of_rows(change);
            spec.check(&datasets).into_iter().map(|violation| violation.field).collect::<Vec<_>>()
        };
        let real = |name: &str| TableColumn {
            name: name.to_owned(),
            kind: ColumnKind::Real { least: 0.0, most: 1.0, step: 0.1 },
        };
        assert_eq!(fields(|spec, _| spec.unit = PrivacyUnit::Speaker), ["spec.unit"]);
        assert_eq!(fields(|spec, _| spec.model.cell = RecurrentCell::Gru), ["spec.model.rows"]);
        assert_eq!(fields(|spec, _| spec.model.layers = 0), ["spec.model.hidden"]);
        assert_eq!(fields(|spec, _| spec.model.layers = 5), ["spec.model.layers"]);
        assert_eq!(fields(|spec, _| spec.model.hidden = 0), ["spec.model.hidden"]);
        assert_eq!(fields(|spec, _| spec.model.loss = TrainingLoss::SquaredError), ["spec.model.loss"]);
        assert_eq!(fields(|spec, _| spec.model.classes = Some(3)), ["spec.model.classes"]);
        let audit = AuditOptions { canaries: 20, guesses: 10, recordings: 20 };
        let (spec, datasets) = change_of_rows(|spec, _| spec.audit = Some(audit));
        assert_eq!(spec.check(&datasets)[0].field, "spec.audit.recordings");
        for (count, is_valid) in [(0, false), (1, true), (1000, true), (1001, false)] {
            let (spec, datasets) = change_of_rows(|spec, _| rows(spec).rows_per_unit = count);
            let expected = if is_valid { None } else { Some("spec.model.rows.rows_per_unit") };
            assert_eq!(spec.check(&datasets).first().map(|violation| &*violation.field), expected, "{count}");
        }
        let (spec, datasets) = change_of_rows(|spec, _| {
            let values = |count: usize| ColumnKind::Category { values: (0..count).map(|n| n.to_string()).collect() };
            rows(spec).features = (0..8).map(|n| TableColumn { name: format!("c{n}"), kind: values(8193) }).collect();
        });
        let violations = spec.check(&datasets);
        assert!(violations.iter().any(|violation| violation.message.contains("65544 inputs")), "{violations:?}");
        assert_eq!(fields(|spec, _| rows(spec).features.clear()), ["spec.model.rows.features"]);
        assert_eq!(fields(|_, datasets| datasets[2].content = DatasetContent::Speech), ["spec.tests.0.dataset"]);
        let (spec, datasets) = change_of_rows(|spec, _| rows(spec).features.push(real("unknown")));
        let violation = &spec.check(&datasets)[0];
        assert!(violation.field == "spec.model.rows.features.2" && violation.message.contains("no column `unknown`"));
        let (spec, datasets) = change_of_rows(|spec, _| rows(spec).features[0] = real("age"));
        assert!(spec.check(&datasets)[0].message.contains("another kind or range"));
        let (spec, datasets) = change_of_rows(|spec, _| {
            let target = rows(spec).target.clone();
            rows(spec).features.push(target);
        });
        assert_eq!(spec.check(&datasets)[0].field, "spec.model.rows.features.2.name");
    }

    #[test]
    fn options_of_the_other_content_are_refused() {
        let (spec, datasets) = change_of_speech(|spec| spec.model.layers = 0);
        assert_eq!(spec.check(&datasets)[0].field, "spec.model.layers");
        let (spec, datasets) = change_of_speech(|spec| spec.model.loss = TrainingLoss::SquaredError);
        assert_eq!(spec.check(&datasets)[0].field, "spec.model.loss");
        let (spec, datasets) = change_of_rows(|spec, _| spec.model = AcousticModel::lstm(8, None));
        assert!(spec.check(&datasets).iter().any(|violation| violation.message.contains("table")));
    }

    /// A change of a spec.
    type SpecChange = fn(&mut crate::job::dp_sgd::Spec);

    #[test]
    fn violation_of_the_spec_alone_shows_without_datasets() {
        let field = |change: fn(&mut crate::job::dp_sgd::Spec)| {
            let (spec, _) = change_of_rows(|spec, _| change(spec));
            spec.find_wrong_rows().map(|violation| violation.field)
        };
        assert_eq!(field(|_| ()), None);
        assert_eq!(field(|spec| spec.model = AcousticModel::lstm(0, None)), None, "it has no rows");
        let changes: [(&str, SpecChange); 4] = [
            ("spec.unit", |spec| spec.unit = PrivacyUnit::Record),
            ("spec.model.loss", |spec| spec.model.loss = TrainingLoss::SquaredError),
            ("spec.model.hidden", |spec| spec.model.hidden = 0),
            ("spec.model.rows.rows_per_unit", |spec| rows(spec).rows_per_unit = 0),
        ];
        for (expected, change) in changes {
            assert_eq!(field(change).as_deref(), Some(expected));
        }
    }

    fn rows(spec: &mut crate::job::dp_sgd::Spec) -> &mut crate::job::dp_sgd::RowColumns {
        spec.model.rows.as_mut().expect("a model of rows")
    }
}
