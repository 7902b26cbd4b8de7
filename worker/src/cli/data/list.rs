//! `data list`: the datasets in the site's folder.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use super::DataError;
use crate::site::folder::Folder;
use crate::speech::dataset::{Dataset, DatasetError, Meta, read_meta};

/// Show this site's datasets.
#[derive(Debug, Args)]
pub(super) struct List {
    /// Another folder of datasets than the site's.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Read every dataset whole and compare it with its digest.
    #[arg(long)]
    check: bool,
}

impl List {
    pub(super) fn run(&self, folder: &Folder, out: &mut dyn Write) -> Result<(), DataError> {
        let datasets = self.folder.clone().unwrap_or_else(|| folder.datasets());
        let rows = rows(&datasets, self.check)?;
        let table = if rows.is_empty() {
            format!("No dataset in {}. Make one with `undertone-worker data prepare`.\n", datasets.display())
        } else {
            table(&rows)
        };
        out.write_all(table.as_bytes()).map_err(DataError::Print)
    }
}

/// A folder's name, and the dataset in it.
type Row = (String, Result<Meta, DatasetError>);

/// One row for each folder that is not hidden: its name, and what it is.
fn rows(datasets: &Path, check: bool) -> Result<Vec<Row>, DataError> {
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
            let whole = || Dataset::open(&entry.path()).map(|dataset| dataset.meta().clone());
            rows.push((name, if check { whole() } else { read_meta(&entry.path()) }));
        }
    }
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(rows)
}

fn table(rows: &[Row]) -> String {
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).max("NAME".len());
    let line = |name: &str, [train, speakers, test, frames, classes, digest]: [&str; 6]| {
        format!("{name:width$}  {train:>7}  {speakers:>8}  {test:>6}  {frames:>10}  {classes:>7}  {digest}\n")
    };
    let head = line("NAME", ["TRAIN", "SPEAKERS", "TEST", "FRAMES", "CLASSES", "DIGEST"]);
    let row = |(name, meta): &Row| match meta {
        Err(error) => format!("{name:width$}  {error}\n"),
        Ok(meta) => {
            let counts =
                [meta.train.utterances, meta.train.speakers, meta.test.utterances].map(|count| count.to_string());
            let (frames, classes) = (meta.frames.to_string(), meta.classes.to_string());
            let digest = meta.digest.get(..12).unwrap_or(&meta.digest);
            line(name, [&counts[0], &counts[1], &counts[2], &frames, &classes, digest])
        }
    };
    std::iter::once(head).chain(rows.iter().map(row)).collect()
}
