//! The only sound that a [`ProviderLine`](crate::provider::line::ProviderLine) sends.

/// A sound that may be sent to one recognizer: a canonical WAV file.
#[must_use = "it was cleared to be sent"]
pub struct OutgoingSound {
    pub(super) wav: Vec<u8>,
}

impl OutgoingSound {
    /// Returns the file.
    pub fn wav(&self) -> &[u8] {
        &self.wav
    }

    /// Returns a sound for tests of provider lines, which have no site.
    #[cfg(any(test, feature = "testing"))]
    pub const fn in_test(wav: Vec<u8>) -> Self {
        Self { wav }
    }
}

/// Prints the size only.
impl std::fmt::Debug for OutgoingSound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OutgoingSound({} bytes)", self.wav.len())
    }
}
