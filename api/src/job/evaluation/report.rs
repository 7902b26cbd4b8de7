//! The report of a finished job.

use serde::{Deserialize, Serialize};

use super::estimate::MetricEstimate;
use super::metrics::ClassMetrics;

/// The noisy histograms of one class, and what follows from them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = EvaluatedClass))]
pub struct ClassResult {
    /// The class.
    pub class: u32,
    /// The noisy number of units of the class, by bin of their score. Noise may make a count negative.
    pub positives: Vec<f64>,
    /// The noisy number of all other units, by bin.
    pub negatives: Vec<f64>,
    /// The metrics; absent when there are too few units for the noise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<ClassMetrics>,
    /// The reason for absent metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The report of a finished `evaluation` job: noisy counts of all sites together, and post-processing of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = EvaluationReport))]
pub struct Report {
    /// SHA-256 of the evaluated model's file, hex.
    pub model: String,
    /// The number of sites whose histograms are in the counts.
    pub sites: u32,
    /// The standard deviation of the noise in each coordinate of the pooled sums.
    pub deviation: f64,
    /// The share of units whose class is the model's first choice, if the job asks for it and there are enough units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<MetricEstimate>,
    /// The evaluated classes, in the spec's order.
    pub classes: Vec<ClassResult>,
}
