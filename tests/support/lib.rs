//! Common parts of the end-to-end tests and the benchmarks: finding, starting and killing programs, a real browser, a
//! REST client, and a test consortium. Scenarios belong in `integration/`.

pub mod annotator;
pub mod attack;
pub mod axe;
pub mod balancer;
pub mod browser;
pub mod client;
pub mod clouds;
pub mod ear;
pub mod engine;
pub mod line;
pub mod port;
pub mod process;
pub mod provider;
pub mod s3;
pub mod scene;
pub mod simulation;
pub mod small_disk;
pub mod stage;
pub mod wire;
pub mod workspace;
