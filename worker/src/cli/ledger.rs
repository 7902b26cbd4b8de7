//! `ledger`: shows the expenses of this site, for its own use, and their proof.

mod alarm;
mod anchor;
mod file;
mod peers;
pub(super) mod promises;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Subcommand;
use time::OffsetDateTime;
use undertone_api::budget::EntryKind;
use undertone_api::id::{JobId, LineageId};
use undertone_api::signed::Receipt;
use undertone_privacy::Event;

use super::table::{format_table, round_down, round_up};
use super::{CommandFailure, jobs::find_job};
use crate::config::Config;
use crate::site::books::{self, LedgerBooks, UncoveredReleases};
use crate::site::datasets::dataset_lineages;
use crate::site::folder::Folder;
use crate::site::keys::SiteKey;
use crate::site::ledger::{Ledger, check_anchor, verify};
use crate::site::policy::Policy;
use crate::site::store::{Store, StoreError};
use crate::site::witness::restoration::{self, AcceptedRestoration};
use crate::site::witness::{self, evidence, positions};
use crate::site::{audits, clock, jobs, restore};

/// Show, verify and export the expenses of this site.
#[derive(Debug, Subcommand)]
pub(super) enum LedgerAction {
    /// Show every account (spent, reserved, limit) and the latest receipts.
    Show {
        /// The number of receipts to show, newest first; 0 for all.
        #[arg(long, default_value_t = 20)]
        receipts: usize,
    },
    /// Verify chains, signatures and sums, offline. The command repeats the admission of every charge, and checks the server's
    /// signed heads, countersignatures and proofs again.
    Verify(Box<file::VerifyArguments>),
    /// Write receipts, countersignatures, heads and proofs to a file, for an auditor.
    Export {
        /// The file to write; it must not exist yet.
        file: PathBuf,
    },
    /// Show and clear alarms about the server's log. While an alarm is open, nothing leaves this site.
    #[command(subcommand)]
    Alarm(alarm::AlarmAction),
    /// Keep the ledger's newest receipt in a file on another disk, to detect an older copy of the ledger.
    #[command(subcommand)]
    Anchor(anchor::AnchorAction),
    /// Compare the server's log with other sites, to detect a server that shows them different logs.
    #[command(subcommand)]
    Peers(peers::PeersAction),
    /// Clear a dataset's freeze after an audit, once the fault is known and corrected.
    Unfreeze {
        /// The dataset's name.
        dataset: String,
        /// The fault and its correction; the ledger stores this text.
        #[arg(long)]
        reason: String,
    },
    /// Return the unused reservation of a job whose server will not come back. The worker must not be running. Spent budget
    /// stays spent.
    Settle {
        /// The job's id, or a unique prefix.
        job: String,
    },
}

pub(super) fn run(
    folder: &Folder,
    action: &LedgerAction,
    now: OffsetDateTime,
    out: &mut dyn Write,
) -> Result<(), CommandFailure> {
    if let LedgerAction::Verify(arguments) = action
        && let Some(path) = &arguments.file
    {
        return file::verify_export(path, &arguments.known, out);
    }
    let config = Config::load(folder)?;
    match action {
        LedgerAction::Anchor(action) => anchor::run(folder, &config, action, out),
        LedgerAction::Show { receipts } => show(folder, *receipts, out),
        LedgerAction::Verify(_) => verify_ledger(folder, out),
        LedgerAction::Export { file } => export(folder, file, out),
        LedgerAction::Alarm(action) => alarm::run(folder, action, now, out),
        LedgerAction::Peers(action) => peers::run(folder, action, now, out),
        LedgerAction::Unfreeze { dataset, reason } => unfreeze(folder, dataset, reason, out),
        LedgerAction::Settle { job } => settle(folder, job, out),
    }
}

fn show(folder: &Folder, most: usize, out: &mut dyn Write) -> Result<(), CommandFailure> {
    let store = Store::open(&folder.ledger())?;
    let lines = dataset_lineages(&store)?;
    let policy = Policy::load(&folder.policy())?.with_lineages(&lines);
    let names: BTreeMap<LineageId, String> = lines.into_iter().collect();
    let name = |lineage: LineageId| names.get(&lineage).cloned().unwrap_or_else(|| lineage.to_string());
    let books: LedgerBooks = store.read(LedgerBooks::read)?;
    if books.accounts.is_empty() {
        writeln!(out, "This site has reserved and spent nothing.")?;
    } else {
        let rows = books.accounts.iter().map(|(key, book)| {
            let summary = book.account.balance().summary();
            let limit = policy.rules(&name(key.lineage)).limits.limit(key.unit);
            let limit_text = limit.map_or_else(|| "none".to_owned(), |limit| round_up(limit.epsilon.get()));
            let remainder =
                limit.map_or(0.0, |limit| limit.epsilon.get() - summary.spent_epsilon - summary.reserved_epsilon);
            let delta = summary.delta.map_or_else(String::new, |delta| format!("{:e}", delta.get()));
            vec![
                name(key.lineage),
                format!("{:?}", key.unit).to_lowercase(),
                round_up(summary.spent_epsilon),
                round_up(summary.reserved_epsilon),
                round_down(remainder.max(0.0)),
                limit_text,
                delta,
                book.jobs.len().to_string(),
                book.last.map_or_else(|| "never".to_owned(), format_minute),
            ]
        });
        let head = ["DATASET", "UNIT", "SPENT", "RESERVED", "LEFT", "LIMIT", "DELTA", "JOBS", "LAST RELEASE"];
        write!(out, "Accounts, in epsilon for life\n{}", format_table(&head, &rows.collect::<Vec<_>>()))?;
        writeln!(
            out,
            "Each job is charged to every account of its dataset: each limit bounds the releases of all jobs about its unit."
        )?;
        for key in books.accounts.keys() {
            let unit = format!("{:?}", key.unit).to_lowercase();
            for UncoveredReleases { protects, jobs, releases } in books.uncovered_releases(*key) {
                writeln!(
                    out,
                    "NOT COVERED by the limit of `{}` for the unit {unit}: {releases} releases of {jobs} jobs that protect the unit \
                     {}. They precede this limit, or version 2 of the ledger, which charges every unit, and have no price for the \
                     unit {unit}. The limit bounds the releases of all other jobs.",
                    name(key.lineage),
                    format!("{protects:?}").to_lowercase(),
                )?;
            }
        }
    }
    for (key, promised) in books::promises(&store.read(books::entries)?) {
        if let Some(sum) = promises::describe_sum(&promised) {
            writeln!(
                out,
                "\n`{}`, {}: the limit was raised after releases. Each raise begins a separate promise. The bound for all releases \
                 together is {sum}.",
                name(key.lineage),
                format!("{:?}", key.unit).to_lowercase()
            )?;
        }
    }
    for (line, name) in &names {
        if let Some(frozen) = audits::current_freeze(&store, *line)? {
            writeln!(out, "\nFROZEN since {}: `{name}`. {} (job {}).", frozen.at, frozen.reason, frozen.job)?;
            writeln!(
                out,
                "This site admits and pays nothing on this dataset. After the correction: ledger unfreeze {name} --reason ..."
            )?;
        }
    }
    let open = store.read(books::open_releases)?;
    if !open.is_empty() {
        let mut counts: BTreeMap<(String, String), u64> = BTreeMap::new();
        for row in &open {
            *counts.entry((name(row.lineage), row.job.to_string())).or_default() += 1;
        }
        let rows = counts.into_iter().map(|((name, job), count)| vec![name, job, count.to_string()]);
        let rows: Vec<_> = rows.collect();
        write!(
            out,
            "\nReleased in the clear, as this site's policy allows; no budget covers these releases\n{}",
            format_table(&["DATASET", "JOB", "RELEASES"], &rows)
        )?;
    }
    let all = store.read(books::receipts)?;
    if !all.is_empty() {
        let count = if most == 0 { all.len() } else { most.min(all.len()) };
        let rows = all.iter().rev().take(count).map(|signed| {
            let receipt: Receipt =
                serde_json::from_str(&signed.payload).map_err(|error| StoreError::Row(error.to_string()))?;
            Ok(vec![
                receipt.sequence.to_string(),
                format_minute(receipt.at),
                name(receipt.lineage),
                receipt.job.to_string(),
                format!("{}/{}", receipt.series, receipt.round),
                receipt.attempt.to_string(),
                describe_event(&receipt.event),
            ])
        });
        let rows: Vec<_> = rows.collect::<Result<_, StoreError>>()?;
        let head = ["NO", "AT", "DATASET", "JOB", "ROUND", "ATTEMPT", "RELEASE"];
        write!(out, "\nReceipts: {} of {}\n{}", count, all.len(), format_table(&head, &rows))?;
    }
    write_attestation(&store, all.len(), out)
}

/// Writes the number of receipts that the server has attested.
fn write_attestation(store: &Store, receipts: usize, out: &mut dyn Write) -> Result<(), CommandFailure> {
    let (countersigned, proved) = store.read(witness::counts)?;
    if receipts > 0 {
        writeln!(
            out,
            "\nThe server has countersigned {countersigned} of {receipts} receipts; for {proved} of them its log has a proof."
        )?;
    }
    if let Some((head, _)) = witness::head(store)? {
        writeln!(
            out,
            "Last head of the server's log: {} entries, {}, {}",
            head.size,
            format_minute(head.at),
            head.root
        )?;
    }
    for (at, receipts) in store.read(restore::list_recoveries)? {
        writeln!(
            out,
            "\nThe ledger was an older copy until {at}: the server returned {receipts} receipts that it lacked."
        )?;
    }
    if let Some(backup_at) = restore::pending_restore(store)? {
        writeln!(
            out,
            "\nThe ledger was restored from a backup of {backup_at}. Nothing leaves until the running worker has compared it with the server's receipts."
        )?;
    }
    for accepted in store.read(restoration::accepted_restorations)? {
        writeln!(out, "\nThe {}.", restoration_text(&accepted))?;
    }
    if let Some(open) = store.read(alarm::open)? {
        writeln!(out, "\n{}", alarm::describe(&open))?;
    }
    Ok(())
}

/// Returns a sentence about a restoration of the server, without its first word and its full stop.
pub(super) fn restoration_text(accepted: &AcceptedRestoration) -> String {
    let statement = &accepted.statement;
    let state = match &accepted.finished_at {
        Some(at) => format!("it has every receipt of this site again since {at}"),
        None => "it does not have every receipt of this site yet".to_owned(),
    };
    format!(
        "server was restored on {} to {} entries of its log ({}); this site returned {} receipts; {state}",
        format_minute(statement.at),
        statement.size,
        statement.reason.escape_debug(),
        accepted.returned
    )
}

fn unfreeze(folder: &Folder, dataset: &str, reason: &str, out: &mut dyn Write) -> Result<(), CommandFailure> {
    if reason.trim().is_empty() {
        return Err("describe the fault and its correction with --reason: the ledger stores this text".into());
    }
    let store = Store::open(&folder.ledger())?;
    let line = dataset_lineages(&store)?.into_iter().find(|(_, name)| name == dataset).map(|(lineage, _)| lineage);
    let line = line.ok_or_else(|| format!("this site has no dataset `{dataset}`; `data list` shows its datasets"))?;
    if audits::clear(&store, line, reason.trim(), clock::system()())? {
        writeln!(
            out,
            "Jobs can use `{dataset}` again at this site. The server has its own freeze, which a steward clears there."
        )?;
    } else {
        writeln!(out, "`{dataset}` is not frozen; nothing changed.")?;
    }
    Ok(())
}

fn verify_ledger(folder: &Folder, out: &mut dyn Write) -> Result<(), CommandFailure> {
    let config = Config::load(folder)?;
    let key = SiteKey::load(&folder.key())?;
    let store = Store::open(&folder.ledger())?;
    let verified =
        store.read(|db| verify(db, &key.public())).map_err(|error| CommandFailure { code: 3, error: error.into() })?;
    writeln!(
        out,
        "The ledger is valid: {} rows, {} receipts, {} releases in the clear; every signature, both chains and every sum.",
        verified.entries, verified.receipts, verified.published
    )?;
    if !verified.head.is_empty() {
        writeln!(out, "Last receipt: {} (write it down: a truncated chain will not contain it)", verified.head)?;
    }
    let attested = store
        .read(|db| evidence::verify(db, &config.server_key))
        .map_err(|error| CommandFailure { code: 3, error: error.into() })?;
    writeln!(
        out,
        "The server has countersigned {} of {} receipts; its log provably contains {}; its {} heads are valid and consistent.",
        attested.countersigned, verified.receipts, attested.proved, attested.heads
    )?;
    if let Some(head) = &attested.head {
        writeln!(out, "Last head of the server's log: {} entries, {}", head.size, head.root)?;
    }
    if let Some(anchor) = config.ledger_anchor() {
        let anchored =
            check_anchor(&store, &anchor).map_err(|error| CommandFailure { code: 3, error: error.into() })?;
        writeln!(out, "The anchor {} agrees: it holds receipt {}.", anchor.path().display(), anchored.receipts)?;
    }
    if let Some(error) = store.read(positions::contradiction)? {
        return Err(CommandFailure { code: 3, error: error.into() });
    }
    match store.read(alarm::open)? {
        None => Ok(()),
        Some(open) => Err(CommandFailure { code: 4, error: alarm::describe(&open).into() }),
    }
}

fn export(folder: &Folder, file: &Path, out: &mut dyn Write) -> Result<(), CommandFailure> {
    let config = Config::load(folder)?;
    let key = SiteKey::load(&folder.key())?;
    let text = Store::open(&folder.ledger())?.read(|db| evidence::export(db, &key.public_hex(), &config.server_key))?;
    let result = std::fs::File::create_new(file).and_then(|mut output| output.write_all(text.as_bytes()));
    result.map_err(|error| format!("cannot write {}: {error}; name a file that does not exist", file.display()))?;
    writeln!(
        out,
        "{} contains all receipts of this site, the chain of its keys, and the server's signatures for them. Verify it anywhere with `undertone-worker ledger verify --file`.",
        file.display()
    )?;
    Ok(())
}

fn settle(folder: &Folder, job: &str, out: &mut dyn Write) -> Result<(), CommandFailure> {
    let config = Config::load(folder)?;
    let lock = folder.lock()?;
    let store = Arc::new(Store::open(&folder.ledger())?);
    let entries = store.read(books::entries)?;
    let jobs_reserved: Vec<JobId> =
        entries.iter().filter(|row| row.kind == EntryKind::Reserve).map(|row| row.job).collect();
    let job = find_job(jobs_reserved.into_iter(), job)?;
    let ledger = Ledger::open(Arc::clone(&store), lock, SiteKey::load(&folder.key())?, config.worker, clock::system())?;
    for (unfinished, dataset, _) in jobs::open_runs(&store)? {
        if unfinished == job {
            let reason = "settled at the site's terminal".to_owned();
            jobs::record_outcome(&store, job, dataset, &jobs::RunOutcome::GaveUp { reason })?;
        }
    }
    let returned = ledger.settle_job(job, None)?;
    writeln!(out, "Returned {returned} releases that job {job} had reserved and never made.")?;
    Ok(())
}

fn format_minute(at: OffsetDateTime) -> String {
    format!("{} {:02}:{:02}", at.date(), at.hour(), at.minute())
}

/// Returns a short name of a release.
fn describe_event(event: &Event) -> String {
    match event {
        Event::Gaussian { noise_multiplier } => format!("Gaussian z={}", noise_multiplier.get()),
        Event::PoissonSampledGaussian { sampling_rate, noise_multiplier } => {
            format!("sampled Gaussian q={} z={}", sampling_rate.get(), noise_multiplier.get())
        }
        Event::BandedGaussian { sampling_rate, noise_multiplier, bands, releases } => {
            format!("{releases} Gaussians with {bands} bands q={} z={}", sampling_rate.get(), noise_multiplier.get())
        }
        Event::Laplace { epsilon } => format!("Laplace epsilon={}", epsilon.get()),
        Event::Pure { epsilon } => format!("pure epsilon={}", epsilon.get()),
        Event::Approximate { epsilon, delta } => format!("epsilon={} delta={:e}", epsilon.get(), delta.get()),
        Event::NonPrivate => "in the clear".to_owned(),
        Event::Composed { events } => format!("{} releases together", events.len()),
        Event::Repeated { count, of } => format!("{count} times {}", describe_event(of)),
        Event::DiscreteGaussian { noise_multiplier, .. } => format!("discrete Gaussian z={}", noise_multiplier.get()),
        Event::PoissonSampledDiscreteGaussian { sampling_rate, noise_multiplier, .. } => {
            format!("sampled discrete Gaussian q={} z={}", sampling_rate.get(), noise_multiplier.get())
        }
        Event::DistributedDiscreteGaussian(noise) => {
            format!("discrete Gaussian of {} contributors", noise.contributors)
        }
        Event::PoissonSampledDistributedDiscreteGaussian { sampling_rate, noise } => {
            format!("sampled discrete Gaussian q={} of {} contributors", sampling_rate.get(), noise.contributors)
        }
        Event::SampledThreshold { sampling_rate, threshold, epsilon, .. } => {
            format!("sampled beta={} threshold k={threshold} epsilon={}", sampling_rate.get(), epsilon.get())
        }
        Event::TruncatedLaplace { rate, shift, distance, partition } => format!(
            "dummy words rate={} shift={shift} distance={distance} against {} of {} providers",
            rate.get(),
            partition.colluding(),
            partition.providers()
        ),
        Event::Substituted { of } => format!("one contribution replaced in {}", describe_event(of)),
        Event::Selected { of, .. } => format!("best of several: {}", describe_event(of)),
    }
}
