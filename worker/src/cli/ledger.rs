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

use super::table::{down, table, up};
use super::{Failure, jobs::find};
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

/// What was spent, and the proof of it.
#[derive(Debug, Subcommand)]
pub(super) enum Action {
    /// Show every account (spent, reserved, limit) and the latest receipts.
    Show {
        /// How many receipts to show, newest first; 0 for all.
        #[arg(long, default_value_t = 20)]
        receipts: usize,
    },
    /// Verify chains, signatures and sums, offline: every charge is admitted again, row by row, and all that the server
    /// has signed is checked again: heads of its log, countersignatures, proofs.
    Verify(Box<file::Verify>),
    /// Write receipts, countersignatures, heads and proofs to a file, for an auditor.
    Export {
        /// The file; it must not be there yet.
        file: PathBuf,
    },
    /// What the server's log contradicts. While an alarm is open, nothing leaves this site.
    #[command(subcommand)]
    Alarm(alarm::Action),
    /// The ledger's newest receipt in a file on another disk: a ledger that was put back to an older copy is detected so.
    #[command(subcommand)]
    Anchor(anchor::Action),
    /// The comparison of the server's log with other sites: a server that shows two sites two logs is detected so.
    #[command(subcommand)]
    Peers(peers::Action),
    /// Let a dataset go on that an audit has stopped, once it is known what was broken, and mended.
    Unfreeze {
        /// The dataset's name.
        dataset: String,
        /// What was broken, and how it was mended; it is kept.
        #[arg(long)]
        reason: String,
    },
    /// Give back what a job reserved and never released, when the server that ran it will not come back. The worker
    /// must not be running. What is spent stays spent.
    Settle {
        /// The job's id, or enough of its beginning.
        job: String,
    },
}

pub(super) fn run(folder: &Folder, action: &Action, now: OffsetDateTime, out: &mut dyn Write) -> Result<(), Failure> {
    if let Action::Verify(verify) = action
        && let Some(path) = &verify.file
    {
        return file::check(path, &verify.known, out);
    }
    let config = Config::load(folder)?;
    match action {
        Action::Anchor(action) => anchor::run(folder, &config, action, out),
        Action::Show { receipts } => show(folder, *receipts, out),
        Action::Verify(_) => check(folder, out),
        Action::Export { file } => export(folder, file, out),
        Action::Alarm(action) => alarm::run(folder, action, now, out),
        Action::Peers(action) => peers::run(folder, action, now, out),
        Action::Unfreeze { dataset, reason } => unfreeze(folder, dataset, reason, out),
        Action::Settle { job } => settle(folder, job, out),
    }
}

fn show(folder: &Folder, most: usize, out: &mut dyn Write) -> Result<(), Failure> {
    let store = Store::open(&folder.ledger())?;
    let lines = dataset_lineages(&store)?;
    let policy = Policy::load(&folder.policy())?.with_lineages(&lines);
    let names: BTreeMap<LineageId, String> = lines.into_iter().collect();
    let name = |lineage: LineageId| names.get(&lineage).cloned().unwrap_or_else(|| lineage.to_string());
    let books: LedgerBooks = store.read(LedgerBooks::read)?;
    if books.accounts.is_empty() {
        writeln!(out, "Nothing was ever reserved or spent at this site.")?;
    } else {
        let rows = books.accounts.iter().map(|(key, book)| {
            let summary = book.account.balance().summary();
            let limit = policy.rules(&name(key.lineage)).limits.limit(key.unit);
            let said = limit.map_or_else(|| "none".to_owned(), |limit| up(limit.epsilon.get()));
            let left =
                limit.map_or(0.0, |limit| limit.epsilon.get() - summary.spent_epsilon - summary.reserved_epsilon);
            let delta = summary.delta.map_or_else(String::new, |delta| format!("{:e}", delta.get()));
            vec![
                name(key.lineage),
                format!("{:?}", key.unit).to_lowercase(),
                up(summary.spent_epsilon),
                up(summary.reserved_epsilon),
                down(left.max(0.0)),
                said,
                delta,
                book.jobs.len().to_string(),
                book.last.map_or_else(|| "never".to_owned(), day),
            ]
        });
        let head = ["DATASET", "UNIT", "SPENT", "RESERVED", "LEFT", "LIMIT", "DELTA", "JOBS", "LAST RELEASE"];
        write!(out, "Accounts, in epsilon for life\n{}", table(&head, &rows.collect::<Vec<_>>()))?;
        writeln!(
            out,
            "Each job is charged to every account of its dataset: each limit bounds what all jobs release about its unit."
        )?;
        for key in books.accounts.keys() {
            let unit = format!("{:?}", key.unit).to_lowercase();
            for UncoveredReleases { protects, jobs, releases } in books.uncovered_releases(*key) {
                writeln!(
                    out,
                    "NOT COVERED by the limit of `{}` for the unit {unit}: {releases} releases of {jobs} jobs that protect the unit \
                     {}. They were made before this limit was set, or before version 2 of the ledger charged every unit, and have no \
                     price for the unit {unit}. The limit bounds what all other jobs release.",
                    name(key.lineage),
                    format!("{protects:?}").to_lowercase(),
                )?;
            }
        }
    }
    for (key, promised) in books::promises(&store.read(books::entries)?) {
        if let Some(sum) = promises::sum(&promised) {
            writeln!(
                out,
                "\n`{}`, {}: the limit was raised after releases, which begins a promise of its own each time. For everything \
                 together holds {sum}.",
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
                "Nothing is admitted and nothing paid on it. When it is mended: ledger unfreeze {name} --reason ..."
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
            "\nReleased in the clear, by this site's policy; no budget covers it\n{}",
            table(&["DATASET", "JOB", "RELEASES"], &rows)
        )?;
    }
    let all = store.read(books::receipts)?;
    if !all.is_empty() {
        let shown = if most == 0 { all.len() } else { most.min(all.len()) };
        let rows = all.iter().rev().take(shown).map(|signed| {
            let receipt: Receipt =
                serde_json::from_str(&signed.payload).map_err(|error| StoreError::Row(error.to_string()))?;
            Ok(vec![
                receipt.sequence.to_string(),
                day(receipt.at),
                name(receipt.lineage),
                receipt.job.to_string(),
                format!("{}/{}", receipt.series, receipt.round),
                receipt.attempt.to_string(),
                event(&receipt.event),
            ])
        });
        let rows: Vec<_> = rows.collect::<Result<_, StoreError>>()?;
        let head = ["NO", "AT", "DATASET", "JOB", "ROUND", "ATTEMPT", "RELEASE"];
        write!(out, "\nReceipts: {} of {}\n{}", shown, all.len(), table(&head, &rows))?;
    }
    answered(&store, all.len(), out)
}

/// Writes the number of receipts that the server has attested.
fn answered(store: &Store, receipts: usize, out: &mut dyn Write) -> Result<(), Failure> {
    let (countersigned, proved) = store.read(witness::counts)?;
    if receipts > 0 {
        writeln!(
            out,
            "\nThe server has countersigned {countersigned} of {receipts} receipts; {proved} are proved to be in its log."
        )?;
    }
    if let Some((head, _)) = witness::head(store)? {
        writeln!(out, "Last head of the server's log: {} entries, {}, {}", head.size, day(head.at), head.root)?;
    }
    for (at, receipts) in store.read(restore::list_recoveries)? {
        writeln!(
            out,
            "\nThe ledger was an older copy until {at}: {receipts} receipts that it lacked came back from the server."
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
        writeln!(out, "\n{}", alarm::words(&open))?;
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
        "server was restored on {} to {} entries of its log ({}); healed {} receipts; {state}",
        day(statement.at),
        statement.size,
        statement.reason.escape_debug(),
        accepted.returned
    )
}

fn unfreeze(folder: &Folder, dataset: &str, reason: &str, out: &mut dyn Write) -> Result<(), Failure> {
    if reason.trim().is_empty() {
        return Err("say with --reason what was broken and how it was mended: it is kept".into());
    }
    let store = Store::open(&folder.ledger())?;
    let line = dataset_lineages(&store)?.into_iter().find(|(_, name)| name == dataset).map(|(lineage, _)| lineage);
    let line = line.ok_or_else(|| format!("no dataset of this site is called `{dataset}`; `data list` shows them"))?;
    if audits::clear(&store, line, reason.trim(), clock::system()())? {
        writeln!(
            out,
            "`{dataset}` may be used again at this site. The server keeps a freeze of its own: a steward clears it there."
        )?;
    } else {
        writeln!(out, "`{dataset}` is not frozen; nothing was changed.")?;
    }
    Ok(())
}

fn check(folder: &Folder, out: &mut dyn Write) -> Result<(), Failure> {
    let (config, key) = (Config::load(folder)?, SiteKey::load(&folder.key())?);
    let store = Store::open(&folder.ledger())?;
    let verified =
        store.read(|db| verify(db, &key.public())).map_err(|error| Failure { code: 3, error: error.into() })?;
    writeln!(
        out,
        "The ledger holds: {} rows, {} receipts, {} releases in the clear; every signature, both chains and every sum.",
        verified.entries, verified.receipts, verified.published
    )?;
    if !verified.head.is_empty() {
        writeln!(out, "Last receipt: {} (note it: a chain that was cut will not show it again)", verified.head)?;
    }
    let attested = store
        .read(|db| evidence::verify(db, &config.server_key))
        .map_err(|error| Failure { code: 3, error: error.into() })?;
    writeln!(
        out,
        "The server answers for {} of {} receipts by its signature, for {} by their place in its log; {} heads of it hold and continue each other.",
        attested.countersigned, verified.receipts, attested.proved, attested.heads
    )?;
    if let Some(head) = &attested.head {
        writeln!(out, "Last head of the server's log: {} entries, {}", head.size, head.root)?;
    }
    if let Some(anchor) = config.ledger_anchor() {
        let anchored = check_anchor(&store, &anchor).map_err(|error| Failure { code: 3, error: error.into() })?;
        writeln!(out, "The anchor {} agrees: it holds receipt {}.", anchor.path().display(), anchored.receipts)?;
    }
    if let Some(error) = store.read(positions::contradiction)? {
        return Err(Failure { code: 3, error: error.into() });
    }
    match store.read(alarm::open)? {
        None => Ok(()),
        Some(open) => Err(Failure { code: 4, error: alarm::words(&open).into() }),
    }
}

fn export(folder: &Folder, file: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    let (config, key) = (Config::load(folder)?, SiteKey::load(&folder.key())?);
    let text = Store::open(&folder.ledger())?.read(|db| evidence::export(db, &key.public_hex(), &config.server_key))?;
    let written = std::fs::File::create_new(file).and_then(|mut made| made.write_all(text.as_bytes()));
    written.map_err(|error| format!("{}: {error}: name a file that is not there yet", file.display()))?;
    writeln!(
        out,
        "{} holds all receipts of this site, the chain of its keys, and all that the server has signed for them. Anybody verifies it with `undertone-worker ledger verify --file`.",
        file.display()
    )?;
    Ok(())
}

fn settle(folder: &Folder, job: &str, out: &mut dyn Write) -> Result<(), Failure> {
    let config = Config::load(folder)?;
    let lock = folder.lock()?;
    let store = Arc::new(Store::open(&folder.ledger())?);
    let reserved = store.read(books::entries)?;
    let known: Vec<JobId> = reserved.iter().filter(|row| row.kind == EntryKind::Reserve).map(|row| row.job).collect();
    let job = find(known.into_iter(), job)?;
    let ledger = Ledger::open(Arc::clone(&store), lock, SiteKey::load(&folder.key())?, config.worker, clock::system())?;
    for (unfinished, dataset, _) in jobs::open_runs(&store)? {
        if unfinished == job {
            let reason = "settled at the site's terminal".to_owned();
            jobs::record_outcome(&store, job, dataset, &jobs::RunOutcome::GaveUp { reason })?;
        }
    }
    let left = ledger.settle_job(job, None)?;
    writeln!(out, "{left} releases that job {job} reserved and never made were given back.")?;
    Ok(())
}

fn day(at: OffsetDateTime) -> String {
    format!("{} {:02}:{:02}", at.date(), at.hour(), at.minute())
}

/// Returns a short name of a release.
fn event(event: &Event) -> String {
    match event {
        Event::Gaussian { noise_multiplier } => format!("Gaussian z={}", noise_multiplier.get()),
        Event::PoissonSampledGaussian { sampling_rate, noise_multiplier } => {
            format!("sampled Gaussian q={} z={}", sampling_rate.get(), noise_multiplier.get())
        }
        Event::Laplace { epsilon } => format!("Laplace epsilon={}", epsilon.get()),
        Event::Pure { epsilon } => format!("pure epsilon={}", epsilon.get()),
        Event::Approximate { epsilon, delta } => format!("epsilon={} delta={:e}", epsilon.get(), delta.get()),
        Event::NonPrivate => "in the clear".to_owned(),
        Event::Composed { events } => format!("{} releases together", events.len()),
        Event::Repeated { count, of } => format!("{count} times {}", self::event(of)),
        Event::DiscreteGaussian { noise_multiplier, .. } => format!("discrete Gaussian z={}", noise_multiplier.get()),
        Event::PoissonSampledDiscreteGaussian { sampling_rate, noise_multiplier, .. } => {
            format!("sampled discrete Gaussian q={} z={}", sampling_rate.get(), noise_multiplier.get())
        }
        Event::DistributedDiscreteGaussian(noise) => {
            format!("discrete Gaussian of {} contributors", noise.contributors)
        }
        Event::SampledThreshold { sampling_rate, threshold, epsilon, .. } => {
            format!("sampled beta={} shown from k={threshold} epsilon={}", sampling_rate.get(), epsilon.get())
        }
        Event::TruncatedLaplace { rate, shift, distance, partition } => format!(
            "dummy words rate={} shift={shift} distance={distance} against {} of {} providers",
            rate.get(),
            partition.colluding(),
            partition.providers()
        ),
        Event::Substituted { of } => format!("one contribution replaced in {}", self::event(of)),
        Event::Selected { of, .. } => format!("best of several: {}", self::event(of)),
    }
}
