//! `certificate`: verifies the certificate of a job, on any machine, with the server's key of this site's enrolment.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use ed25519_dalek::VerifyingKey;
use undertone_api::signed::CertificateFile;
use undertone_certificate::{CertificateVerdict, ModelDigest, TrustedInputs, Verification, escape_line};

use super::{CommandFailure, parse_key};
use crate::config::Config;
use crate::site::folder::Folder;

/// The exit code of a certificate with a failed check, as that of an invalid ledger.
const INVALID: u8 = 3;

/// Verify the certificate of a job, offline.
///
/// The command checks every signature, counts the receipts, and computes every figure again. At an enrolled site it
/// trusts the server's key of the enrolment, and fails if the configuration cannot be read. Elsewhere it trusts the key
/// in the file, which is a weaker check, and prints a note.
#[derive(Debug, Args)]
pub(super) struct CertificateCommand {
    /// The downloaded certificate file.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The model file that the certificate must describe.
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// The server's public key (64 hex digits), instead of the one of this site's enrolment.
    #[arg(long, value_name = "HEX", value_parser = parse_key)]
    server_key: Option<VerifyingKey>,
    /// A site's public key (64 hex digits); may be repeated. If set, every site must have one of these keys.
    #[arg(long, value_name = "HEX", value_parser = parse_key)]
    site_key: Vec<VerifyingKey>,
}

impl CertificateCommand {
    /// Verifies the file and prints the finding of each point.
    pub(super) fn run(&self, folder: &Folder, out: &mut dyn Write) -> Result<(), CommandFailure> {
        let text = std::fs::read_to_string(&self.file).map_err(|error| format!("{}: {error}", self.file.display()))?;
        let file: CertificateFile = serde_json::from_str(&text)
            .map_err(|error| escape_line(&format!("{} is not a certificate file: {error}", self.file.display())))?;
        let server_key = match self.server_key {
            Some(key) => Some(key),
            None => find_enrolled_key(folder)?,
        };
        let known = TrustedInputs {
            server_key,
            site_keys: self.site_key.iter().map(|key| hex::encode(key.to_bytes())).collect(),
            model: self.model.as_deref().map(digest_model).transpose()?,
        };
        let verdict: CertificateVerdict = Verification::new(file, known).collect();
        write!(out, "{verdict}")?;
        if verdict.holds() {
            return Ok(());
        }
        Err(CommandFailure { code: INVALID, error: "the certificate does not hold".into() })
    }
}

/// Returns the server's key of this site's enrolment; prints a note if there is no site.
fn find_enrolled_key(folder: &Folder) -> Result<Option<VerifyingKey>, CommandFailure> {
    let path = folder.config();
    let has_config = path.try_exists().map_err(|error| {
        format!("cannot read {}: {error}; run as the worker's user, or name the key with --server-key", path.display())
    })?;
    if has_config {
        return Ok(Some(Config::load(folder)?.server_key));
    }
    eprintln!(
        "note: there is no site in {}, so the server's key in the certificate is compared with no other key: name the \
         site with --site, or the key with --server-key",
        folder.root().display()
    );
    Ok(None)
}

/// Returns the size and SHA-256 of a file, which may be larger than the memory.
fn digest_model(path: &Path) -> Result<(u64, String), CommandFailure> {
    let in_file = |error: io::Error| format!("{}: {error}", path.display());
    let mut file = File::open(path).map_err(in_file)?;
    let mut digest = ModelDigest::default();
    io::copy(&mut file, &mut digest).map_err(in_file)?;
    Ok(digest.finish())
}
