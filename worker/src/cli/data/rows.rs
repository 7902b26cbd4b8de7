//! The rows of a table that a command adds: their sources, their unit, and the dataset that they become.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args, ValueEnum};
use time::{OffsetDateTime, UtcOffset};
use undertone_api::table::TableSchema;

use super::prepare::{VisibilityArgument, format_date};
use super::{DataError, TerminalProgress, key_notice, open_intake};
use crate::site::clock;
use crate::site::folder::Folder;
use crate::site::policy::declare;
use crate::tables::add::{AddOptions, add, add_encoded};
use crate::tables::encode::RowEncoder;
use crate::tables::source::postgres::{PostgresOptions, PostgresRelation};
use crate::tables::source::{FileFormat, SourceOptions};
use crate::tables::value::parse_zone;

/// The arguments of each command that adds rows.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("source").required(true).args(["input", "postgres"]))]
pub(super) struct RowArguments {
    /// The dataset's name.
    #[arg(long, value_name = "NAME")]
    name: String,
    /// The column with the unit that is protected, such as a patient or a person; else the `unit` of the declared facts.
    #[arg(long, value_name = "COLUMN")]
    unit: Option<String>,
    /// Files with a header of column names: CSV, TSV or Parquet, by their endings. Each row of CSV is one line.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    input: Vec<PathBuf>,
    /// The format of the files, if their endings do not state it.
    #[arg(long, value_enum, requires = "input")]
    format: Option<FormatArgument>,
    /// The separator between the fields of CSV, if it is not a comma.
    #[arg(long, value_name = "CHARACTER", requires = "input")]
    delimiter: Option<char>,
    /// A file with the address of a PostgreSQL database: postgres://role:password@host/database?sslmode=verify-full. The role
    /// may read, and nothing else.
    #[arg(long, value_name = "FILE", requires = "relation")]
    postgres: Option<PathBuf>,
    /// The query whose rows are added: one SELECT.
    #[arg(long, value_name = "SQL", requires = "postgres", group = "relation")]
    query: Option<String>,
    /// The view or table whose rows are added, with its schema before a dot or without one.
    #[arg(long, value_name = "NAME", requires = "postgres", group = "relation")]
    view: Option<String>,
    /// A condition on the rows, which PostgreSQL applies.
    #[arg(long = "where", value_name = "SQL", requires = "postgres")]
    condition: Option<String>,
    /// The offset from UTC of the clocks whose dates count, such as +01:00, for columns of dates with times in a zone.
    #[arg(long, value_name = "OFFSET", allow_hyphen_values = true, value_parser = parse_offset)]
    zone: Option<UtcOffset>,
    /// The visibility: `private`, or `public` for rows that are published anyway.
    #[arg(long, value_enum, default_value_t = VisibilityArgument::Private)]
    visibility: VisibilityArgument,
    /// Replace the dataset of this name by these rows; its spent budget stays spent.
    #[arg(long)]
    replace: bool,
    /// The dataset of this site, or of an imported lineage, that contains some of these people already: both are charged to the
    /// same lifetime accounts.
    #[arg(long, value_name = "DATASET")]
    continues: Option<String>,
}

/// The format of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FormatArgument {
    /// Values separated by commas.
    Csv,
    /// Values separated by tabs.
    Tsv,
    /// Parquet.
    Parquet,
}

impl RowArguments {
    /// Returns the column of units, of the command or of the file that `argument` names.
    pub(super) fn select_unit(&self, argument: &'static str, unit: Option<String>) -> Result<String, DataError> {
        match (&self.unit, unit) {
            (Some(unit), Some(other)) if *unit != other => {
                let reason = format!("its `unit` is `{other}`, and --unit names `{unit}`: keep one of them");
                Err(DataError::Argument { argument, reason })
            }
            (Some(unit), _) => Ok(unit.clone()),
            (None, Some(unit)) => Ok(unit),
            (None, None) => {
                let reason = format!("name the column with the protected unit, here or as `unit` in {argument}");
                Err(DataError::Argument { argument: "--unit", reason })
            }
        }
    }

    /// Refuses a visibility that no table has.
    pub(super) fn check_visibility(&self) -> Result<(), DataError> {
        if self.visibility == VisibilityArgument::Open {
            let reason = "tables are private or public: their rows are never exchanged in the clear".to_owned();
            return Err(DataError::Argument { argument: "--visibility", reason });
        }
        Ok(())
    }

    /// Adds the rows, with the columns of an encoder if there is one, and prints the report.
    pub(super) fn add(
        &self,
        schema: TableSchema,
        encoder: Option<&dyn RowEncoder>,
        folder: &Folder,
        now: OffsetDateTime,
        out: &mut dyn Write,
    ) -> Result<(), DataError> {
        let output = folder.dataset(&self.name)?;
        let options = AddOptions {
            sources: self.sources()?,
            schema,
            zone: self.zone,
            output: output.clone(),
            name: self.name.clone(),
            replace: self.replace,
            created: format_date(now)?,
            fresh_key: clock::entropy().map_err(DataError::Entropy)?,
        };
        let visibility = self.visibility.into();
        let mut intake = open_intake(folder, &self.name, visibility, self.continues.as_deref(), false, now)?;
        let progress = TerminalProgress::default();
        let report = match encoder {
            None => add(&options, intake.as_mut(), &progress)?,
            Some(encoder) => add_encoded(&options, encoder, intake.as_mut(), &progress)?,
        };
        if self.visibility != VisibilityArgument::Private {
            declare(&folder.policy(), &self.name, self.visibility.into())?;
        }
        let notice = key_notice(intake.as_ref());
        writeln!(out, "{report}\nFolder          {}{notice}", output.display()).map_err(DataError::Print)
    }

    fn sources(&self) -> Result<SourceOptions, DataError> {
        let Some(address) = &self.postgres else {
            return Ok(SourceOptions::Files { paths: self.input.clone(), format: self.file_format()? });
        };
        let relation = match (&self.query, &self.view) {
            (Some(query), _) => PostgresRelation::Query(query.clone()),
            (None, view) => PostgresRelation::View(view.clone().unwrap_or_default()),
        };
        let url = read_text("--postgres", address)?;
        Ok(SourceOptions::Postgres(Box::new(PostgresOptions { url, relation, filter: self.condition.clone() })))
    }

    fn file_format(&self) -> Result<Option<FileFormat>, DataError> {
        let delimiter = match self.delimiter {
            None => None,
            Some(character) if character.is_ascii() && !matches!(character, '"' | '\n' | '\r') => Some(character as u8),
            Some(character) => {
                let reason = format!("{character:?} is not one ASCII character, such as ;");
                return Err(DataError::Argument { argument: "--delimiter", reason });
            }
        };
        Ok(match (self.format, delimiter) {
            (None, None) => None,
            (None | Some(FormatArgument::Csv), delimiter) => {
                Some(FileFormat::Csv { delimiter: delimiter.unwrap_or(b',') })
            }
            (Some(FormatArgument::Tsv), delimiter) => Some(FileFormat::Csv { delimiter: delimiter.unwrap_or(b'\t') }),
            (Some(FormatArgument::Parquet), _) => Some(FileFormat::Parquet),
        })
    }
}

/// Reads the file that an argument names.
pub(super) fn read_text(argument: &'static str, path: &Path) -> Result<String, DataError> {
    std::fs::read_to_string(path).map_err(|source| DataError::File { argument, path: path.to_owned(), source })
}

fn parse_offset(text: &str) -> Result<UtcOffset, String> {
    parse_zone(text).ok_or_else(|| format!("{text:?} is no offset from UTC, such as UTC, +01:00 or -0530"))
}
