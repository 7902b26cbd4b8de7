//! The documentation, checked without mdBook: every page is in the summary, links and anchors resolve, commands, options, `make`
//! targets and REST addresses exist, and specs of jobs are read by the contract.

mod commands;
mod examples;
mod links;
mod pages;
