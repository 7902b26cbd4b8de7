//! Checks of the datasets, their remaining budgets and the compute device.

use std::collections::BTreeMap;

use undertone_api::dataset::Visibility;
use undertone_api::id::LineageId;

use super::super::format_error;
use super::super::table::{round_down, round_up};
use super::CheckResults;
use crate::config::Config;
use crate::site::audits;
use crate::site::books::LedgerBooks;
use crate::site::datasets::{DatasetMeta, UnusableError, UnusableFolder, dataset_lineages, scan};
use crate::site::folder::{Folder, check_name};
use crate::site::lineage::{self, has_sources};
use crate::site::policy::Policy;
use crate::site::store::Store;

/// A budget with at most this fraction left counts as nearly used up.
const LITTLE: f64 = 0.1;

pub(super) fn check_datasets(folder: &Folder, store: &Store, quick: bool, results: &mut CheckResults) {
    let names: Vec<String> = std::fs::read_dir(folder.datasets())
        .into_iter()
        .flatten()
        .flatten()
        .map(|item| item.file_name().to_string_lossy().into_owned())
        .filter(|name| check_name(name).is_ok())
        .collect();
    if names.is_empty() {
        results.warn("dataset", "this site has no dataset", "`undertone-worker data prepare --help`");
    }
    let policy = Policy::load(&folder.policy()).ok();
    for name in names {
        let path = folder.datasets().join(&name);
        let meta = if quick { DatasetMeta::read(&path) } else { DatasetMeta::check(&path) };
        // Without a policy no job runs, and no dataset counts as public.
        let visibility = policy.as_ref().map_or(Visibility::Private, |policy| policy.rules(&name).visibility);
        match meta.and_then(|meta| meta.check_visibility(&name, visibility).map(|()| meta)) {
            Ok(meta) => {
                results.ok(
                    "dataset",
                    format!("`{name}` {}", if quick { "has a valid description" } else { "is complete and unchanged" }),
                );
                if let Some(notice) = meta.legacy_notice(visibility) {
                    results.warn("dataset", format!("`{name}` {notice}"), notice.remedy());
                }
            }
            Err(error) => {
                results.fail(
                    "dataset",
                    format!("`{name}`: {}", format_error(&error)),
                    "prepare it again under the same name",
                );
            }
        }
    }
    for (line, name) in dataset_lineages(store).unwrap_or_default() {
        if let Ok(Some(frozen)) = audits::current_freeze(store, line) {
            let problem = format!("`{name}` is frozen since {}: {}", frozen.at, frozen.reason);
            results.fail("dataset", problem, format!("correct the fault, then `ledger unfreeze {name} --reason ...`"));
        }
    }
}

/// Checks that each dataset has the accounts of its data, and that the site would recognize its sources again.
pub(super) fn check_lineages(folder: &Folder, store: &Store, results: &mut CheckResults) {
    let Ok(policy) = Policy::load(&folder.policy()) else { return };
    let (datasets, unusable) = match scan(folder, store, &policy) {
        Ok(scan) => scan,
        Err(error) => return results.fail("lineage", format_error(&error), "restore the site from a backup"),
    };
    for UnusableFolder { name, error } in unusable {
        if let UnusableError::Lineage(error) = error {
            results.fail(
                "lineage",
                format!("`{name}` is not used: {}", format_error(&*error)),
                "no job can use it until this is corrected",
            );
        }
    }
    for local in datasets {
        let is_known = DatasetMeta::read(&local.folder).is_ok_and(|meta| has_sources(&local.folder, &meta));
        if is_known {
            results.ok("lineage", format!("`{}`: its sources are known", local.name));
        } else {
            let remedy = "prepare it again from its sources under the same name, with --replace";
            let problem =
                format!("`{}`: unknown sources, so the same data under another name may not be recognized", local.name);
            results.warn("lineage", problem, remedy);
        }
    }
    let (shared, keys) = match lineage::warnings(store, &policy) {
        Ok(warnings) => warnings,
        Err(error) => return results.fail("lineage", format_error(&error), "restore the site from a backup"),
    };
    for (one, other, overlap) in shared {
        let problem = format!(
            "{one} and {other} share {overlap}, but have separate accounts: their budgets add up for these people"
        );
        results.warn(
            "lineage",
            problem,
            "use only one of them from now on, or lower both limits so that their sum is the limit that you promise",
        );
    }
    if keys > 1 {
        let problem = format!(
            "{keys} keys of the organization: data prepared before a key was imported are not compared under it"
        );
        results.warn(
            "lineage",
            problem,
            "prepare older datasets again with --replace, then `lineage export` to the other workers",
        );
    }
}

pub(super) fn check_budgets(folder: &Folder, store: &Store, results: &mut CheckResults) {
    let Ok(policy) = Policy::load(&folder.policy()) else { return };
    let Ok(names) = dataset_lineages(store) else { return };
    let policy = policy.with_lineages(&names);
    let names: BTreeMap<LineageId, String> = names.into_iter().collect();
    let books = match store.read(LedgerBooks::read) {
        Ok(books) => books,
        Err(error) => return results.fail("budget", format_error(&error), "restore the site from a backup"),
    };
    if books.accounts.is_empty() {
        results.ok("budget", "nothing has been spent");
    }
    for (key, book) in &books.accounts {
        let name = names.get(&key.lineage).cloned().unwrap_or_else(|| key.lineage.to_string());
        let account = format!("`{name}`, {}", format!("{:?}", key.unit).to_lowercase());
        let summary = book.account.balance().summary();
        let Some(limit) = policy.rules(&name).limits.limit(key.unit) else {
            let problem = format!("{account}: policy.toml sets no budget");
            let remedy = "set one in policy.toml: until then this site refuses jobs that protect this unit, and charges all other jobs to \
                          the earlier limit";
            results.warn("budget", problem, remedy);
            continue;
        };
        let remainder = limit.epsilon.get() - summary.spent_epsilon - summary.reserved_epsilon;
        let message = format!(
            "{account}: epsilon {} spent, {} reserved, {} of {} left",
            round_up(summary.spent_epsilon),
            round_up(summary.reserved_epsilon),
            round_down(remainder.max(0.0)),
            round_up(limit.epsilon.get())
        );
        if remainder <= limit.epsilon.get() * LITTLE {
            results.warn("budget", message, "the budget is for life: this site refuses jobs that need more");
        } else {
            results.ok("budget", message);
        }
    }
}

pub(super) fn check_device(config: &Config, results: &mut CheckResults) {
    match config.compute.choose() {
        Ok(device) => results.ok("device", device),
        Err(error) => results.fail("device", error.to_string(), "change `device` under [compute] in config.toml"),
    }
}
