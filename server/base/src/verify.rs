//! The verification of a ledger: every claim is recomputed from the rows, line by line. This module accesses neither
//! tables nor the file system, so that the same code verifies a database and a bundle on another machine.
//!
//! [`Examiner`] maintains the tree and checks the signatures, `account` replays each account, `receipt` follows each
//! site's chain, [`mod@file`] reads a bundle. The verification repairs nothing, and trusts nothing because of its
//! place.

mod account;
pub mod file;
mod manifest;
mod receipt;
pub mod report;

use std::collections::BTreeMap;

use ed25519_dalek::VerifyingKey;
use undertone_api::log::bundle::{BundleLine, BundleScope, FORMAT, VERSION};
use undertone_api::log::leaf::AuditRecord;
use undertone_api::log::{Frontier, LogLeaf, TreeHash, from_hex, leaf_hash};
use undertone_api::signed::{LogHead, Restoration, Signed, key_id, public_key};
use uuid::Uuid;

use account::ReplayedAccount;
use manifest::ManifestParties;
use receipt::SiteChains;
pub use report::{Finding, Report};

/// SHA-256 of the empty string, hex: the predecessor of the first row and the first receipt of a chain.
const NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// The verifier's independent knowledge.
#[derive(Debug, Clone, Default)]
pub struct Pins {
    /// The server's key, from a site's configuration.
    pub server_key: Option<VerifyingKey>,
    /// A head that a site has stored.
    pub head: Option<Signed>,
}

/// A running verification.
#[derive(Debug)]
pub struct Examiner {
    pins: Pins,
    report: Report,
    server_key: Option<VerifyingKey>,
    scope: Option<BundleScope>,
    pinned_head: Option<LogHead>,
    frontier: Frontier,
    /// Whether leaves and head have diverged, which is reported once.
    diverged: bool,
    /// The number of leaves that signed heads cover.
    covered: u64,
    /// The audit entry that must be next: position and digest.
    sealed: Option<(u64, String)>,
    /// The restoration whose statement must be next: position, digest, and root of the leaves before it.
    stated: Option<(u64, String, String)>,
    /// The commit whose receipt must be next.
    unpaid: Option<(u64, LogLeaf)>,
    manifests: ManifestParties,
    sites: SiteChains,
    accounts: BTreeMap<Uuid, ReplayedAccount>,
}

impl Examiner {
    /// Begins a verification.
    pub fn new(pins: Pins) -> Self {
        Self {
            pins,
            report: Report::default(),
            server_key: None,
            scope: None,
            pinned_head: None,
            frontier: Frontier::default(),
            diverged: false,
            covered: 0,
            sealed: None,
            stated: None,
            unpaid: None,
            manifests: ManifestParties::default(),
            sites: SiteChains::default(),
            accounts: BTreeMap::new(),
        }
    }

    /// Records a finding of another check.
    pub fn add_finding(&mut self, place: impl Into<String>, what: impl Into<String>) {
        self.report.findings.push(Finding { place: place.into(), what: what.into() });
    }

    /// Verifies the next line.
    pub fn line(&mut self, line: &BundleLine) {
        if !matches!(line, BundleLine::Receipt { .. }) {
            self.unpaid_commit();
        }
        if !matches!(line, BundleLine::Restoration { .. }) {
            self.unstated_restoration();
        }
        if !matches!(line, BundleLine::Audit { .. }) {
            self.missing_entry();
        }
        match line {
            BundleLine::Bundle { format, version, server_key, scope, .. } => {
                self.begin(format, *version, server_key, *scope);
            }
            BundleLine::Worker { worker, public_key, rotations, .. } => {
                if let Err(what) = self.sites.enrol(*worker, public_key, rotations) {
                    self.add_finding(format!("worker {worker}"), what);
                }
            }
            BundleLine::Manifest { manifest } => {
                let Some(key) = self.key() else { return };
                match self.manifests.take(manifest, &key) {
                    Ok(()) => self.report.manifests += 1,
                    Err(what) => self.add_finding(format!("manifest {}", manifest.digest()), what),
                }
            }
            BundleLine::Leaf { position, content } => self.leaf(*position, content),
            BundleLine::Withheld { position, hash } => self.withheld(*position, hash),
            BundleLine::Receipt { receipt, countersignature } => self.receipt(receipt, countersignature),
            BundleLine::Restoration { statement } => self.restoration(statement),
            BundleLine::Audit { salt, content } => self.audit(salt, content),
            BundleLine::Head { head } => self.head(head),
            BundleLine::Account { account, balance, in_the_clear, entries, head } => {
                let claim = account::AccountClaim { balance, in_the_clear: *in_the_clear, entries: *entries, head };
                let what = match self.accounts.get_mut(account) {
                    Some(replayed) => replayed.compare(&claim),
                    None => Err("no leaf of the log says that it began".to_owned()),
                };
                if let Err(what) = what {
                    self.add_finding(format!("account {account}"), what);
                }
            }
            BundleLine::Reservation { account, job, dataset, event, per_release, releases, committed, settled } => {
                let claim = account::ReplayedPart::from_claim(event, per_release, *releases, *committed, *settled);
                let what = match self.accounts.get_mut(account) {
                    Some(replayed) => replayed.compare_part((*job, *dataset), &claim),
                    None => Err("it is on an account that no leaf of the log speaks of".to_owned()),
                };
                if let Err(what) = what {
                    self.add_finding(format!("reservation of job {job}, dataset {dataset}"), what);
                }
            }
            BundleLine::End { .. } => {}
        }
    }

    /// Ends the verification: reports missing lines.
    pub fn finish(mut self) -> Report {
        self.unpaid_commit();
        self.unstated_restoration();
        self.missing_entry();
        let size = self.frontier.size();
        let covered = self.covered;
        if self.server_key.is_none() {
            self.add_finding("the beginning", "nothing says whose ledger this is");
        }
        if covered < size && !self.diverged {
            self.add_finding(
                format!("position {covered}"),
                format!("no signed head covers it and the {} after it", size - covered - 1),
            );
        }
        if let Some(head) = self.pinned_head.take().filter(|head| head.size > size) {
            self.add_finding(
                format!("position {size}"),
                format!(
                    "the log ends here, but a site keeps a signed head of {} leaves: its end is missing, or this is an older copy",
                    head.size
                ),
            );
        }
        let mut missing = Vec::new();
        for (id, account) in &self.accounts {
            missing.extend(account.find_unclaimed().map(|what| (*id, what)));
            missing
                .extend(self.accounts.values().find_map(|other| account.find_uncharged(other)).map(|what| (*id, what)));
            self.report.accounts += 1;
        }
        for (id, what) in missing {
            self.add_finding(format!("account {id}"), what);
        }
        for (id, what) in self.sites.list_unlogged_keys() {
            self.add_finding(format!("worker {id}"), what);
        }
        self.report.leaves = size;
        self.report.root = hex::encode(self.frontier.root());
        self.report
    }

    fn begin(&mut self, format: &str, version: u32, server_key: &str, scope: BundleScope) {
        if (format, version) != (FORMAT, VERSION) {
            self.add_finding(
                "the beginning",
                format!("this is {format} version {version}, not {FORMAT} version {VERSION}"),
            );
        }
        let Ok(key) = public_key(server_key) else {
            self.add_finding("the beginning", "the server's key is not an Ed25519 public key");
            return;
        };
        if self.pins.server_key.is_some_and(|pinned| pinned != key) {
            self.add_finding("the beginning", "this is another server's ledger: its key is not the one that was given");
        }
        // An independently known key takes precedence for signatures.
        let key = self.pins.server_key.unwrap_or(key);
        self.server_key = Some(key);
        self.report.server_key = hex::encode(key.as_bytes());
        self.scope = Some(scope);
        if let Some(signed) = self.pins.head.take() {
            match signed.open::<LogHead>(&key) {
                Ok(head) => self.pinned_head = Some(head),
                Err(error) => self.add_finding("the head that was given", error.to_string()),
            }
        }
    }

    fn key(&mut self) -> Option<VerifyingKey> {
        if self.server_key.is_none() && self.report.findings.is_empty() {
            self.add_finding("the beginning", "the first line does not say whose ledger this is");
        }
        self.server_key
    }

    fn leaf(&mut self, position: u64, content: &str) {
        let root_before = if content.contains("\"restoration\"") { self.frontier.root() } else { [0; 32] };
        if !self.grow(position, leaf_hash(content.as_bytes())) {
            return;
        }
        let leaf = match LogLeaf::parse(content) {
            Ok(leaf) => leaf,
            Err(error) => return self.add_finding(format!("position {position}"), error.to_string()),
        };
        let (place, replayed) = match &leaf {
            LogLeaf::Restoration(record) => {
                self.stated = Some((position, record.statement.clone(), hex::encode(root_before)));
                return;
            }
            LogLeaf::Audit(record) => {
                self.sealed = Some((position, record.digest.clone()));
                return;
            }
            LogLeaf::WorkerKey(record) => {
                self.report.keys += 1;
                let place = format!("event {} of the key of worker {}", record.number, record.worker);
                (place, self.sites.log_key(record))
            }
            LogLeaf::Account(began) => {
                let place = format!("account {}", began.account);
                if self.accounts.contains_key(&began.account) {
                    return self.add_finding(place, format!("it begins a second time at position {position}"));
                }
                let account = ReplayedAccount::new(began);
                (place, account.map(|account| self.accounts.insert(began.account, account)).map(|_| ()))
            }
            LogLeaf::Limit(limit) => {
                let place = format!("limit {} of account {}", limit.budget, limit.account);
                let account = self.account(limit.account);
                (place, account.and_then(|account| account.limit(limit).map(|()| account.place(position, None))))
            }
            LogLeaf::Entry(entry) => {
                let place = format!("row {} of account {}", entry.sequence, entry.account);
                let party = self.manifests.party(entry.job, entry.dataset).cloned();
                if party.is_none() && self.scope == Some(BundleScope::Whole) {
                    self.add_finding(
                        &place,
                        format!("no signed manifest gives dataset {} a part in job {}", entry.dataset, entry.job),
                    );
                }
                let replayed = self.account(entry.account).and_then(|account| {
                    account.place(position, Some(entry));
                    account.entry(entry, party.as_ref())
                });
                self.report.entries += 1;
                (place, replayed)
            }
        };
        if let Err(what) = replayed {
            self.add_finding(format!("{place} (position {position})"), what);
        }
        if matches!(&leaf, LogLeaf::Entry(entry) if entry.kind == "commit" && entry.receipt.is_some()) {
            self.unpaid = Some((position, leaf));
        }
    }

    fn account(&mut self, id: Uuid) -> Result<&mut ReplayedAccount, String> {
        self.accounts.get_mut(&id).ok_or_else(|| "no leaf before it says that its account began".to_owned())
    }

    fn withheld(&mut self, position: u64, hash: &str) {
        if self.scope == Some(BundleScope::Whole) {
            self.add_finding(
                format!("position {position}"),
                "what it says is missing or was changed; only its hash is left",
            );
        }
        self.missing(position, hash);
    }

    /// Adds a leaf of which only the hash is known.
    pub fn missing(&mut self, position: u64, hash: &str) {
        self.unpaid_commit();
        match from_hex(hash) {
            Some(hash) => {
                self.grow(position, hash);
                self.report.withheld += 1;
            }
            None => self.add_finding(format!("position {position}"), "its hash is not 64 hex digits"),
        }
    }

    /// Appends to the tree; returns false if the leaf is not the next one.
    fn grow(&mut self, position: u64, hash: TreeHash) -> bool {
        let expected = self.frontier.size();
        if position != expected {
            if !self.diverged {
                self.add_finding(
                    format!("position {expected}"),
                    format!("the next leaf is number {position}: some are missing or twice"),
                );
            }
            self.diverged = true;
            return false;
        }
        self.frontier.push(hash);
        if let Some(head) = self.pinned_head.take_if(|head| head.size == expected + 1) {
            if hex::encode(self.frontier.root()) == head.root {
                self.report.pinned_size = Some(head.size);
            } else {
                self.add_finding(
                    format!("the first {} leaves", head.size),
                    "they are not what a site saw: the log was changed, or told differently to different sites",
                );
            }
        }
        true
    }

    fn head(&mut self, signed: &Signed) {
        let Some(key) = self.key() else { return };
        let size = self.frontier.size();
        let place = format!("the head after position {}", size.saturating_sub(1));
        let head: LogHead = match signed.open(&key) {
            Ok(head) => head,
            Err(error) => return self.add_finding(place, error.to_string()),
        };
        self.report.heads += 1;
        if head.server != key_id(&key) {
            self.add_finding(&place, "it is of another server's log");
        }
        if self.diverged {
            return;
        }
        if head.size != size {
            self.add_finding(place, format!("it is signed over {} leaves where there are {size}", head.size));
            self.diverged = true;
        } else if head.root == hex::encode(self.frontier.root()) {
            self.covered = size;
        } else {
            let from = self.covered;
            self.add_finding(
                place,
                format!("it does not cover what stands at positions {from} to {}: something was changed", size - 1),
            );
            self.diverged = true;
        }
    }

    fn receipt(&mut self, receipt: &Signed, countersignature: &Signed) {
        let Some(key) = self.key() else { return };
        let Some((position, leaf)) = self.unpaid.take() else {
            return self.add_finding(format!("receipt {}", receipt.digest()), "it follows no commit");
        };
        let account = leaf.account().and_then(|id| self.accounts.get(&id));
        let result = self.sites.take(receipt, countersignature, &key, (position, &leaf), account, &self.manifests);
        match result {
            Ok(()) => self.report.receipts += 1,
            Err(Finding { place, what }) => self.add_finding(place, what),
        }
    }

    fn restoration(&mut self, statement: &Signed) {
        let Some(key) = self.key() else { return };
        let Some((position, digest, root)) = self.stated.take() else {
            return self
                .add_finding(format!("restoration {}", statement.digest()), "it follows no leaf of a restoration");
        };
        let place = format!("the restoration at position {position}");
        match statement.open::<Restoration>(&key) {
            Err(error) => self.add_finding(place, error.to_string()),
            Ok(document) if statement.digest() != digest || document.server != key_id(&key) => {
                self.add_finding(place, "its statement is another one than the leaf names");
            }
            Ok(document) if (document.size, &document.root) != (position, &root) => {
                self.add_finding(place, "it states another log than the leaves before it");
            }
            Ok(_) => self.report.restorations += 1,
        }
    }

    fn audit(&mut self, salt: &str, content: &str) {
        let Some((position, digest)) = self.sealed.take() else {
            return self.add_finding("an audit entry", "it follows no leaf of an audit entry");
        };
        let commitment = hex::decode(salt).map(|salt| AuditRecord::commit(&salt, content));
        if commitment.is_ok_and(|commitment| commitment == digest) {
            self.report.audit_entries += 1;
        } else {
            self.add_finding(format!("the audit entry at position {position}"), "it is not what was written");
        }
    }

    fn missing_entry(&mut self) {
        if let Some((position, _)) = self.sealed.take() {
            self.add_finding(format!("the audit entry at position {position}"), "it is missing");
        }
    }

    fn unstated_restoration(&mut self) {
        if let Some((position, ..)) = self.stated.take() {
            self.add_finding(format!("the restoration at position {position}"), "its signed statement is missing");
        }
    }

    fn unpaid_commit(&mut self) {
        if let Some((position, leaf)) = self.unpaid.take() {
            let LogLeaf::Entry(entry) = leaf else { return };
            self.add_finding(
                format!("row {} of account {} (position {position})", entry.sequence, entry.account),
                "the receipt that pays for it, or its countersignature, is missing",
            );
        }
    }
}
