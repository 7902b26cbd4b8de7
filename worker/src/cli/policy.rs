//! `policy show`: prints the site's rules as the worker interprets them.

use std::collections::BTreeMap;
use std::io::Write;

use clap::Subcommand;
use undertone_api::id::LineageId;
use undertone_privacy::PrivacyUnit;
use undertone_privacy::ledger::Promises;

use super::Failure;
use super::ledger::promises;
use super::table::table;
use crate::config::Config;
use crate::config::transcription::Sensitive;
use crate::site::books::{self, AccountKey};
use crate::site::datasets::dataset_lineages;
use crate::site::folder::Folder;
use crate::site::policy::{DatasetRules, LogDisclosure, Policy, RequiredApproval, word};
use crate::site::store::Store;

/// This site's own rules.
#[derive(Debug, Subcommand)]
pub(super) enum Action {
    /// Show what the worker understands policy.toml to say, for each dataset.
    Show,
}

pub(super) fn show(folder: &Folder, out: &mut dyn Write) -> Result<(), Failure> {
    let store = if folder.ledger().exists() { Some(Store::open(&folder.ledger())?) } else { None };
    let known = store.as_ref().map(dataset_lineages).transpose()?.unwrap_or_default();
    let policy = Policy::load(&folder.policy())?.with_lineages(&known);
    let mut names: Vec<String> = known.iter().map(|(_, name)| name.clone()).collect();
    names.extend(policy.dataset_names().map(str::to_owned));
    names.sort();
    names.dedup();
    let general = policy.rules("");
    writeln!(out, "Rules of {}", folder.policy().display())?;
    let rules: Vec<_> = jobs(&policy, &general).into_iter().chain([languages(folder)]).collect();
    writeln!(out, "{}", table(&["KEY", "RULE", "OF WHAT"], &rules))?;
    let mut rows = vec![row("(any other)", &general)];
    rows.extend(names.iter().map(|name| row(name, &policy.rules(name))));
    let head = ["DATASET", "VISIBILITY", "APPROVAL", "RECORD", "SPEAKER", "USER", "WORDS"];
    write!(out, "{}", table(&head, &rows))?;
    writeln!(
        out,
        "\nBudgets are epsilon/delta for life; each bounds all jobs, whichever unit they protect. A job whose own unit has none is refused."
    )?;
    writeln!(out, "A budget that is raised after something was released begins a second promise beside the first.")?;
    let rows = store.as_ref().map(|store| store.read(books::entries)).transpose()?.unwrap_or_default();
    raised(&policy, &known, &books::promises(&rows), out)
}

/// Writes the bound after the next release, for limits above those of earlier releases.
fn raised(
    policy: &Policy,
    known: &[(LineageId, String)],
    promised: &BTreeMap<AccountKey, Promises>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    for (lineage, name) in known {
        let limits = policy.rules(name).limits;
        for (key, promised) in promised.iter().filter(|(key, _)| key.lineage == *lineage) {
            let Some(sum) = limits.limit(key.unit).and_then(|limit| promises::next(promised, limit)) else { continue };
            let unit = format!("{:?}", key.unit).to_lowercase();
            writeln!(
                out,
                "`{name}`, {unit}: this budget is above that of earlier releases. With the next release holds, for everything \
                 together, {sum}."
            )?;
        }
    }
    Ok(())
}

/// Returns the rows of `[jobs]`, one for each key.
fn jobs(policy: &Policy, rules: &DatasetRules) -> Vec<Vec<String>> {
    let logs = match policy.logs() {
        LogDisclosure::None => "none",
        LogDisclosure::States => "states",
    };
    let cost = rules.most_cost_per_job.as_ref().map_or_else(|| "no limit".to_owned(), ToString::to_string);
    let together = rules.most_epsilon_automatic;
    let together = together.map_or_else(|| "no limit".to_owned(), |most| most.get().to_string());
    let said = [
        ("kinds", rules.kinds.join(", "), "jobs that may run"),
        ("approval", approval(rules.approval).to_owned(), "who says yes besides this file"),
        ("least_noise_multiplier", rules.least_noise_multiplier.get().to_string(), "least noise, relative to the clip"),
        ("least_threshold", rules.least_threshold.to_string(), "least occurrences of a query that leaves"),
        ("most_sampling_rate", rules.most_sampling_rate.get().to_string(), "largest share of a query log"),
        ("least_distance", rules.least_distance.to_string(), "least counts of pieces that a transcription hides"),
        ("least_colluding", rules.least_colluding.to_string(), "least recognizers that put their parts together"),
        (
            "voices_may_leave",
            if rules.voices_may_leave { "yes" } else { "no" }.to_owned(),
            "speakers in their own voices",
        ),
        ("most_epsilon_per_job", rules.most_epsilon_per_job.get().to_string(), "most epsilon of one job by itself"),
        ("most_epsilon_automatic", together, "most epsilon of all jobs that nobody is asked about"),
        ("most_cost_per_job", cost, "most money that a transcription may cost"),
        ("logs", logs.to_owned(), "what is said for the log on a job's page"),
        ("release_period_seconds", rules.release_periods.to_string(), "ticks of the clocks on which releases leave"),
        ("longest_unit_seconds", rules.longest_units.to_string(), "public lengths to which private units are cut"),
    ];
    said.into_iter().map(|(key, rule, what)| vec![format!("jobs.{key}"), rule, what.to_owned()]).collect()
}

/// Returns the row of the only rule in config.toml: the languages with lists of sensitive words.
fn languages(folder: &Folder) -> Vec<String> {
    let rule = match Config::load(folder).map(|config| config.transcription.sensitive) {
        Ok(Sensitive { language: Some(path), .. }) => format!("that of {}", path.display()),
        Ok(Sensitive { languages, .. }) => languages.join(", "),
        Err(_) => "config.toml cannot be read".to_owned(),
    };
    let what = "languages of recordings that may be transcribed, by config.toml";
    vec!["transcription.sensitive.languages".to_owned(), rule, what.to_owned()]
}

const fn approval(approval: RequiredApproval) -> &'static str {
    match approval {
        RequiredApproval::Automatic => "automatic",
        RequiredApproval::Steward => "steward",
        RequiredApproval::Server => "server",
        RequiredApproval::Manual => "manual",
    }
}

fn row(name: &str, rules: &DatasetRules) -> Vec<String> {
    let limit = |unit| {
        let limit = rules.limits.limit(unit);
        limit.map_or_else(|| "none".to_owned(), |limit| format!("{}/{:e}", limit.epsilon.get(), limit.delta.get()))
    };
    let units = [PrivacyUnit::Record, PrivacyUnit::Speaker, PrivacyUnit::User, PrivacyUnit::Words].map(limit);
    let mut row = vec![name.to_owned(), word(rules.visibility).to_owned(), approval(rules.approval).to_owned()];
    row.extend(units);
    row
}
