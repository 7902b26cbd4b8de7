//! The mathematics of privacy loss: the code that a privacy officer must audit, in one crate without side effects.
//!
//! Pure functions: the cost of a release, the sum of costs, and whether a budget admits one more. No IO, no clock, no
//! randomness, no tensors: the same code, compiled for server, worker and browser, gives the same bits everywhere.
//! The formulas cite their papers; rounding is toward safety: costs up, budgets down.

pub mod adjacency;
pub mod amplify;
pub mod audit;
pub mod calibrate;
pub mod convert;
pub mod correlated;
pub mod curve;
pub mod event;
pub mod fixed;
pub mod gaussian;
pub mod group;
pub mod histogram;
pub mod kanon;
pub mod ledger;
pub mod level;
pub mod mechanism;
pub mod membership;
pub mod pld;
pub mod selection;
pub mod special;
pub mod transfer;
pub mod unit;

pub use adjacency::{Adjacency, PrivacyUnit};
pub use curve::{Curve, OrderGrid};
pub use event::Event;
pub use fixed::Fixed;
pub use mechanism::{EVALUATOR_VERSION, PriceError};
pub use unit::{Delta, Epsilon, MeanRuns, NoiseMultiplier, Order, RunShape, SamplingRate, StoppingRate, UnitError};
