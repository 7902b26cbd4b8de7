//! The formats of transcripts. They are defined here because names of recordings must leave space for the extensions of
//! transcripts.

use serde::{Deserialize, Serialize};

/// The format of a transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Plain text.
    Text,
    /// SubRip captions.
    Srt,
    /// WebVTT captions.
    Vtt,
    /// JSON with all available details.
    Json,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 4] = [Self::Text, Self::Srt, Self::Vtt, Self::Json];

    /// Returns the file name extension of the format.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Text => "txt",
            Self::Srt => "srt",
            Self::Vtt => "vtt",
            Self::Json => "json",
        }
    }
}
