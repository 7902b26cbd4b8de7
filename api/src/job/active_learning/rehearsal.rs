//! An experiment on public data: the cost of (β, k) in accuracy, had the lead's log been private.

use serde::{Deserialize, Serialize};

/// An experiment on the lead's public log with simulated annotators. It runs every pair of a rate and a threshold. It
/// also runs β = 1 with k = 1 for comparison, which protects no one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Rehearsal {
    /// β: 1 to 10 rates, above 0 and below 1, ascending.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 10))]
    pub rates: Vec<f64>,
    /// k: 1 to 10 thresholds, 1 to 100,000, ascending.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 10))]
    pub thresholds: Vec<u32>,
    /// Questions in each trial, in rounds of the job's batch: 1 to 100,000.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 100_000))]
    pub questions: u32,
    /// Repeats of each trial, with other random numbers: 1 to 20.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 20))]
    pub repeats: u32,
    /// The probability with which a simulated annotator gives the label of the log, else another at random: above 0, at
    /// most 1. With a deviation, its mean before the limits 0 and 1.
    #[cfg_attr(feature = "openapi", schema(exclusive_minimum = 0, maximum = 1))]
    pub annotator_accuracy: f64,
    /// σ: each simulated annotator of a repeat has an accuracy of its own, drawn from a normal distribution around
    /// `annotator_accuracy` with this standard deviation and limited to 0 … 1; 0 to 0.5. With 0 all have the same.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 0.5))]
    pub annotator_deviation: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}
