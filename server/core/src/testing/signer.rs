//! A program that signs with a key of openssl, for tests of external signers.

use std::path::PathBuf;
use std::process::Command;

use ed25519_dalek::VerifyingKey;
use tempfile::TempDir;

use crate::config::{SignerConfig, SignerKind};

/// Bytes of the public key at the end of its DER form.
const KEY_BYTES: usize = 32;

/// A key in a folder, and the scripts that sign with it.
pub struct TestProgram {
    dir: TempDir,
    key: VerifyingKey,
}

impl TestProgram {
    /// Makes a key.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let pem = dir.path().join("key.pem");
        openssl(&["genpkey", "-algorithm", "ed25519", "-out", &pem.to_string_lossy()]);
        let der = openssl(&["pkey", "-in", &pem.to_string_lossy(), "-pubout", "-outform", "DER"]);
        let bytes = der[der.len() - KEY_BYTES..].try_into().expect("32 bytes");
        Self { dir, key: VerifyingKey::from_bytes(&bytes).expect("a point of the curve") }
    }

    /// Returns the public half of the key.
    pub const fn key(&self) -> VerifyingKey {
        self.key
    }

    /// Returns the configuration of a program that signs when the server asks for this key and shows it no environment.
    pub fn signer(&self) -> SignerConfig {
        let folder = self.dir.path().display();
        let key = hex::encode(self.key.as_bytes());
        self.signer_of(&format!(
            "[ \"$1\" = {key} ] || exit 3\n\
             [ -z \"${{HOME-}}${{CARGO_MANIFEST_DIR-}}\" ] || exit 4\n\
             cat > {folder}/message.$$\n\
             openssl pkeyutl -sign -inkey {folder}/key.pem -rawin -in {folder}/message.$$\n"
        ))
    }

    /// Returns the configuration of a program that runs a shell's lines.
    pub fn signer_of(&self, lines: &str) -> SignerConfig {
        let script: PathBuf = self.dir.path().join("sign.sh");
        std::fs::write(&script, lines).expect("the folder is writable");
        SignerConfig {
            kind: SignerKind::Command,
            command: vec!["/bin/sh".to_owned(), script.to_string_lossy().into_owned()],
            public_key: Some(hex::encode(self.key.as_bytes())),
            // Tests share their machine.
            seconds: 30,
            ..SignerConfig::default()
        }
    }
}

fn openssl(arguments: &[&str]) -> Vec<u8> {
    let output = Command::new("openssl").args(arguments).output().expect("openssl is installed (.ci/setup.sh)");
    assert!(output.status.success(), "openssl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}
