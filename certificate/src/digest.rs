//! The digest of a model file, which may be larger than the memory.

use std::io::{self, Write};

use sha2::{Digest as _, Sha256};

/// The size and SHA-256 of a file, computed from its parts.
#[derive(Debug, Clone, Default)]
pub struct ModelDigest {
    size: u64,
    hash: Sha256,
}

impl ModelDigest {
    /// Adds the next bytes of the file.
    pub fn update(&mut self, bytes: &[u8]) {
        self.size += bytes.len() as u64;
        self.hash.update(bytes);
    }

    /// Returns the size in bytes, and the SHA-256 in hex.
    pub fn finish(self) -> (u64, String) {
        (self.size, hex::encode(self.hash.finalize()))
    }
}

/// Adds each written part, so that a file is copied into the digest.
impl Write for ModelDigest {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::ModelDigest;

    #[test]
    fn parts_have_the_digest_of_the_whole() {
        let whole = |parts: &[&[u8]]| {
            let mut digest = ModelDigest::default();
            for part in parts {
                digest.update(part);
            }
            digest.finish()
        };
        assert_eq!(whole(&[b"a", b"", b"bc"]), whole(&[b"abc"]));
        let (size, digest) = whole(&[b"abc"]);
        assert_eq!((size, digest.as_str()), (3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
        assert_ne!(whole(&[b"abd"]), whole(&[b"abc"]));
    }
}
