//! The one matrix: every address of REST, every method of gRPC, every server function and page of the dashboard, with what
//! it asks of the policy. Tests only.
//!
//! [`coverage`] fails when one of them is not listed, or something listed is not there, and prints the whole as a snapshot.
//! [`live`] sends every REST request as every kind of caller and holds what the server answers against the table, and what
//! it asked of the policy meanwhile too. To add an address: a line in the table of its face.
//!
//! A line: `"GET /jobs/{id}": ReadJob @ Consortium;`. Several questions, in the order in which they are asked, have `&&`
//! between; what follows a `then` is asked by some callers only (a list that leaves out what may not be seen). `! "why"`
//! asks nobody who they are. `only "who"` says which rule of the service holds beside the policy. One address that asks
//! differently by its body has a line for each, with a word behind it: `"POST /invitations (member)"`.

mod coverage;
mod dashboard;
mod grpc;
mod live;
mod rest;

use crate::auth::Operation;

/// Where an operation is asked about: the caller's relation to it decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    /// The server as such.
    Server,
    /// The consortium of the address, or of the job in it.
    Consortium,
    /// The organization of the address, or the owner of the dataset in it.
    Organization,
}

/// One line of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    /// Method and address, and a word where one address has several lines.
    pub(crate) name: &'static str,
    /// What is asked of the policy, in order: each must be answered with yes.
    pub(crate) asks: &'static [(Operation, At)],
    /// What some callers are asked besides, and may be refused without the whole being refused.
    pub(crate) then: &'static [Operation],
    /// Why nobody is asked who they are.
    pub(crate) open: Option<&'static str>,
    /// Which rule of the service holds besides.
    pub(crate) only: Option<&'static str>,
}

impl Row {
    /// Method and address, without the word.
    pub(crate) fn route(&self) -> &'static str {
        self.name.split(" (").next().unwrap_or(self.name)
    }

    /// The word behind the address, if there is one.
    pub(crate) fn word(&self) -> Option<&'static str> {
        self.name.split_once(" (").map(|(_, word)| word.trim_end_matches(')'))
    }
}

/// The one word of a list that has at most one.
const fn first(list: &[&'static str]) -> Option<&'static str> {
    match list {
        [first, ..] => Some(*first),
        [] => None,
    }
}

macro_rules! table {
    ($($name:literal: $(! $open:literal)? $($operation:ident @ $at:ident)&&*
        $(, then $($then:ident)|+)? $(, only $only:literal)?;)*) => {
        &[$($crate::matrix::Row {
            name: $name,
            asks: &[$(($crate::auth::Operation::$operation, $crate::matrix::At::$at)),*],
            then: &[$($($crate::auth::Operation::$then),+)?],
            open: $crate::matrix::first(&[$($open)?]),
            only: $crate::matrix::first(&[$($only)?]),
        },)*]
    };
}

pub(crate) use table;
