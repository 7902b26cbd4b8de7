//! `ledger verify --file`: verifies a site's export, on any machine.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use ed25519_dalek::VerifyingKey;

use crate::cli::{CommandFailure, parse_key};
use crate::site::witness::evidence::file::{KnownKeys, VerifiedFile, read};

/// The arguments of `ledger verify`.
#[derive(Debug, Args)]
pub(in crate::cli) struct VerifyArguments {
    /// Verify this output of `ledger export`, of any site, instead of this site's ledger. Needs no site.
    #[arg(long, value_name = "FILE")]
    pub(super) file: Option<PathBuf>,
    #[command(flatten)]
    pub(super) known: KeyArguments,
}

/// Keys from another source than the file.
#[derive(Debug, Args)]
pub(in crate::cli) struct KeyArguments {
    /// A present or former public key of the site (64 hex digits). Without it, the command trusts the key in the file.
    #[arg(long, value_name = "HEX", requires = "file", value_parser = parse_key)]
    site_key: Option<VerifyingKey>,
    /// The server's public key (64 hex digits), as `server_key` in a site's configuration.
    #[arg(long, value_name = "HEX", requires = "file", value_parser = parse_key)]
    server_key: Option<VerifyingKey>,
}

/// Verifies a file and writes its contents.
pub(super) fn verify_export(path: &Path, keys: &KeyArguments, out: &mut dyn Write) -> Result<(), CommandFailure> {
    let known = KnownKeys { site_key: keys.site_key, server_key: keys.server_key };
    let export = read(path, known).map_err(|error| CommandFailure { code: 3, error: error.into() })?;
    let VerifiedFile { receipts, last, changes, site_key, server_key, attested, alarms: (alarms, open) } = export;
    writeln!(
        out,
        "The file is valid: {receipts} receipts in one chain, each signed by the site's key at that time; the key changed {changes} times."
    )?;
    writeln!(out, "Key of the site: {site_key}{}", describe_source(keys.site_key))?;
    writeln!(out, "Key of the server: {server_key}{}", describe_source(keys.server_key))?;
    if !last.is_empty() {
        writeln!(out, "Last receipt: {last}")?;
    }
    writeln!(
        out,
        "The server has countersigned {} of {receipts} receipts; its log provably contains {}; its {} heads are valid and consistent.",
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

fn describe_source(known: Option<VerifyingKey>) -> &'static str {
    if known.is_some() { ", as given in the command" } else { ", according to the file" }
}
