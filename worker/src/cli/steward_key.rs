//! `steward-key`: a steward's Ed25519 key at a separate terminal, for approvals without a browser. It reads and writes
//! files only, so it may run on a machine without a network.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde::Deserialize;
use undertone_api::id::{DatasetId, JobId};
use undertone_api::job::PartyTerms;
use undertone_api::signed::{
    ApprovalKey, ApprovalStatement, Manifest, Signed, SignedApproval, StewardDecision, public_key,
};

use super::CommandFailure;
use super::jobs::full;
use crate::site::keys::SiteKey;

/// Create a steward's key file, and approve jobs with it.
#[derive(Debug, Subcommand)]
pub(super) enum StewardKeyAction {
    /// Create a key file, readable by its owner alone, and print the line with which sites pin its public key.
    Make {
        /// The file to write; it must not exist yet.
        file: PathBuf,
    },
    /// Print the line and the fingerprint of a key file.
    Show {
        /// The key file.
        file: PathBuf,
    },
    /// Sign the approval of a job for a dataset, and print or write the signed approval.
    ///
    /// The command reads the job from the review: the answer of `GET /api/v1/jobs/{job}/datasets/{dataset}/review`, which the
    /// job's review page offers as a file. It signs the digest of the manifest in that file, and shows the manifest in full.
    Sign {
        /// The key file.
        #[arg(long)]
        key: PathBuf,
        /// The review, a JSON file.
        review: PathBuf,
        /// The server's public key, hex, as in the worker's config.toml: the manifest must have its signature.
        #[arg(long)]
        server_key: Option<String>,
        /// Sign a refusal instead.
        #[arg(long)]
        refuse: bool,
        /// The answer to a term that the proposal leaves to the dataset's owner: `noise_multiplier=2`. Repeat it for each
        /// term; an omitted one keeps the proposal's value.
        #[arg(long = "term", value_name = "NAME=VALUE", conflicts_with = "refuse")]
        terms: Vec<String>,
        /// Write the signed approval to this file.
        #[arg(long)]
        output: Option<PathBuf>,
    },
}

/// The fields of a review that are signed or checked.
#[derive(Debug, Deserialize)]
struct ReviewedJob {
    job: JobId,
    dataset: DatasetId,
    manifest: Signed,
}

pub(super) fn run(action: &StewardKeyAction, out: &mut dyn Write) -> Result<(), CommandFailure> {
    match action {
        StewardKeyAction::Make { file } if file.exists() => {
            Err(format!("{} exists already: name a new file, because a key is never overwritten", file.display())
                .into())
        }
        StewardKeyAction::Make { file } => {
            let key = SiteKey::load_or_make(&std::path::absolute(file)?)?;
            writeln!(out, "{} is your approval key: back it up, and keep it secret.\n", file.display())?;
            show(&key, out)
        }
        StewardKeyAction::Show { file } => show(&SiteKey::load(file)?, out),
        StewardKeyAction::Sign { key, review, server_key, refuse, terms: pairs, output } => {
            let key = SiteKey::load(key)?;
            let decision = if *refuse { StewardDecision::Refuse } else { StewardDecision::Approve };
            let mut terms = PartyTerms::default();
            for pair in pairs {
                terms.add_pair(pair).map_err(|error| format!("--term: {error}"))?;
            }
            sign(&key, review, server_key.as_deref(), (decision, terms), output.as_deref(), out)
        }
    }
}

fn show(key: &SiteKey, out: &mut dyn Write) -> Result<(), CommandFailure> {
    let public = ApprovalKey::Ed25519 { public_key: key.public_hex() };
    writeln!(
        out,
        "Ask your site's operator to pin it with this command:\n\n  undertone-worker approval-keys add {}\n\n\
         Read this fingerprint to the operator by telephone or in person:\n\n  {}",
        public.to_line(),
        public.fingerprint()
    )?;
    Ok(())
}

fn sign(
    key: &SiteKey,
    review: &Path,
    server_key: Option<&str>,
    (decision, terms): (StewardDecision, PartyTerms),
    output: Option<&Path>,
    out: &mut dyn Write,
) -> Result<(), CommandFailure> {
    let text = fs::read_to_string(review).map_err(|error| format!("cannot read {}: {error}", review.display()))?;
    let reviewed: ReviewedJob = serde_json::from_str(&text)
        .map_err(|error| format!("{} is not a review of a job: {error}", review.display()))?;
    let manifest: Manifest = match server_key {
        Some(server_key) => reviewed.manifest.open(&public_key(server_key)?)?,
        None => serde_json::from_str(&reviewed.manifest.payload)
            .map_err(|error| format!("the review contains no manifest: {error}"))?,
    };
    let participant = manifest.participants.iter().find(|party| party.dataset == reviewed.dataset);
    let Some(party) = participant.filter(|_| manifest.job == reviewed.job) else {
        return Err(
            "nothing was signed: the manifest in the review belongs to another job, or does not name the dataset"
                .into(),
        );
    };
    let digest = reviewed.manifest.digest();
    full::write_head(&manifest, &digest, out)?;
    if let Some(violation) = manifest.spec.check_terms(reviewed.dataset, &terms).first() {
        return Err(format!("nothing was signed: {}", violation.message).into());
    }
    if !terms.is_empty() {
        writeln!(out, "\nYour answer to the open terms: {terms}")?;
    }
    let approval = ApprovalStatement::approve(&digest, reviewed.job, reviewed.dataset);
    let statement = ApprovalStatement { decision, ..approval.with_terms(terms) };
    let approval = serde_json::to_string(&SignedApproval::from(key.sign(&statement)?))?;
    let verb = if decision == StewardDecision::Approve { "approval" } else { "refusal" };
    writeln!(out, "\nSigned: the {verb} of this job for `{}` of {}.", party.dataset_name, party.organization_name)?;
    match output {
        Some(path) => {
            fs::write(path, format!("{approval}\n"))
                .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
            writeln!(out, "Upload {} on the job's page.", path.display())?;
        }
        None => writeln!(out, "Paste this line into the job's page:\n\n{approval}")?,
    }
    Ok(())
}
