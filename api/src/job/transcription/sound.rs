//! The processing of pieces at the site before they leave. None of it changes the counts of words, so none of it is
//! charged. It determines how well a dummy is hidden, which is measured and not promised.

use serde::{Deserialize, Serialize};

/// What becomes of pieces that have several words of the vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Crowded {
    /// They keep their offline text.
    #[default]
    Keep,
    /// They are sent. No dummy has two words, so a provider knows them for true pieces: public data only.
    Send,
}

/// The text that dummies are made after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Corpus {
    /// A little public-domain English that is part of the worker.
    #[default]
    Bundled,
    /// The one that the site's configuration names: public text, better when of the field.
    Site,
}

/// The dummies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Dummies {
    /// What they are made after.
    pub corpus: Corpus,
}

/// The voice with which true pieces and dummies leave: one for all of them, or each speaker's own.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TranscriptionVoice))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Voice {
    /// The McAdams coefficient: the resonances of everybody's vocal tract are moved in one way.
    Mcadams {
        /// α: 0.5 to 0.95 or 1.05 to 1.5; 0.8 is usual.
        #[serde(default = "usual_alpha")]
        alpha: f64,
    },
    /// A vocoder: every piece is spoken again with one pitch, its spectral envelope brought to one distribution.
    Vocoder {
        /// Coefficients of the envelope that are kept: 8 to 20, 13 is usual. Fewer hide more and are understood less.
        #[serde(default = "usual_detail")]
        detail: u32,
    },
    /// The converter of the site's configuration that is a program.
    Command,
    /// The converter of the site's configuration that is a server.
    Url,
    /// Voices as they are: true pieces leave in the voices in which they were recorded, dummies in imitations of these voices. Hides
    /// which pieces are made up and not who speaks: recognizers can tell speakers by it. Imitations also tell each recognizer of
    /// voices that others hear, so private recordings are charged for all recognizers together.
    Cloned,
}

const fn usual_alpha() -> f64 {
    0.8
}

const fn usual_detail() -> u32 {
    13
}

impl Default for Voice {
    fn default() -> Self {
        Self::Mcadams { alpha: usual_alpha() }
    }
}

impl Voice {
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
}

/// The recognizer at the site that makes the first transcript, from which alone sensitive words keep their text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Recognizer {
    /// Whichever the site's configuration names.
    #[default]
    Site,
    /// `PocketSphinx`, on the worker's machine.
    Pocketsphinx,
    /// A server in the site's own network.
    Server,
}

impl Recognizer {
    /// Returns the word in a spec.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Site => "site",
            Self::Pocketsphinx => "pocketsphinx",
            Self::Server => "server",
        }
    }
}
