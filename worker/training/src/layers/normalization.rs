//! The normalizations that a model may use, and the reason to reject batch normalization.

use std::str::FromStr;

use super::layer_norm::LayerNorm;

/// A normalization of a layer's outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameNormalization {
    /// Normalizes each frame separately.
    Layer,
    /// Normalizes each number over all frames of a batch.
    Batch,
}

/// Reasons why a normalization is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NormalizationError {
    /// The normalization mixes units.
    #[error(
        "batch normalization mixes units: every output depends on everybody in the batch, so no unit has a gradient of its \
         own that could be clipped, and the running statistics would leave without noise; use `layer` normalization"
    )]
    Batch,
    /// The name is not that of a normalization.
    #[error("unknown normalization: use `layer` (`batch` is rejected because it mixes units)")]
    Unknown,
}

impl FrameNormalization {
    /// Returns the layer.
    ///
    /// # Errors
    /// [`NormalizationError::Batch`] for batch normalization, in every case.
    pub const fn layer(self, features: usize) -> Result<LayerNorm, NormalizationError> {
        match self {
            Self::Layer => Ok(LayerNorm { features }),
            Self::Batch => Err(NormalizationError::Batch),
        }
    }
}

impl FromStr for FrameNormalization {
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
    use super::{FrameNormalization, NormalizationError};
    use crate::layers::layer_norm::LayerNorm;

    #[test]
    fn batch_normalization_is_refused_with_reason_and_remedy() {
        let refused = "batch".parse().and_then(|normalization: FrameNormalization| normalization.layer(4));
        assert_eq!(refused, Err(NormalizationError::Batch));
        let text = NormalizationError::Batch.to_string();
        assert!(text.contains("mixes units") && text.contains("use `layer` normalization"), "{text}");
        assert_eq!(
            "layer".parse().map(|normalization: FrameNormalization| normalization.layer(4)),
            Ok(Ok(LayerNorm { features: 4 }))
        );
    }
}
