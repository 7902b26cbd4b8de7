//! Conversions that the services share: errors to statuses, and the texts and JSON of requests.

use std::time::Duration;

use tonic::Status;
use undertone_api::problem::{Problem, Violation};
use undertone_proto::{to_retry_status, to_status};
use undertone_server_core::error::Error;
use undertone_server_core::nul_bytes;

/// Converts an error to a status.
pub(super) fn fail(error: Error) -> Status {
    fail_with(&error.into_problem())
}

/// Converts a problem to a status.
pub(super) fn fail_with(problem: &Problem) -> Status {
    match problem.retry_after {
        Some(seconds) => to_retry_status(problem, Duration::from_secs(seconds.into())),
        None => to_status(problem),
    }
}

/// Refuses texts that no database can store or search for.
pub(super) fn texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<(), Status> {
    nul_bytes::refuse_in_texts(texts).map_err(fail)
}

/// Refuses a document with such texts.
pub(super) fn json_texts(document: &[u8]) -> Result<(), Status> {
    nul_bytes::refuse_in_json(document).map_err(fail)
}

/// Reads a field with a JSON document.
pub(super) fn json<T: serde::de::DeserializeOwned>(text: &str, field: &str) -> Result<T, Status> {
    json_texts(text.as_bytes())?;
    serde_json::from_str(text)
        .map_err(|error| to_status(&Problem::validation(vec![Violation::new(field, error.to_string())])))
}
