//! The daemon beside each dataset: it keeps the site's ledger, its policy and its key, and runs jobs at the data.
//!
//! [`site`] decides on releases; [`run`] runs jobs, with [`dp`], [`speech`], [`queries`] and [`tables`]; [`gateway`] is the
//! connection to the server and [`daemon`] joins the two; [`cli`] is the command line. Trust has one direction: the
//! site trusts its own disk, policy and key, and checks everything else.

pub mod cli;
pub mod config;
pub mod daemon;
pub mod datasets;
pub mod gateway;
pub mod lineage;
pub mod memory;
pub mod personal;
pub mod public_speech;
pub mod recognition;
pub mod restore;
pub mod run;
pub mod telemetry;

pub use undertone_worker_queries as queries;
pub use undertone_worker_site::fault;
pub use undertone_worker_tables as tables;
pub use undertone_worker_training as dp;

/// The site for this worker: the crate of the site, with the kinds of datasets and the configuration that it does not
/// know.
pub mod site {
    pub use undertone_worker_site::*;

    pub use crate::public_speech as speech;
    pub use crate::{datasets, lineage, restore};
}

/// The speech modules under one name: preparation, the model, and transcription.
pub mod speech {
    pub use undertone_worker_site::progress;
    #[cfg(test)]
    pub(crate) use undertone_worker_site::testing::fixture;
    pub use undertone_worker_speech::*;
    pub use undertone_worker_training::model;
    pub use undertone_worker_transcription as transcribe;
}

#[cfg(test)]
#[path = "../../tests/support/clouds.rs"]
pub mod clouds;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod testing;
#[cfg(test)]
pub(crate) use testing as fixture;
