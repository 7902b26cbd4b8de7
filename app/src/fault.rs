//! The error of server functions.

use leptos::prelude::{FromServerFnError, ServerFnErrorErr};
use leptos::server_fn::codec::JsonEncoding;
use serde::{Deserialize, Serialize};
use undertone_api::problem::{Code, Problem};

/// A problem in a response to the browser.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{0}")]
#[serde(transparent)]
pub struct Fault(pub Problem);

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

#[cfg(feature = "ssr")]
impl From<undertone_server_core::error::Error> for Fault {
    fn from(error: undertone_server_core::error::Error) -> Self {
        Self(error.into_problem())
    }
}

impl FromServerFnError for Fault {
    type Encoder = JsonEncoding;

    fn from_server_fn_error(error: ServerFnErrorErr) -> Self {
        let code = match error {
            ServerFnErrorErr::Request(_) | ServerFnErrorErr::Response(_) => Code::Unavailable,
            ServerFnErrorErr::Args(_) | ServerFnErrorErr::MissingArg(_) | ServerFnErrorErr::Deserialization(_) => {
                Code::Malformed
            }
            _ => Code::Internal,
        };
        Self(Problem::new(code, error.to_string()))
    }
}
