//! The error responses that handlers declare, as types of `responses(...)` in `utoipa::path`.
//!
//! Every handler names [`Rejection`]. A handler names a type below where its errors depend on what it does; `answer` adds
//! those that follow from its method, parameters and body.

use std::collections::BTreeMap;

use undertone_api::problem::Code;
use utoipa::IntoResponses;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response, ResponseBuilder};

use crate::rest::problem::Rejection;

/// The media type of problem documents.
pub(super) const PROBLEM: &str = "application/problem+json";

/// 401: the credentials in the body are wrong.
pub(in crate::rest) enum WrongCredentials {}

/// 409: the subject's state does not allow the operation, or an audit withholds what is read.
pub(in crate::rest) enum WrongState {}

/// 410: the one-time link in the path can no longer be used.
pub(in crate::rest) enum SpentLink {}

impl IntoResponses for Rejection {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
        let response = ResponseBuilder::new().description("Any other failure, as a problem document.");
        BTreeMap::from([("default".to_owned(), RefOr::T(response.content(PROBLEM, content).build()))])
    }
}

impl IntoResponses for WrongCredentials {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        refer_to(Code::WrongCredentials)
    }
}

impl IntoResponses for WrongState {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        refer_to(Code::WrongState)
    }
}

impl IntoResponses for SpentLink {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        refer_to(Code::LinkSpent)
    }
}

/// Returns the response of a code's status, as a reference to its component.
fn refer_to(code: Code) -> BTreeMap<String, RefOr<Response>> {
    let status = code.http_status();
    BTreeMap::from([(status.to_string(), RefOr::Ref(Ref::from_response_name(component_name(status))))])
}

/// Returns the name of the component that describes the problems of a status.
pub(super) fn component_name(status: u16) -> String {
    format!("Problem{status}")
}
