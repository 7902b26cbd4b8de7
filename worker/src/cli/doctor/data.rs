//! Checks of the datasets, their remaining budgets and the compute device.

use std::collections::BTreeMap;

use undertone_api::dataset::Visibility;
use undertone_api::id::LineageId;

use super::super::chain;
use super::super::table::{down, up};
use super::Findings;
use crate::config::Config;
use crate::site::audits;
use crate::site::books::LedgerBooks;
use crate::site::datasets::{Described, UnusableError, UnusableFolder, dataset_lineages, scan};
use crate::site::folder::{Folder, check_name};
use crate::site::lineage::{self, has_sources};
use crate::site::policy::Policy;
use crate::site::store::Store;

/// A budget with at most this fraction left counts as nearly used up.
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
    let policy = Policy::load(&folder.policy()).ok();
    for name in names {
        let at = folder.datasets().join(&name);
        let read = if quick { Described::read(&at) } else { Described::check(&at) };
        // Without a policy no job runs, and no dataset counts as public.
        let visibility = policy.as_ref().map_or(Visibility::Private, |policy| policy.rules(&name).visibility);
        match read.and_then(|described| described.check_visibility(&name, visibility).map(|()| described)) {
            Ok(described) => {
                found.ok("dataset", format!("`{name}` {}", if quick { "is described" } else { "is whole" }));
                if let Some(notice) = described.legacy_notice(visibility) {
                    found.warn("dataset", format!("`{name}` {notice}"), notice.remedy());
                }
            }
            Err(error) => {
                found.fail("dataset", format!("`{name}`: {}", chain(&error)), "prepare it again under the same name");
            }
        }
    }
    for (line, name) in dataset_lineages(store).unwrap_or_default() {
        if let Ok(Some(frozen)) = audits::current_freeze(store, line) {
            let said = format!("`{name}` is frozen since {}: {}", frozen.at, frozen.reason);
            found.fail("dataset", said, format!("mend what was broken, then `ledger unfreeze {name} --reason ...`"));
        }
    }
}

/// Checks that each dataset has the accounts of its data, and that its sources are recognized when they come again.
pub(super) fn lineages(folder: &Folder, store: &Store, found: &mut Findings) {
    let Ok(policy) = Policy::load(&folder.policy()) else { return };
    let (datasets, unusable) = match scan(folder, store, &policy) {
        Ok(scanned) => scanned,
        Err(error) => return found.fail("lineage", chain(&error), "restore the site from a backup"),
    };
    for UnusableFolder { name, error } in unusable {
        if let UnusableError::Lineage(error) = error {
            found.fail("lineage", format!("`{name}` is not used: {}", chain(&*error)), "no job runs on it until then");
        }
    }
    for local in datasets {
        let known = Described::read(&local.folder).is_ok_and(|described| has_sources(&local.folder, &described));
        if known {
            found.ok("lineage", format!("`{}`: its sources are recognized", local.name));
        } else {
            let remedy = "prepare it again from its sources under the same name, with --replace";
            let said =
                format!("`{}`: unknown sources, so the same data under another name may not be recognized", local.name);
            found.warn("lineage", said, remedy);
        }
    }
    let (shared, keys) = match lineage::warnings(store, &policy) {
        Ok(warnings) => warnings,
        Err(error) => return found.fail("lineage", chain(&error), "restore the site from a backup"),
    };
    for (one, other, overlap) in shared {
        let said = format!(
            "{one} and {other} share {overlap}, and each has accounts of its own: their budgets add up for these people"
        );
        found.warn(
            "lineage",
            said,
            "use one of them from now on, or lower both limits so that their sum is what you promise",
        );
    }
    if keys > 1 {
        let said = format!(
            "{keys} keys of the organization: data that were prepared before a key came are not compared under it"
        );
        found.warn(
            "lineage",
            said,
            "prepare older datasets again with --replace, then `lineage export` to the other workers",
        );
    }
}

pub(super) fn budgets(folder: &Folder, store: &Store, found: &mut Findings) {
    let (Ok(policy), Ok(names)) = (Policy::load(&folder.policy()), dataset_lineages(store)) else { return };
    let policy = policy.with_lineages(&names);
    let names: BTreeMap<LineageId, String> = names.into_iter().collect();
    let books = match store.read(LedgerBooks::read) {
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
        let Some(limit) = policy.rules(&name).limits.limit(key.unit) else {
            found.warn("budget", format!("{of}: policy.toml sets none"), "jobs that protect this unit are refused until it does; all others are still charged to the limit that it had");
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
