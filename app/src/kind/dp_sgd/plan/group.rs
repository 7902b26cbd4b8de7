//! A plan's secure aggregation: whether it is used, the smallest group, and the colluding sites.

use serde::{Deserialize, Serialize};
use undertone_api::job::dp_sgd::SecureAggregation;

/// The group of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupPlan {
    /// Whether the vectors are added under masks.
    pub on: bool,
    /// n: the fewest sites of a sum.
    pub smallest: u8,
    /// t: the sites that may collude with the server.
    pub colluding: u8,
}

impl Default for GroupPlan {
    fn default() -> Self {
        Self { on: false, smallest: 3, colluding: 1 }
    }
}

impl GroupPlan {
    /// Returns the terms of the group; `None` if none is requested.
    pub fn terms(self) -> Option<SecureAggregation> {
        self.on.then(|| SecureAggregation::new(self.smallest, self.colluding))
    }

    /// Returns the plan of these terms.
    #[cfg(feature = "ssr")]
    pub(super) fn from_terms(terms: Option<&SecureAggregation>) -> Self {
        terms.map_or_else(Self::default, |terms| Self {
            on: true,
            smallest: terms.smallest_group,
            colluding: terms.colluding,
        })
    }
}
