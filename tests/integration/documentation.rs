//! The documentation, checked without mdBook: every page is in the summary, links and anchors resolve, commands, options, `make`
//! targets, REST addresses and labels of pages exist, and specs of jobs are read by the contract.

mod commands;
mod examples;
mod labels;
mod links;
mod pages;

pub(crate) use pages::extract_fenced;
