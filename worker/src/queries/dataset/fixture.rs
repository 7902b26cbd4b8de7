//! Datasets of queries for tests of any room.

use std::path::Path;

use undertone_api::dataset::Visibility;

use super::Reader;
use crate::queries::log::{Columns, Reading};
use crate::queries::prepare::{Options, prepare};
use crate::speech::progress::Silent;

/// Options for preparing the CSV `text`, which is put in `folder`, as the dataset `folder/<name>`. Columns are mapped by their
/// usual names: text, session or user, count, intent, split. Logs with labels are public.
pub(crate) fn options(folder: &Path, name: &str, text: &str) -> Options {
    let log = folder.join(format!("{name}.csv"));
    std::fs::write(&log, text).expect("the folder is writable");
    let header: Vec<&str> = text.lines().next().unwrap_or_default().split(',').collect();
    let has = |name: &str| header.contains(&name).then(|| name.to_owned());
    let columns = Columns {
        text: "text".to_owned(),
        user: has("session").or_else(|| has("user")),
        count: has("count"),
        label: has("intent"),
        subset: has("split"),
    };
    let mut options = Options::new(vec![log], Reading::new(columns), &folder.join(name), name, [7; 32]);
    if has("intent").is_some() {
        options.visibility = Visibility::Public;
    }
    if has("split").is_some() {
        options.test = vec!["test".to_owned()];
    }
    options
}

/// The dataset that [`options`] make.
pub(crate) fn prepared(folder: &Path, name: &str, text: &str) -> Reader {
    let options = options(folder, name, text);
    prepare(&options, &Silent).expect("the log has rows that can be used");
    Reader::open(&options.output).expect("it was just written")
}
