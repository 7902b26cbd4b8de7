//! `data list`: lists the datasets in the site's folder.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use super::DataError;
use crate::site::datasets::DatasetMeta;
use crate::site::folder::Folder;
use crate::site::lineage::has_sources;
use crate::speech::dataset::DatasetError;

/// Show this site's datasets.
#[derive(Debug, Args)]
pub(super) struct ListCommand {
    /// List this folder of datasets instead of the site's.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Read each dataset completely and compare it with its digest.
    #[arg(long)]
    check: bool,
}

impl ListCommand {
    pub(super) fn run(&self, folder: &Folder, out: &mut dyn Write) -> Result<(), DataError> {
        let datasets = self.folder.clone().unwrap_or_else(|| folder.datasets());
        let rows = read_rows(&datasets, self.check)?;
        let table = if rows.is_empty() {
            format!("No dataset in {}. Create one with `undertone-worker data prepare`.\n", datasets.display())
        } else {
            format_table(&rows)
        };
        let notes = list_encoders(&rows) + &list_unknown_sources(&datasets, &rows);
        out.write_all((table + &notes).as_bytes()).map_err(DataError::Print)
    }
}

/// Names the datasets whose sources would not be recognized under another name; returns an empty text if there are
/// none.
fn list_unknown_sources(datasets: &Path, rows: &[DatasetRow]) -> String {
    let unknown = |(name, meta): &&DatasetRow| meta.as_ref().is_ok_and(|meta| !has_sources(&datasets.join(name), meta));
    let names: Vec<&str> = rows.iter().filter(unknown).map(|(name, _)| name.as_str()).collect();
    if names.is_empty() {
        return String::new();
    }
    format!(
        "\nUnknown sources: {}. Prepared elsewhere or by an older worker: prepare again with --replace, so that this site recognizes the same data\n\
         under another name.\n",
        names.join(", ")
    )
}

/// Returns a line for each table with encoded columns, with the digest of its encoder.
fn list_encoders(rows: &[DatasetRow]) -> String {
    let line = |(name, meta): &DatasetRow| match meta {
        Ok(DatasetMeta::Table(meta)) => Some(format!("\nEncoder of {name}: {}\n", meta.schema.encoder.as_ref()?)),
        _ => None,
    };
    rows.iter().filter_map(line).collect()
}

/// A folder's name and its dataset.
type DatasetRow = (String, Result<DatasetMeta, DatasetError>);

/// Returns one row for each folder that is not hidden.
fn read_rows(datasets: &Path, check: bool) -> Result<Vec<DatasetRow>, DataError> {
    let io = |source| DataError::File { argument: "--folder or --site", path: datasets.to_path_buf(), source };
    let entries = match std::fs::read_dir(datasets) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(io(error)),
    };
    let mut rows = Vec::new();
    for entry in entries {
        let entry = entry.map_err(io)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') && entry.path().is_dir() {
            let read = if check { DatasetMeta::check } else { DatasetMeta::read };
            rows.push((name, read(&entry.path())));
        }
    }
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(rows)
}

fn format_table(rows: &[DatasetRow]) -> String {
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).max("NAME".len());
    let line = |name: &str, [kind, train, speakers, users, test, frames, classes, digest]: [&str; 8]| {
        format!(
            "{name:width$}  {kind:7}  {train:>9}  {speakers:>8}  {users:>8}  {test:>8}  {frames:>10}  {classes:>7}  {digest}\n"
        )
    };
    let head = line("NAME", ["KIND", "TRAIN", "SPEAKERS", "USERS", "TEST", "FRAMES", "CLASSES", "DIGEST"]);
    let row = |(name, meta): &DatasetRow| match meta {
        Err(error) => format!("{name:width$}  {error}\n"),
        Ok(meta) => {
            let cells = format_cells(meta);
            line(name, cells.each_ref().map(String::as_str))
        }
    };
    std::iter::once(head).chain(rows.iter().map(row)).collect()
}

/// Returns the cells beside the name. A dash stands for a quantity that the kind lacks. Queries are counted by
/// occurrence, with users and labels where present.
fn format_cells(meta: &DatasetMeta) -> [String; 8] {
    let none = || "-".to_owned();
    let short = |digest: &str| digest.get(..12).unwrap_or(digest).to_owned();
    match meta {
        DatasetMeta::Speech(meta) => [
            "speech".to_owned(),
            meta.train.utterances.to_string(),
            meta.train.speakers.to_string(),
            meta.unit_column.as_ref().map_or_else(none, |_| meta.train.users.to_string()),
            meta.test.utterances.to_string(),
            meta.frames.to_string(),
            meta.classes.to_string(),
            short(&meta.digest),
        ],
        DatasetMeta::Queries(meta) => [
            "queries".to_owned(),
            meta.train.occurrences.to_string(),
            none(),
            if meta.has_users() { format!("~{}", meta.train.users) } else { none() },
            meta.test.occurrences.to_string(),
            none(),
            if meta.has_labels() { meta.labels.len().to_string() } else { none() },
            short(&meta.digest),
        ],
        // For recordings, seconds replace frames.
        DatasetMeta::Recordings(meta) => [
            "audio".to_owned(),
            meta.recordings.len().to_string(),
            none(),
            none(),
            none(),
            format!("{} s", meta.seconds()),
            none(),
            short(&meta.digest),
        ],
        // Units stand below users.
        DatasetMeta::Table(meta) => [
            "table".to_owned(),
            meta.rows.to_string(),
            none(),
            meta.units.to_string(),
            none(),
            none(),
            none(),
            short(&meta.digest),
        ],
    }
}
