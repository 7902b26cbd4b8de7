//! The commands, one file each. A command turns options into requests, and answers into a document and its text.

pub(crate) mod consortia;
pub(crate) mod datasets;
pub(crate) mod fetch;
pub(crate) mod jobs;
pub(crate) mod plan;
pub(crate) mod propose;
pub(crate) mod sign_in;
pub(crate) mod sign_out;
pub(crate) mod verify;
pub(crate) mod watch;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

/// The reason why a file of the caller cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    /// It cannot be read.
    #[error("cannot read {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// It is no document of a job.
    #[error("{path} is no job: expected a JSON object with `title`, `kind` and `spec`")]
    Form {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Option<serde_json::Error>,
    },
}

/// Reads the document of a job from a file, or from the standard input for `-`. The server examines its fields, so that
/// a refusal names each violation.
///
/// # Errors
/// [`InputError`] when it cannot be read or is no JSON object.
pub(crate) fn read_job(path: &Path) -> Result<Map<String, Value>, InputError> {
    let in_file = |source| InputError::File { path: path.to_owned(), source };
    let mut text = String::new();
    if path == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).map_err(in_file)?;
    } else {
        text = std::fs::read_to_string(path).map_err(in_file)?;
    }
    let form = |source| InputError::Form { path: path.to_owned(), source };
    match serde_json::from_str(&text).map_err(|error| form(Some(error)))? {
        Value::Object(document) if ["title", "kind", "spec"].iter().all(|key| document.contains_key(*key)) => {
            Ok(document)
        }
        _ => Err(form(None)),
    }
}

#[cfg(test)]
mod tests {
    use super::{InputError, read_job};

    #[test]
    fn job_is_an_object_with_its_three_fields() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("job.json");
        assert!(matches!(read_job(&path), Err(InputError::File { .. })));
        for text in ["", "[]", "{\"title\": \"x\", \"kind\": \"dp_sgd\"}"] {
            std::fs::write(&path, text).expect("written");
            assert!(matches!(read_job(&path), Err(InputError::Form { .. })), "{text}");
        }
        std::fs::write(&path, r#"{"title": "x", "kind": "dp_sgd", "spec": {"clip": 0.1}}"#).expect("written");
        assert_eq!(read_job(&path).expect("a job")["spec"]["clip"], 0.1);
    }
}
