//! The permission matrix: every address of REST, every method of gRPC, every server function and page of the dashboard,
//! with its policy checks. Tests only.
//!
//! [`coverage`] fails if one of them is missing from the tables, or a listed one does not exist, and prints the matrix
//! as a snapshot. [`live`] sends every REST request as every kind of caller, and compares the server's responses and
//! policy checks with the table. To add an address: a line in the table of its interface.
//!
//! A line: `"GET /jobs/{id}": ReadJob @ Consortium;`. Several checks, in their order, are separated by `&&`. The checks
//! after a `then` occur for some callers only (a list that omits hidden items). `! "why"` marks an address without
//! authentication. `only "who"` names a rule of the service besides the policy. An address whose checks depend on its
//! body has one line for each case, with a word after it: `"POST /invitations (member)"`.

mod coverage;
mod dashboard;
mod grpc;
mod live;
mod rest;

use undertone_server_core::auth::Operation;

/// The place of a check, by the caller's relation to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckScope {
    /// The server itself.
    Server,
    /// The consortium in the address, or the consortium of its job.
    Consortium,
    /// The organization in the address, or the owner of its dataset.
    Organization,
}

/// One line of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MatrixRow {
    /// Method and address, and a word if one address has several lines.
    pub(crate) name: &'static str,
    /// The policy checks, in order; all of them must succeed.
    pub(crate) asks: &'static [(Operation, CheckScope)],
    /// Checks that occur for some callers, and whose failure does not refuse the request.
    pub(crate) then: &'static [Operation],
    /// The reason why no authentication is required.
    pub(crate) open: Option<&'static str>,
    /// The additional rule of the service.
    pub(crate) only: Option<&'static str>,
}

impl MatrixRow {
    /// Returns method and address, without the word.
    pub(crate) fn route(&self) -> &'static str {
        self.name.split(" (").next().unwrap_or(self.name)
    }

    /// Returns the word after the address, if any.
    pub(crate) fn word(&self) -> Option<&'static str> {
        self.name.split_once(" (").map(|(_, word)| word.trim_end_matches(')'))
    }
}

/// Returns the word of a list that has at most one.
const fn first(list: &[&'static str]) -> Option<&'static str> {
    match list {
        [first, ..] => Some(*first),
        [] => None,
    }
}

macro_rules! table {
    ($($name:literal: $(! $open:literal)? $($operation:ident @ $at:ident)&&*
        $(, then $($then:ident)|+)? $(, only $only:literal)?;)*) => {
        &[$($crate::matrix::MatrixRow {
            name: $name,
            asks: &[$((undertone_server_core::auth::Operation::$operation, $crate::matrix::CheckScope::$at)),*],
            then: &[$($(undertone_server_core::auth::Operation::$then),+)?],
            open: $crate::matrix::first(&[$($open)?]),
            only: $crate::matrix::first(&[$($only)?]),
        },)*]
    };
}

pub(crate) use table;
