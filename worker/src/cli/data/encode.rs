//! `data encode`: creates a dataset of this site from rows whose features a frozen encoder computes.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Deserialize;
use time::OffsetDateTime;
use undertone_api::table::{ColumnKind, TableColumn, TableSchema};
use undertone_worker_encoder::error::RowError;
use undertone_worker_encoder::specification::{EncoderSpec, InputSpec};
use undertone_worker_encoder::{Encoder, RowInput};

use super::DataError;
use super::rows::{RowArguments, read_text};
use crate::site::folder::Folder;
use crate::tables::encode::{RowEncoder, read_number, read_text as read_input, to_source_schema};
use crate::tables::quarantine::RejectReason;
use crate::tables::value::SourceValue;

/// Create a dataset of this site from rows whose features a frozen encoder computes, for training on rows.
///
/// The encoder is an ONNX graph that was not trained on these rows. It reads each row alone: numbers, a text, or a file of
/// audio or of an image. Its outputs become columns of numbers in the declared range, beside the declared columns of the
/// source. Rows that cannot be used are left out and counted in the dataset's report.json, which stays at the site. Repeat the
/// command with --replace to refresh the rows: the lifetime accounts continue.
#[derive(Debug, Args)]
pub(super) struct EncodeCommand {
    #[command(flatten)]
    rows: RowArguments,
    /// The ONNX file of the encoder, with its weights inside.
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    /// The public facts, in TOML: the columns that are kept, and in `[encoder]` the input, and the range of the outputs. They
    /// are declared, not computed from the rows, because they leave the site.
    #[arg(long, value_name = "FILE")]
    encoding: PathBuf,
    /// The folder below which the files of audio or of images lie.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// The file of an encoding. The unit may be in the command instead.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EncodingFile {
    unit: Option<String>,
    #[serde(default)]
    columns: Vec<TableColumn>,
    encoder: EncoderSpec,
}

impl EncodeCommand {
    pub(super) fn run(&self, folder: &Folder, now: OffsetDateTime, out: &mut dyn Write) -> Result<(), DataError> {
        let invalid = |reason: String| DataError::Argument { argument: "--encoding", reason };
        self.rows.check_visibility()?;
        let text = read_text("--encoding", &self.encoding)?;
        let file: EncodingFile = toml::from_str(&text).map_err(|error| invalid(error.to_string()))?;
        let unit_column = self.rows.select_unit("--encoding", file.unit)?;
        // The files that the encoding names lie beside it.
        let files = self.encoding.parent().unwrap_or(Path::new(""));
        let encoder = Encoder::open(&self.model, &file.encoder, files, self.folder.as_deref())?;
        let encoded = EncodedRows { encoder, spec: file.encoder };
        let columns = file.columns.into_iter().chain(encoded.output_columns()).collect();
        let schema = TableSchema { unit_column, columns, encoder: Some(encoded.encoder.digest().to_owned()) };
        let source = to_source_schema(&schema, &encoded);
        if let Some(violation) = schema.check("table").into_iter().chain(source.check("source")).next() {
            return Err(invalid(format!("{}: {}", violation.field, violation.message)));
        }
        let encoder = &encoded.encoder;
        let (digest, graph, width) = (encoder.digest(), encoder.graph_digest(), encoder.width());
        writeln!(out, "Encoder         {digest}\nGraph           {graph} (SHA-256)\nFeatures        {width}")
            .map_err(DataError::Print)?;
        self.rows.add(schema, Some(&encoded), folder, now, out)
    }
}

/// The rows of a source with the features of an encoder.
struct EncodedRows {
    encoder: Encoder,
    spec: EncoderSpec,
}

impl EncodedRows {
    /// Returns the columns of the features.
    fn output_columns(&self) -> impl Iterator<Item = TableColumn> {
        let EncoderSpec { prefix, least, most, step, .. } = &self.spec;
        let kind = ColumnKind::Real { least: *least, most: *most, step: *step };
        (0..self.encoder.width())
            .map(move |number| TableColumn { name: format!("{prefix}_{number}"), kind: kind.clone() })
    }
}

impl RowEncoder for EncodedRows {
    fn source_columns(&self) -> Vec<TableColumn> {
        // The kind states which types of columns suit; its range is not used, because nothing is stored.
        let kind = match self.spec.input {
            InputSpec::Numbers { .. } => ColumnKind::Real { least: -1.0, most: 1.0, step: 1.0 },
            _ => ColumnKind::Text { most_grams: 1, characters: false },
        };
        let column = |name: &String| TableColumn { name: name.clone(), kind: kind.clone() };
        self.spec.input.columns().iter().map(column).collect()
    }

    fn width(&self) -> usize {
        self.encoder.width()
    }

    fn encode(&self, values: &[SourceValue]) -> Result<Vec<f32>, RejectReason> {
        let result = if let InputSpec::Numbers { .. } = self.spec.input {
            let numbers: Vec<f32> =
                values.iter().map(|value| Ok(read_number(value)? as f32)).collect::<Result<_, RejectReason>>()?;
            self.encoder.encode(&RowInput::Numbers(&numbers))
        } else {
            let text = read_input(values.first().unwrap_or(&SourceValue::Missing))?;
            self.encoder.encode(&if self.spec.input.is_file() { RowInput::File(text) } else { RowInput::Text(text) })
        };
        result.map_err(|error| match error {
            RowError::Kind => RejectReason::NoInput,
            RowError::Path => RejectReason::InputPath,
            RowError::File => RejectReason::InputFile,
            RowError::Graph => RejectReason::EncoderGraph,
            RowError::NotFinite => RejectReason::EncoderOutput,
        })
    }
}
