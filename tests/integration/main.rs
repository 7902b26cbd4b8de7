//! The end-to-end tests of Undertone, and the tests of its architecture.

mod architecture;
mod attacks;
mod audit;
mod automation;
mod bits;
mod claims;
mod crash;
mod dashboard;
mod demo;
mod documentation;
mod evaluation;
mod federated;
mod holding;
mod keeping;
mod language;
mod line;
mod operation;
mod package;
mod private_lead;
mod questions;
mod refusal;
mod simulation;
mod supply;
mod tampering;
mod terms;
mod transcription;
