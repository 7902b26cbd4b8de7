//! `ledger verify --file`: verifies a site's export, on any machine.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use ed25519_dalek::VerifyingKey;
use undertone_api::signed::public_key;

use crate::cli::Failure;
use crate::site::witness::evidence::file::{KnownKeys, VerifiedFile, read};

/// What is verified.
#[derive(Debug, Args)]
pub(in crate::cli) struct Verify {
    /// Verify this file, which `ledger export` wrote at any site, instead of this site's ledger. Needs no site.
    #[arg(long, value_name = "FILE")]
    pub(super) file: Option<PathBuf>,
    #[command(flatten)]
    pub(super) known: Keys,
}

/// What is known from elsewhere.
#[derive(Debug, Args)]
pub(in crate::cli) struct Keys {
    /// A public key that the site has, or had (64 hex digits). Without it the file is judged by the key that it names itself.
    #[arg(long, value_name = "HEX", requires = "file", value_parser = key)]
    site_key: Option<VerifyingKey>,
    /// The server's public key (64 hex digits), as `server_key` in a site's configuration.
    #[arg(long, value_name = "HEX", requires = "file", value_parser = key)]
    server_key: Option<VerifyingKey>,
}

fn key(text: &str) -> Result<VerifyingKey, String> {
    public_key(text).map_err(|_| "give an Ed25519 public key: 64 hex digits".to_owned())
}

/// Verifies a file and writes its contents.
pub(super) fn check(path: &Path, known: &Keys, out: &mut dyn Write) -> Result<(), Failure> {
    let known = KnownKeys { site_key: known.site_key, server_key: known.server_key };
    let shown = read(path, known).map_err(|error| Failure { code: 3, error: error.into() })?;
    let VerifiedFile { receipts, last, changes, site_key, server_key, attested, alarms: (alarms, open) } = shown;
    writeln!(
        out,
        "The file holds: {receipts} receipts in one chain, each signed by the key that the site had then; its key changed {changes} times."
    )?;
    writeln!(out, "Key of the site: {site_key}{}", by(known.site_key))?;
    writeln!(out, "Key of the server: {server_key}{}", by(known.server_key))?;
    if !last.is_empty() {
        writeln!(out, "Last receipt: {last}")?;
    }
    writeln!(
        out,
        "The server answers for {} of {receipts} receipts by its signature, for {} by their place in its log; {} heads of it hold and continue each other.",
        attested.countersigned, attested.proved, attested.heads
    )?;
    if let Some(head) = &attested.head {
        writeln!(out, "Last head of the server's log: {} entries, {}", head.size, head.root)?;
    }
    if alarms > 0 {
        writeln!(out, "Alarms about the server's log: {alarms}, of which {open} are open.")?;
    }
    Ok(())
}

fn by(known: Option<VerifyingKey>) -> &'static str {
    if known.is_some() { ", as it was given" } else { ", by the file's own word" }
}
