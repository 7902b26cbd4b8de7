//! Checks that the tables of each interface are complete, and prints the matrix.

use std::collections::BTreeSet;

use prost::Message as _;
use prost_types::FileDescriptorSet;
use undertone_proto::DESCRIPTOR;

use super::dashboard::{FUNCTIONS, PAGES};
use super::grpc::GRPC;
use super::rest::REST;
use super::{CheckScope, MatrixRow};
use crate::rest::openapi;
use undertone_server_core::auth::Operation;

/// Returns the existing entries that are not listed, and the listed entries that do not exist.
fn differences(there: &BTreeSet<String>, table: &[MatrixRow]) -> Vec<String> {
    let listed: BTreeSet<String> = table.iter().map(|row| row.route().to_owned()).collect();
    let missing = there.difference(&listed).map(|name| format!("{name} is not in the matrix: add a line"));
    let extra = listed.difference(there).map(|name| format!("{name} is in the matrix and not there"));
    missing.chain(extra).collect()
}

/// Returns every method and address of the OpenAPI document.
pub(super) fn routes() -> BTreeSet<String> {
    let document = serde_json::to_value(openapi::document()).expect("JSON");
    let paths = document["paths"].as_object().expect("paths");
    let methods = paths.iter().flat_map(|(path, methods)| {
        methods.as_object().expect("methods").keys().map(move |method| format!("{} {path}", method.to_uppercase()))
    });
    methods.collect()
}

#[test]
fn every_address_of_rest_is_in_the_matrix() {
    assert_eq!(differences(&routes(), REST), [""; 0]);
}

#[test]
fn every_method_of_grpc_is_in_the_matrix() {
    let set = FileDescriptorSet::decode(DESCRIPTOR).expect("descriptors");
    let services = set.file.iter().flat_map(|file| &file.service);
    let methods = services
        .flat_map(|service| service.method.iter().map(|method| format!("{}/{}", service.name(), method.name())));
    assert_eq!(differences(&methods.collect(), GRPC), [""; 0]);
}

#[test]
fn every_server_function_and_page_is_in_the_matrix() {
    assert_eq!(differences(&crate::dashboard::functions(), FUNCTIONS), [""; 0]);
    assert_eq!(differences(&crate::dashboard::pages(), PAGES), [""; 0]);
}

#[test]
fn every_operation_is_reached_by_rest() {
    let reached: Vec<Operation> = REST
        .iter()
        .flat_map(|row| row.asks.iter().map(|(operation, _)| *operation).chain(row.then.iter().copied()))
        .collect();
    let alone: Vec<&Operation> = Operation::ALL.iter().filter(|operation| !reached.contains(operation)).collect();
    assert!(alone.is_empty(), "no address of REST reaches {alone:?}");
}

#[test]
fn open_rows_of_the_matrix_list_no_checks() {
    for row in [REST, GRPC, FUNCTIONS, PAGES].concat() {
        assert_eq!(row.open.is_some(), row.asks.is_empty(), "{}", row.name);
    }
}

/// Returns the permitted standings of one line: one standing for each check is enough.
fn who(row: &MatrixRow) -> String {
    if let Some(open) = row.open {
        return format!("open: {open}");
    }
    let checks = row.asks.iter().map(|(operation, at)| {
        let place = match at {
            CheckScope::Server => "server",
            CheckScope::Consortium => "consortium",
            CheckScope::Organization => "organization",
        };
        let standings: Vec<&str> = operation.allowed().iter().map(|standing| standing.label()).collect();
        let key = operation.scope().map_or("no key", |scope| scope.word());
        format!("{operation:?} @ {place} [{key}]: {}", standings.join(", "))
    });
    checks.collect::<Vec<_>>().join("; and ")
}

/// The complete matrix, as a readable table.
#[test]
fn the_matrix_of_all_faces_is_what_was_agreed() {
    let mut lines = Vec::new();
    for (face, table) in [("REST", REST), ("gRPC", GRPC), ("dashboard", FUNCTIONS), ("pages", PAGES)] {
        lines.push(format!("{face}: {}", table.len()));
        for row in table {
            let then: Vec<String> = row.then.iter().map(|operation| format!("{operation:?}")).collect();
            let then = if then.is_empty() { String::new() } else { format!("; some are asked {}", then.join(", ")) };
            let only = row.only.map(|only| format!("; only {only}")).unwrap_or_default();
            lines.push(format!("  {:<58} {}{then}{only}", row.name, who(row)));
        }
    }
    insta::assert_snapshot!(lines.join("\n"));
}
