//! Which normalization a model may have, and why not the other.

use std::str::FromStr;

use super::layer_norm::LayerNorm;

/// A way to normalize what a layer gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Normalization {
    /// Each frame by itself.
    Layer,
    /// Each number over all frames of a batch.
    Batch,
}

/// Why a normalization is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NormalizationError {
    /// It mixes units.
    #[error(
        "batch normalization mixes units: every output depends on everybody in the batch, so no unit has a gradient of its \
         own that could be clipped, and the running statistics would leave without noise; use `layer` normalization"
    )]
    Batch,
    /// Not a name of one.
    #[error("a normalization is `layer`; `batch` is known and refused")]
    Unknown,
}

impl Normalization {
    /// The layer.
    ///
    /// # Errors
    /// [`NormalizationError::Batch`], always, for batch normalization.
    pub const fn layer(self, features: usize) -> Result<LayerNorm, NormalizationError> {
        match self {
            Self::Layer => Ok(LayerNorm { features }),
            Self::Batch => Err(NormalizationError::Batch),
        }
    }
}

impl FromStr for Normalization {
    type Err = NormalizationError;

    fn from_str(text: &str) -> Result<Self, NormalizationError> {
        match text {
            "layer" => Ok(Self::Layer),
            "batch" => Ok(Self::Batch),
            _ => Err(NormalizationError::Unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Normalization, NormalizationError};
    use crate::dp::layers::layer_norm::LayerNorm;

    #[test]
    fn batch_normalization_is_refused_with_the_reason_and_the_remedy() {
        let refused = "batch".parse().and_then(|normalization: Normalization| normalization.layer(4));
        assert_eq!(refused, Err(NormalizationError::Batch));
        let text = NormalizationError::Batch.to_string();
        assert!(text.contains("mixes units") && text.contains("use `layer` normalization"), "{text}");
        assert_eq!(
            "layer".parse().map(|normalization: Normalization| normalization.layer(4)),
            Ok(Ok(LayerNorm { features: 4 }))
        );
    }
}
