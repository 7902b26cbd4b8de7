//! `data add-table`: creates a dataset of this site from rows of files or of PostgreSQL.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde::Deserialize;
use time::OffsetDateTime;
use undertone_api::table::{TableColumn, TableSchema};

use super::DataError;
use super::rows::{RowArguments, read_text};
use crate::site::folder::Folder;

/// Create a dataset of this site from rows, for analytics.
///
/// The rows come from CSV or Parquet files, or from a query or view of PostgreSQL. The command stores the declared columns as
/// codes in their declared ranges, sorted by unit. Rows that cannot be used are left out and counted in the dataset's
/// report.json, which stays at the site. Repeat the command with --replace to refresh the rows: the lifetime accounts continue.
#[derive(Debug, Args)]
pub(super) struct AddTableCommand {
    #[command(flatten)]
    rows: RowArguments,
    /// The public facts about the columns, in TOML or JSON: for each its name, its kind and its range. They are declared,
    /// not computed from the rows, because they leave the site.
    #[arg(long, value_name = "FILE")]
    schema: PathBuf,
}

/// The file of a schema. The unit may be in the command instead.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SchemaFile {
    unit: Option<String>,
    columns: Vec<TableColumn>,
}

impl AddTableCommand {
    pub(super) fn run(&self, folder: &Folder, now: OffsetDateTime, out: &mut dyn Write) -> Result<(), DataError> {
        self.rows.check_visibility()?;
        self.rows.add(self.read_schema()?, None, folder, now, out)
    }

    /// Reads the schema, with the unit of the command or of the file.
    fn read_schema(&self) -> Result<TableSchema, DataError> {
        let invalid = |reason: String| DataError::Argument { argument: "--schema", reason };
        let text = read_text("--schema", &self.schema)?;
        let is_json = self.schema.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
        let file: SchemaFile = if is_json {
            serde_json::from_str(&text).map_err(|error| invalid(error.to_string()))?
        } else {
            toml::from_str(&text).map_err(|error| invalid(error.to_string()))?
        };
        let unit_column = self.rows.select_unit("--schema", file.unit)?;
        Ok(TableSchema { unit_column, columns: file.columns, encoder: None })
    }
}
