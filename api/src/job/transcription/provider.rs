//! The cloud recognizers that receive the pieces and the dummies.

use serde::{Deserialize, Serialize};

use super::price::Price;

/// The protocol of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TranscriptionProtocol))]
#[serde(rename_all = "snake_case")]
pub enum ProviderProtocol {
    /// `POST v1/audio/transcriptions`.
    Openai,
    /// `POST v1/speech:recognize`.
    Google,
    /// `POST v1/listen`.
    Deepgram,
}

impl ProviderProtocol {
    /// All protocols, in the order of forms.
    pub const ALL: [Self; 3] = [Self::Openai, Self::Google, Self::Deepgram];

    /// Returns the longest sound that the protocol takes in one request, seconds.
    pub const fn longest(self) -> u32 {
        match self {
            // A file of 25 MB, with a header of 44 bytes.
            Self::Openai => 780,
            Self::Google => 60,
            // Two minutes of concurrent processing. The service accepts far longer sounds than any piece.
            Self::Deepgram => 3_600,
        }
    }

    /// Returns the word in a spec.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Openai => "openai",
            Self::Google => "google",
            Self::Deepgram => "deepgram",
        }
    }

    /// Returns the name for display.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Openai => "OpenAI-compatible",
            Self::Google => "Google Speech",
            Self::Deepgram => "Deepgram",
        }
    }
}

/// One of the providers. Its address and key are in the site's configuration; a spec only names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TranscriptionProvider))]
#[serde(deny_unknown_fields)]
pub struct Provider {
    /// The site's name for it: 1 to 40 letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// The protocol. The site's configuration must state the same, so that the approving steward knows the recipients.
    pub protocol: ProviderProtocol,
    /// The assumed price, for the plan. The bill follows the site's own configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
}
