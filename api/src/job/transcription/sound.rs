//! The processing of pieces at the site before they leave. None of it changes the counts of words, so none of it is
//! charged. It determines how well a dummy is hidden, which is measured and not promised.

use serde::{Deserialize, Serialize};

/// The handling of pieces that have several words of the vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Crowded))]
#[serde(rename_all = "snake_case")]
pub enum CrowdedPieces {
    /// They keep their offline text.
    #[default]
    Keep,
    /// They are sent. No dummy has two words, so a provider recognizes them as true pieces: public data only.
    Send,
}

/// The text after which dummies are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Corpus))]
#[serde(rename_all = "snake_case")]
pub enum DummyCorpus {
    /// A small public English text that is part of the worker.
    #[default]
    Bundled,
    /// The text that the site's configuration names. It must be public; text of the same field is better.
    Site,
}

/// The dummies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Dummies))]
#[serde(default, deny_unknown_fields)]
pub struct DummyOptions {
    /// The text after which they are made.
    pub corpus: DummyCorpus,
}

/// The voice with which true pieces and dummies leave: one for all of them, or each speaker's own.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TranscriptionVoice))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum OutputVoice {
    /// The McAdams coefficient: it moves the resonances of all vocal tracts in the same way. An attacker who knows the
    /// conversion identifies most speakers.
    Mcadams {
        /// α: 0.5 to 0.95 or 1.05 to 1.5; 0.8 is usual.
        #[serde(default = "usual_alpha")]
        alpha: f64,
        /// Acknowledges that speakers can be identified. Private recordings need it.
        #[serde(default, skip_serializing_if = "is_false")]
        speakers_identifiable: bool,
    },
    /// A vocoder: it synthesizes every piece with one pitch, and maps its spectral envelope to one distribution.
    Vocoder {
        /// The number of coefficients of the envelope: 8 to 20, 13 is usual. Fewer hide more and are less intelligible.
        #[serde(default = "usual_detail")]
        detail: u32,
        /// Whether each piece has a random voice of its own, drawn from its digest. This hides speakers and recorded
        /// dummies much better, and makes words less clear.
        #[serde(default, skip_serializing_if = "is_false")]
        varied: bool,
    },
    /// The converter program of the site's configuration.
    Command,
    /// The converter server of the site's configuration.
    Url,
    /// The original voices: true pieces leave in the voices of the recordings, dummies in imitations of these voices.
    /// This hides which pieces are dummies, but not the speakers: recognizers can identify speakers by voice.
    /// Imitations also show each recognizer voices from the parts of others, so private recordings are charged for all
    /// recognizers together.
    Cloned,
}

const fn usual_alpha() -> f64 {
    0.8
}

const fn usual_detail() -> u32 {
    13
}

/// Returns whether a field is omitted, as in specs from before it existed: their digests stay valid.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

impl Default for OutputVoice {
    fn default() -> Self {
        Self::Vocoder { detail: usual_detail(), varied: true }
    }
}

impl OutputVoice {
    /// Returns the word in a spec.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Mcadams { .. } => "mcadams",
            Self::Vocoder { .. } => "vocoder",
            Self::Command => "command",
            Self::Url => "url",
            Self::Cloned => "cloned",
        }
    }

    /// Returns the name for display.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Mcadams { .. } => "McAdams coefficient",
            Self::Vocoder { .. } => "vocoder",
            Self::Command => "the site's own program",
            Self::Url => "the site's own server",
            Self::Cloned => "voices as they are, imitated for the dummies",
        }
    }

    /// Returns whether the recipients of pieces hear the speakers' own voices.
    pub const fn tells_speakers(self) -> bool {
        matches!(self, Self::Cloned)
    }

    /// Returns whether the recipients of pieces can identify most speakers: by their own voices, or through a conversion
    /// that the recipients know.
    pub const fn identifies_speakers(self) -> bool {
        matches!(self, Self::Cloned | Self::Mcadams { .. })
    }
}

/// The site's recognizer, which makes the first transcript. Sensitive words keep their text only from this transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Recognizer))]
#[serde(rename_all = "snake_case")]
pub enum SiteRecognizer {
    /// The recognizer that the site's configuration names.
    #[default]
    Site,
    /// `PocketSphinx`, on the worker's machine.
    Pocketsphinx,
    /// A server in the site's own network.
    Server,
}

impl SiteRecognizer {
    /// Returns the word in a spec.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Site => "site",
            Self::Pocketsphinx => "pocketsphinx",
            Self::Server => "server",
        }
    }
}
