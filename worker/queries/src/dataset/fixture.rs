//! Datasets of queries for the tests of other modules.

#![expect(clippy::missing_panics_doc, reason = "a test fails by panicking")]

use std::path::Path;

use undertone_api::dataset::Visibility;

use super::Reader;
use crate::log::{ColumnMap, ReadOptions};
use crate::prepare::{PrepareOptions, prepare};
use undertone_worker_site::progress::SilentProgress;

/// Returns options that prepare the CSV `text`, written to `folder`, as the dataset `folder/<name>`. Columns have their
/// usual names: text, session or user, count, intent, split. Logs with labels are public.
pub fn options(folder: &Path, name: &str, text: &str) -> PrepareOptions {
    let log = folder.join(format!("{name}.csv"));
    std::fs::write(&log, text).expect("the folder is writable");
    let header: Vec<&str> = text.lines().next().unwrap_or_default().split(',').collect();
    let has = |name: &str| header.contains(&name).then(|| name.to_owned());
    let columns = ColumnMap {
        text: "text".to_owned(),
        user: has("session").or_else(|| has("user")),
        count: has("count"),
        label: has("intent"),
        subset: has("split"),
    };
    let mut options = PrepareOptions::new(vec![log], ReadOptions::new(columns), &folder.join(name), name, [7; 32]);
    if has("intent").is_some() {
        options.visibility = Visibility::Public;
    }
    if has("split").is_some() {
        options.test = vec!["test".to_owned()];
    }
    options
}

/// Prepares and opens the dataset of [`options`].
pub fn prepared(folder: &Path, name: &str, text: &str) -> Reader {
    let options = options(folder, name, text);
    prepare(&options, &SilentProgress).expect("the log has rows that can be used");
    Reader::open(&options.output).expect("it was just written")
}
