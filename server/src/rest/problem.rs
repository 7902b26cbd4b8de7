//! The conversion of all errors into problem documents for REST.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use undertone_api::problem::{Code, Problem};

use undertone_server_core::error::Error;

/// An error response.
#[derive(Debug)]
pub struct Rejection(Box<Problem>);

impl Rejection {
    /// Makes an error response with this code.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Problem::new(code, detail).into()
    }
}

impl From<Problem> for Rejection {
    fn from(problem: Problem) -> Self {
        Self(Box::new(problem))
    }
}

impl From<Error> for Rejection {
    fn from(error: Error) -> Self {
        error.into_problem().into()
    }
}

impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, axum::Json(&*self.0)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if matches!(self.0.code, Code::Unauthenticated | Code::WrongCredentials | Code::WrongCode) {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        let later = match self.0.code {
            Code::RateLimited => Some(900),
            Code::Unavailable => Some(5),
            _ => None,
        };
        if let Some(seconds) = self.0.retry_after.or(later) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
