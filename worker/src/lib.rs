//! The daemon beside each dataset: it keeps the site's ledger, its policy and its key, and runs jobs where the data are.
//!
//! [`site`] says what may leave; [`run`] is how jobs run, on [`dp`], [`speech`] and [`queries`]; [`gateway`] speaks to the
//! server and [`daemon`] joins the two; [`cli`] is the command line. Trust goes one way: the site believes its own disk,
//! policy and key, and checks everything else.

pub mod cli;
pub mod config;
mod contained;
pub mod daemon;
pub mod dp;
pub mod fault;
pub mod gateway;
pub mod memory;
pub mod queries;
pub mod run;
pub mod site;
pub mod speech;
pub mod telemetry;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod limits;
