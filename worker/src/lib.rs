//! worker
pub mod speech;
pub mod dp;
pub mod run;
pub mod site;
