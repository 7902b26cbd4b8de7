//! `policy show`: prints the site's rules as the worker interprets them.

use std::collections::BTreeMap;
use std::io::Write;

use clap::Subcommand;
use undertone_api::id::LineageId;
use undertone_privacy::PrivacyUnit;
use undertone_privacy::ledger::Promises;

use super::CommandFailure;
use super::ledger::promises;
use super::table::format_table;
use crate::config::Config;
use crate::config::transcription::SensitiveWords;
use crate::site::books::{self, AccountKey};
use crate::site::datasets::dataset_lineages;
use crate::site::folder::Folder;
use crate::site::policy::{DatasetRules, LogDisclosure, Policy, RequiredApproval, word};
use crate::site::store::Store;

/// Show this site's policy.
#[derive(Debug, Subcommand)]
pub(super) enum PolicyAction {
    /// Show the worker's interpretation of policy.toml, for each dataset.
    Show,
}

pub(super) fn show(folder: &Folder, out: &mut dyn Write) -> Result<(), CommandFailure> {
    let store = if folder.ledger().exists() { Some(Store::open(&folder.ledger())?) } else { None };
    let lineages = store.as_ref().map(dataset_lineages).transpose()?.unwrap_or_default();
    let policy = Policy::load(&folder.policy())?.with_lineages(&lineages);
    let mut names: Vec<String> = lineages.iter().map(|(_, name)| name.clone()).collect();
    names.extend(policy.dataset_names().map(str::to_owned));
    names.sort();
    names.dedup();
    let general = policy.rules("");
    writeln!(out, "Rules of {}", folder.policy().display())?;
    let rules: Vec<_> = job_rules(&policy, &general).into_iter().chain([language_rule(folder)]).collect();
    writeln!(out, "{}", format_table(&["KEY", "RULE", "MEANING"], &rules))?;
    let mut rows = vec![format_row("(any other)", &general)];
    rows.extend(names.iter().map(|name| format_row(name, &policy.rules(name))));
    let head = ["DATASET", "VISIBILITY", "APPROVAL", "RECORD", "SPEAKER", "USER", "WORDS"];
    write!(out, "{}", format_table(&head, &rows))?;
    writeln!(
        out,
        "\nBudgets are epsilon/delta for life; each bounds all jobs, for any protected unit. This site refuses a job whose own unit has no budget."
    )?;
    writeln!(out, "A budget that is raised after a release begins a second promise in addition to the first.")?;
    let rows = store.as_ref().map(|store| store.read(books::entries)).transpose()?.unwrap_or_default();
    write_raised_limits(&policy, &lineages, &books::promises(&rows), out)
}

/// Writes the bound after the next release, for limits above those of earlier releases.
fn write_raised_limits(
    policy: &Policy,
    lineages: &[(LineageId, String)],
    promised: &BTreeMap<AccountKey, Promises>,
    out: &mut dyn Write,
) -> Result<(), CommandFailure> {
    for (lineage, name) in lineages {
        let limits = policy.rules(name).limits;
        for (key, promised) in promised.iter().filter(|(key, _)| key.lineage == *lineage) {
            let Some(sum) = limits.limit(key.unit).and_then(|limit| promises::describe_next(promised, limit)) else {
                continue;
            };
            let unit = format!("{:?}", key.unit).to_lowercase();
            writeln!(
                out,
                "`{name}`, {unit}: this budget is above that of earlier releases. After the next release, the bound for all releases \
                 together is {sum}."
            )?;
        }
    }
    Ok(())
}

/// Returns the rows of `[jobs]`, one for each key.
fn job_rules(policy: &Policy, rules: &DatasetRules) -> Vec<Vec<String>> {
    let logs = match policy.logs() {
        LogDisclosure::None => "none",
        LogDisclosure::States => "states",
    };
    let cost = rules.most_cost_per_job.as_ref().map_or_else(|| "no limit".to_owned(), ToString::to_string);
    let total = rules.most_epsilon_automatic;
    let total = total.map_or_else(|| "no limit".to_owned(), |most| most.get().to_string());
    let rows = [
        ("kinds", rules.kinds.join(", "), "job kinds that can run"),
        (
            "approval",
            approval_word(rules.approval).to_owned(),
            "the approval that a job needs in addition to this policy",
        ),
        ("least_noise_multiplier", rules.least_noise_multiplier.get().to_string(), "least noise, relative to the clip"),
        ("least_threshold", rules.least_threshold.to_string(), "least occurrences of a released query"),
        ("most_sampling_rate", rules.most_sampling_rate.get().to_string(), "largest sampled share of a query log"),
        (
            "least_distance",
            rules.least_distance.to_string(),
            "least number of counts of pieces that a transcription hides",
        ),
        (
            "least_colluding",
            rules.least_colluding.to_string(),
            "least number of colluding recognizers that a job withstands",
        ),
        (
            "voices_may_leave",
            if rules.voices_may_leave { "yes" } else { "no" }.to_owned(),
            "whether sounds leave in the speakers' own voices",
        ),
        ("most_epsilon_per_job", rules.most_epsilon_per_job.get().to_string(), "most epsilon of one job alone"),
        ("most_epsilon_automatic", total, "most epsilon of all automatically approved jobs together"),
        ("most_cost_per_job", cost, "highest cost of a transcription"),
        ("logs", logs.to_owned(), "events for the log on a job's page"),
        ("release_period_seconds", rules.release_periods.to_string(), "periods of the release clocks"),
        (
            "longest_unit_seconds",
            rules.longest_units.to_string(),
            "public lengths to which private units are truncated",
        ),
        ("secure_aggregation", rules.secure_aggregation.to_string(), "groups whose vectors are added under masks"),
    ];
    rows.into_iter().map(|(key, rule, meaning)| vec![format!("jobs.{key}"), rule, meaning.to_owned()]).collect()
}

/// Returns the row of the only rule in config.toml: the languages with lists of sensitive words.
fn language_rule(folder: &Folder) -> Vec<String> {
    let rule = match Config::load(folder).map(|config| config.transcription.sensitive) {
        Ok(SensitiveWords { language: Some(path), .. }) => format!("that of {}", path.display()),
        Ok(SensitiveWords { languages, .. }) => languages.join(", "),
        Err(_) => "config.toml cannot be read".to_owned(),
    };
    let meaning = "languages of recordings that jobs can transcribe, from config.toml";
    vec!["transcription.sensitive.languages".to_owned(), rule, meaning.to_owned()]
}

const fn approval_word(approval: RequiredApproval) -> &'static str {
    match approval {
        RequiredApproval::Automatic => "automatic",
        RequiredApproval::Steward => "steward",
        RequiredApproval::Server => "server",
        RequiredApproval::Manual => "manual",
    }
}

fn format_row(name: &str, rules: &DatasetRules) -> Vec<String> {
    let limit = |unit| {
        let limit = rules.limits.limit(unit);
        limit.map_or_else(
            || "none".to_owned(),
            |limit| {
                let filter = if limit.filter.is_renyi() { "" } else { " gaussian" };
                format!("{}/{:e}{filter}", limit.epsilon.get(), limit.delta.get())
            },
        )
    };
    let units = [PrivacyUnit::Record, PrivacyUnit::Speaker, PrivacyUnit::User, PrivacyUnit::Words].map(limit);
    let mut row = vec![name.to_owned(), word(rules.visibility).to_owned(), approval_word(rules.approval).to_owned()];
    row.extend(units);
    row
}
