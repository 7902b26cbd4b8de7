//! `policy show`: the site's rules as the worker understands them.

use std::io::Write;

use clap::Subcommand;
use undertone_privacy::PrivacyUnit;

use super::Failure;
use super::table::table;
use crate::site::datasets::lines;
use crate::site::folder::Folder;
use crate::site::policy::{Approval, Policy, Rules, word};
use crate::site::store::Store;

/// This site's own rules.
#[derive(Debug, Subcommand)]
pub(super) enum Action {
    /// Show what the worker understands policy.toml to say, for each dataset.
    Show,
}

pub(super) fn show(folder: &Folder, out: &mut dyn Write) -> Result<(), Failure> {
    let policy = Policy::load(&folder.policy())?;
    let known = if folder.ledger().exists() { lines(&Store::open(&folder.ledger())?)? } else { Vec::new() };
    let mut names: Vec<String> = known.into_iter().map(|(_, name)| name).collect();
    names.extend(policy.named().map(str::to_owned));
    names.sort();
    names.dedup();
    let general = policy.rules("");
    writeln!(out, "Rules of {}", folder.policy().display())?;
    writeln!(out, "Kinds that may run      {}", general.kinds.join(", "))?;
    writeln!(out, "Least noise multiplier  {}", general.least_noise_multiplier.get())?;
    writeln!(out, "Least threshold         {} occurrences", general.least_threshold)?;
    writeln!(out, "Largest sampling rate   {}", general.most_sampling_rate.get())?;
    writeln!(out, "Voices may leave        {}", if general.voices_may_leave { "yes" } else { "no" })?;
    writeln!(out, "Most epsilon per job    {}\n", general.most_epsilon_per_job.get())?;
    let mut rows = vec![row("(any other)", &general)];
    rows.extend(names.iter().map(|name| row(name, &policy.rules(name))));
    let head = ["DATASET", "VISIBILITY", "APPROVAL", "RECORD", "SPEAKER", "USER", "WORDS"];
    write!(out, "{}", table(&head, &rows))?;
    writeln!(out, "\nBudgets are epsilon/delta for life; a unit without one cannot be charged.")?;
    Ok(())
}

fn row(name: &str, rules: &Rules) -> Vec<String> {
    let approval = match rules.approval {
        Approval::Automatic => "automatic",
        Approval::Steward => "steward",
        Approval::Manual => "manual",
    };
    let limit = |unit| {
        let limit = rules.limits.of(unit);
        limit.map_or_else(|| "none".to_owned(), |limit| format!("{}/{:e}", limit.epsilon.get(), limit.delta.get()))
    };
    let units = [PrivacyUnit::Record, PrivacyUnit::Speaker, PrivacyUnit::User, PrivacyUnit::Words].map(limit);
    let mut row = vec![name.to_owned(), word(rules.visibility).to_owned(), approval.to_owned()];
    row.extend(units);
    row
}
