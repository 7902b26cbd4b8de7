//! The holder of the keys that sign documents.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use undertone_api::signed::public_key;
use utoipa::ToSchema;

use super::ConfigError;

/// The holder of the keys that sign documents. Keys that stand in the data folder go on signing beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SignerConfig {
    /// Where the private keys of signatures are: `file` for the data folder, `command` for a program, `pkcs11` for a hardware module.
    pub kind: SignerKind,
    /// For `command`: the program, by its whole path, and its arguments. The public key that is to sign (hex) follows as the last one.
    pub command: Vec<String>,
    /// For `command`: names of the server's variables that the program gets; it gets no others.
    pub environment: Vec<String>,
    /// The Ed25519 public key, hex: for `command` the key that new requests name; for `pkcs11` the one that `signer.key` must be.
    pub public_key: Option<String>,
    /// Seconds within which a signature is there: 1 to 30. A head of the log is signed while other writers wait.
    pub seconds: u32,
    /// For `pkcs11`: the module's library, by its whole path.
    #[schema(value_type = Option<String>)]
    pub module: Option<PathBuf>,
    /// For `pkcs11`: the label of the token.
    pub token: Option<String>,
    /// For `pkcs11`: the label of the key pair that new requests name.
    pub key: Option<String>,
    /// For `pkcs11`: a file whose first line is the PIN of the token's user, readable by the server's user alone.
    #[schema(value_type = Option<String>)]
    pub pin_file: Option<PathBuf>,
}

/// The kinds of holders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SignerKind {
    /// The files of the data folder.
    #[default]
    File,
    /// A program.
    Command,
    /// A hardware module (PKCS #11).
    Pkcs11,
}

impl Default for SignerConfig {
    fn default() -> Self {
        Self {
            kind: SignerKind::File,
            command: Vec::new(),
            environment: Vec::new(),
            public_key: None,
            seconds: 5,
            module: None,
            token: None,
            key: None,
            pin_file: None,
        }
    }
}

impl SignerConfig {
    /// Checks the values against each other.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let wrong = |key, remedy| Err(ConfigError::Value { key, remedy });
        if !(1..=30).contains(&self.seconds) {
            return wrong("signer.seconds", "use 1 to 30");
        }
        if self.public_key.as_deref().is_some_and(|key| public_key(key).is_err()) {
            return wrong("signer.public_key", "use an Ed25519 public key: 64 hex digits");
        }
        match self.kind {
            SignerKind::File => {}
            SignerKind::Command => {
                if !self.command.first().is_some_and(|program| program.starts_with('/')) {
                    return wrong("signer.command", "give the program's whole path, then its arguments");
                }
                if self.public_key.is_none() {
                    return wrong("signer.public_key", "give the public key that the program signs with");
                }
            }
            SignerKind::Pkcs11 => {
                if !self.module.as_ref().is_some_and(|module| module.is_absolute()) {
                    return wrong("signer.module", "give the whole path of the module's library");
                }
                if self.token.is_none() || self.key.is_none() || self.pin_file.is_none() {
                    return wrong("signer.token, signer.key, signer.pin_file", "give all three");
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{SignerConfig, SignerKind};

    #[test]
    fn signer_has_what_its_kind_needs() {
        let key = || Some("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a".to_owned());
        let command = SignerConfig {
            kind: SignerKind::Command,
            command: vec!["/usr/local/bin/sign".to_owned()],
            public_key: key(),
            ..SignerConfig::default()
        };
        let module = SignerConfig {
            kind: SignerKind::Pkcs11,
            module: Some("/usr/lib/softhsm/libsofthsm2.so".into()),
            token: Some("undertone".to_owned()),
            key: Some("2026".to_owned()),
            pin_file: Some("/etc/undertone/pin".into()),
            ..SignerConfig::default()
        };
        for (signer, is_right) in [
            (SignerConfig::default(), true),
            (command.clone(), true),
            (SignerConfig { command: Vec::new(), ..command.clone() }, false),
            (SignerConfig { command: vec!["sign".to_owned()], ..command.clone() }, false),
            (SignerConfig { public_key: None, ..command.clone() }, false),
            (SignerConfig { public_key: Some("00".to_owned()), ..command.clone() }, false),
            (SignerConfig { seconds: 31, ..command }, false),
            (module.clone(), true),
            (SignerConfig { module: Some("libsofthsm2.so".into()), ..module.clone() }, false),
            (SignerConfig { pin_file: None, ..module }, false),
        ] {
            assert_eq!(signer.check().is_ok(), is_right, "{signer:?}");
        }
    }
}
