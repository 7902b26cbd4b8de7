//! Signed documents in requests of workers.

use tonic::Status;
use undertone_api::problem::{Code, Problem, Violation};
use undertone_api::signed::Signed;
use undertone_proto::{to_status, v1};

use super::convert::{json_texts, texts};

/// Returns the refusal of an unreadable request.
pub(super) fn malformed(detail: &str) -> Status {
    to_status(&Problem::new(Code::Malformed, detail))
}

/// Reads a required signed document.
pub(super) fn signed(document: Option<v1::Signed>, field: &str) -> Result<Signed, Status> {
    let missing = || to_status(&Problem::validation(vec![Violation::new(field, "send the signed document")]));
    parse_signed(document.ok_or_else(missing)?)
}

/// Reads a signed document, and checks that a database can store its texts.
pub(super) fn parse_signed(document: v1::Signed) -> Result<Signed, Status> {
    texts([&*document.payload, &*document.signature])?;
    json_texts(document.payload.as_bytes())?;
    Ok(Signed::from(document))
}

/// Reads several signed documents.
pub(super) fn parse_all_signed(documents: Vec<v1::Signed>) -> Result<Vec<Signed>, Status> {
    documents.into_iter().map(parse_signed).collect()
}
