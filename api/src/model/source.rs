//! The data from which a model follows. Specs, manifests and certificates name them.

use serde::{Deserialize, Serialize};

/// The data from which a model follows: those of the arm that made it. Whatever the model began with adds its own
/// lineage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ModelSource {
    /// Public data alone.
    Public,
    /// Releases with noise, each charged: the model is their post-processing.
    Private,
    /// Exact results of data that their owners marked open: no ε covers the model.
    Open,
}

impl ModelSource {
    /// Returns the source in words.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Public => "public data",
            Self::Private => "differentially private releases",
            Self::Open => "exact gradients of open data",
        }
    }
}
