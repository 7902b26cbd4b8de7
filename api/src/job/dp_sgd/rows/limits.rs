//! The limits of the columns of a model of rows, for each job and file that names them.

use std::collections::HashSet;

use super::{BUCKETS, MOST_FEATURES, MOST_ROW_INPUTS, MOST_ROWS_PER_UNIT, MOST_WIDTH, RowColumns, TrainingLoss};
use crate::dataset::Dataset;
use crate::job::check::check_range;
use crate::problem::Violation;
use crate::table::{ColumnKind, TableColumn};

impl RowColumns {
    /// Returns every violation of the limits, and every column that one of `tables` declares otherwise or lacks, with field
    /// paths that begin with `path`.
    pub fn check<'a>(&self, path: &str, tables: impl IntoIterator<Item = &'a Dataset>) -> Vec<Violation> {
        let tables: Vec<&Dataset> = tables.into_iter().collect();
        let mut violations = Vec::new();
        let mut say =
            |field: &str, message: String| violations.push(Violation::new(format!("{path}.{field}"), message));
        self.check_target(&mut say);
        let most = f64::from(MOST_ROWS_PER_UNIT);
        check_range(&mut say, "rows_per_unit", f64::from(self.rows_per_unit), 1.0, most);
        self.check_text(&mut say);
        self.check_columns(&tables, &mut say);
        violations
    }

    /// Returns the violations as [`Self::check`] does, of the columns of an ONNX graph, which reads no texts.
    pub fn check_for_graph<'a>(&self, path: &str, tables: impl IntoIterator<Item = &'a Dataset>) -> Vec<Violation> {
        let texts =
            self.features.iter().enumerate().filter(|(_, column)| matches!(column.kind, ColumnKind::Text { .. }));
        let refuse = |(place, _): (usize, &TableColumn)| {
            let text = "another column: no operator of ONNX computes the hashes of a text, so a graph reads none";
            Violation::new(format!("{path}.features.{place}"), text)
        };
        let violations: Vec<Violation> = texts.map(refuse).collect();
        if violations.is_empty() { self.check(path, tables) } else { violations }
    }

    /// Returns whether the target is of a kind that a model predicts.
    pub(in crate::job::dp_sgd) const fn has_target_kind(&self) -> bool {
        !matches!(self.target.kind, ColumnKind::Date { .. } | ColumnKind::Key { .. } | ColumnKind::Text { .. })
    }

    fn check_target(&self, say: &mut impl FnMut(&str, String)) {
        if !self.has_target_kind() {
            let kind = self.target.kind.label();
            say("target", format!("a boolean, a category, an integer or a real number, not a {kind}"));
        } else if self.outputs() < 2 && self.loss() == TrainingLoss::CrossEntropy {
            say("target", "a category with at least two values: one value leaves nothing to predict".to_owned());
        }
    }

    /// Checks that there is an embedding if and only if a feature is a text, and its size.
    fn check_text(&self, say: &mut impl FnMut(&str, String)) {
        match self.text {
            Some(_) if self.texts() == 0 => {
                say("text", "an embedding is for features of kind text: leave it out".to_owned());
            }
            None if self.texts() > 0 => {
                say("text", "a feature of kind text needs `buckets` and `width` of its embedding".to_owned());
            }
            None => {}
            Some(text) => {
                let (least, most) = BUCKETS;
                check_range(say, "text.buckets", text.buckets.into(), least.into(), most.into());
                check_range(say, "text.width", text.width.into(), 1.0, MOST_WIDTH.into());
            }
        }
    }

    /// Checks each column alone and against its declarations, and the number of inputs.
    fn check_columns(&self, tables: &[&Dataset], say: &mut impl FnMut(&str, String)) {
        let count = self.features.len();
        if !(1..=MOST_FEATURES).contains(&count) {
            say("features", format!("1 to {MOST_FEATURES} columns, not {count}"));
            return;
        }
        let features = self.features.iter().enumerate();
        let columns = features.map(|(index, column)| (format!("features.{index}"), column));
        let mut names = HashSet::new();
        for (path, column) in std::iter::once(("target".to_owned(), &self.target)).chain(columns) {
            if !names.insert(&column.name) {
                say(&format!("{path}.name"), "each column is named once, as the target or as a feature".to_owned());
            } else if let Some((field, text)) = column.find_problem() {
                say(&format!("{path}.{field}"), text);
            } else if let ColumnKind::Key { .. } = column.kind {
                say(&path, "another column: a key has no number, so no model reads it".to_owned());
            } else if let Some(problem) = find_difference(column, tables) {
                say(&path, problem);
            }
        }
        let inputs = self.inputs();
        if inputs > MOST_ROW_INPUTS {
            let limit = format!("their values give {inputs} inputs; at most {MOST_ROW_INPUTS}");
            say("features", format!("{limit}: leave out the columns with most values"));
        }
    }
}

/// Returns the first difference between a column and the declaration of a table.
fn find_difference(column: &TableColumn, tables: &[&Dataset]) -> Option<String> {
    let name = &column.name;
    let mut schemas = tables.iter().filter_map(|dataset| Some((&dataset.name, dataset.table.as_ref()?)));
    schemas.find_map(|(site, table)| match table.find_column(name) {
        Some((_, kind)) if *kind == column.kind => None,
        Some(_) => Some(format!("`{site}` declares column `{name}` with another kind or range; all tables must agree")),
        None => Some(format!("`{site}` has no column `{name}`")),
    })
}
