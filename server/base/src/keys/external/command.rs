//! A program that signs: it gets the message on its standard input and the public key (hex) as its last argument, and writes the
//! signature to its standard output, as 64 bytes or as 128 hex digits.

use std::ffi::OsString;
use std::io;
use std::process::Stdio;

use async_trait::async_trait;
use ed25519_dalek::{Signature, VerifyingKey};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use undertone_api::signed::public_key;

use super::holder::{HolderError, KeyHolder};
use crate::config::SignerConfig;

/// Most bytes that the program may write.
const MOST_BYTES: u64 = 1024;

/// The configured program.
pub(super) struct SigningCommand {
    program: Vec<String>,
    environment: Vec<(String, OsString)>,
    key: VerifyingKey,
}

impl SigningCommand {
    pub(super) fn new(config: &SignerConfig) -> io::Result<Self> {
        let key = public_key(config.public_key.as_deref().unwrap_or_default()).map_err(io::Error::other)?;
        let variables = config.environment.iter();
        let environment = variables.filter_map(|name| Some((name.clone(), std::env::var_os(name)?))).collect();
        Ok(Self { program: config.command.clone(), environment, key })
    }
}

#[async_trait]
impl KeyHolder for SigningCommand {
    async fn public_key(&self) -> Result<VerifyingKey, HolderError> {
        Ok(self.key)
    }

    async fn sign(&self, key: &VerifyingKey, message: &[u8]) -> Result<[u8; Signature::BYTE_SIZE], HolderError> {
        let failed = |error: io::Error| HolderError::new(format!("the signing program: {error}"));
        let (program, arguments) = self.program.split_first().ok_or_else(|| HolderError::new("no signing program"))?;
        let mut child = Command::new(program)
            .args(arguments)
            .arg(hex::encode(key.to_bytes()))
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Complaints of the program belong into the server's journal.
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let write = async {
            if let Some(mut stdin) = stdin {
                // A program that stops reading early gives a signature that does not hold.
                let _ = stdin.write_all(message).await;
            }
        };
        let mut answer = Vec::new();
        let read = async {
            match stdout {
                Some(stdout) => stdout.take(MOST_BYTES).read_to_end(&mut answer).await.map(drop),
                None => Ok(()),
            }
        };
        let (read, ()) = tokio::join!(read, write);
        read.map_err(failed)?;
        let status = child.wait().await.map_err(failed)?;
        if !status.success() {
            return Err(HolderError::new(format!("the signing program ended with {status}")));
        }
        signature_bytes(&answer)
            .ok_or_else(|| HolderError::new("the signing program wrote neither 64 bytes nor 128 hex digits"))
    }
}

/// Reads a signature: 64 bytes, or their hex digits with white space around.
fn signature_bytes(answer: &[u8]) -> Option<[u8; Signature::BYTE_SIZE]> {
    if let Ok(bytes) = answer.try_into() {
        return Some(bytes);
    }
    hex::decode(answer.trim_ascii()).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::signature_bytes;

    #[test]
    fn signature_is_read_as_bytes_and_as_hex() {
        let bytes = [7; 64];
        for answer in
            [bytes.to_vec(), hex::encode(bytes).into_bytes(), format!("{}\n", hex::encode(bytes)).into_bytes()]
        {
            assert_eq!(signature_bytes(&answer), Some(bytes));
        }
        for answer in [&b""[..], &[7; 63], &[7; 65], &[b'g'; 128], &[b'0'; 126]] {
            assert_eq!(signature_bytes(answer), None, "{answer:?}");
        }
    }
}
