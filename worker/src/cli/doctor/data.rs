//! The datasets, what is left of their budgets, and what computes.

use std::collections::BTreeMap;

use undertone_api::id::LineageId;

use super::super::chain;
use super::super::table::{down, up};
use super::Findings;
use crate::config::Config;
use crate::site::audits;
use crate::site::books::Books;
use crate::site::datasets::{Described, lines};
use crate::site::folder::{Folder, check_name};
use crate::site::policy::Policy;
use crate::site::store::Store;

/// A tenth of a budget and less is nearly used up.
const LITTLE: f64 = 0.1;

pub(super) fn datasets(folder: &Folder, store: &Store, quick: bool, found: &mut Findings) {
    let names: Vec<String> = std::fs::read_dir(folder.datasets())
        .into_iter()
        .flatten()
        .flatten()
        .map(|item| item.file_name().to_string_lossy().into_owned())
        .filter(|name| check_name(name).is_ok())
        .collect();
    if names.is_empty() {
        found.warn("dataset", "there is none", "`undertone-worker data prepare --help`");
    }
    for name in names {
        let at = folder.datasets().join(&name);
        let read = if quick { Described::read(&at) } else { Described::check(&at) };
        match read {
            Ok(_) => found.ok("dataset", format!("`{name}` {}", if quick { "is described" } else { "is whole" })),
            Err(error) => {
                found.fail("dataset", format!("`{name}`: {}", chain(&error)), "prepare it again under the same name");
            }
        }
    }
    for (line, name) in lines(store).unwrap_or_default() {
        if let Ok(Some(frozen)) = audits::frozen(store, line) {
            let said = format!("`{name}` is frozen since {}: {}", frozen.at, frozen.reason);
            found.fail("dataset", said, format!("mend what was broken, then `ledger unfreeze {name} --reason ...`"));
        }
    }
}

pub(super) fn budgets(folder: &Folder, store: &Store, found: &mut Findings) {
    let (Ok(policy), Ok(names)) = (Policy::load(&folder.policy()), lines(store)) else { return };
    let names: BTreeMap<LineageId, String> = names.into_iter().collect();
    let books = match store.read(Books::read) {
        Ok(books) => books,
        Err(error) => return found.fail("budget", chain(&error), "restore the site from a backup"),
    };
    if books.accounts.is_empty() {
        found.ok("budget", "nothing was ever spent");
    }
    for (key, book) in &books.accounts {
        let name = names.get(&key.lineage).cloned().unwrap_or_else(|| key.lineage.to_string());
        let of = format!("`{name}`, {}", format!("{:?}", key.unit).to_lowercase());
        let summary = book.account.balance().summary();
        let Some(limit) = policy.rules(&name).limits.of(key.unit) else {
            found.warn("budget", format!("{of}: policy.toml sets none"), "no job can be charged to it until it does");
            continue;
        };
        let left = limit.epsilon.get() - summary.spent_epsilon - summary.reserved_epsilon;
        let said = format!(
            "{of}: epsilon {} spent, {} reserved, {} of {} left",
            up(summary.spent_epsilon),
            up(summary.reserved_epsilon),
            down(left.max(0.0)),
            up(limit.epsilon.get())
        );
        if left <= limit.epsilon.get() * LITTLE {
            found.warn("budget", said, "a budget is for life: jobs that ask for more will be refused");
        } else {
            found.ok("budget", said);
        }
    }
}

pub(super) fn device(config: &Config, found: &mut Findings) {
    match config.compute.choose() {
        Ok(said) => found.ok("device", said),
        Err(error) => found.fail("device", error.to_string(), "change `device` under [compute] in config.toml"),
    }
}
