//! `doctor`: checks all conditions for a working worker at once, and prints ok or the remedy.
//!
//! It changes nothing except a probe file, which it removes. It never reveals more to the server or another site than a
//! sign-in does. To add a check: a function in `doctor/`, its call in [`DoctorCommand::run_checks`].

mod data;
mod disk;
mod peers;
mod release_clock;
mod server;
mod site;
mod transcription;

use std::io::Write;

use clap::Args;
use serde::Serialize;

use super::CommandFailure;
use crate::config::Config;
use crate::site::clock::Clock;
use crate::site::folder::Folder;

/// Check everything that this worker needs, and print a remedy for each problem.
#[derive(Debug, Args)]
pub(super) struct DoctorCommand {
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
    /// Skip slow checks: do not read datasets completely.
    #[arg(long)]
    quick: bool,
    /// Skip checks that need the server.
    #[arg(long)]
    offline: bool,
}

/// The state of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum CheckState {
    /// Correct.
    Ok,
    /// Requires attention.
    Warn,
    /// Wrong: the worker does not work, or is not safe.
    Fail,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct CheckResult {
    check: &'static str,
    state: CheckState,
    #[serde(rename = "said")]
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

/// The results so far.
#[derive(Debug, Default, Serialize)]
struct CheckResults {
    checks: Vec<CheckResult>,
}

impl CheckResults {
    fn ok(&mut self, check: &'static str, message: impl Into<String>) {
        self.checks.push(CheckResult { check, state: CheckState::Ok, message: message.into(), remedy: None });
    }

    fn warn(&mut self, check: &'static str, message: impl Into<String>, remedy: impl Into<String>) {
        let remedy = Some(remedy.into());
        self.checks.push(CheckResult { check, state: CheckState::Warn, message: message.into(), remedy });
    }

    fn fail(&mut self, check: &'static str, message: impl Into<String>, remedy: impl Into<String>) {
        let remedy = Some(remedy.into());
        self.checks.push(CheckResult { check, state: CheckState::Fail, message: message.into(), remedy });
    }

    fn count(&self, state: CheckState) -> usize {
        self.checks.iter().filter(|result| result.state == state).count()
    }

    fn worst(&self) -> CheckState {
        self.checks.iter().map(|result| result.state).max().unwrap_or(CheckState::Ok)
    }
}

impl DoctorCommand {
    pub(super) fn run(&self, folder: &Folder, clock: &Clock, out: &mut dyn Write) -> Result<(), CommandFailure> {
        let results = self.run_checks(folder, clock)?;
        if self.json {
            let report = serde_json::json!({
                "ok": results.count(CheckState::Ok),
                "warn": results.count(CheckState::Warn),
                "fail": results.count(CheckState::Fail),
                "checks": results.checks,
            });
            writeln!(out, "{report:#}")?;
        } else {
            print(&results, out)?;
        }
        let warnings = results.count(CheckState::Warn);
        let failures = results.count(CheckState::Fail);
        match results.worst() {
            CheckState::Ok => Ok(()),
            CheckState::Warn => Err(CommandFailure { code: 1, error: format!("warnings: {warnings}").into() }),
            CheckState::Fail => {
                let message = format!("failed checks: {failures}, warnings: {warnings}");
                Err(CommandFailure { code: 2, error: message.into() })
            }
        }
    }

    fn run_checks(&self, folder: &Folder, clock: &Clock) -> Result<CheckResults, CommandFailure> {
        let mut results = CheckResults::default();
        let config = match Config::load(folder) {
            Ok(config) => {
                let owner = format!("worker `{}` of {}", config.worker_name, config.organization_name);
                results.ok("config", owner);
                Some(config)
            }
            Err(error) => {
                results.fail(
                    "config",
                    super::format_error(&error),
                    "`undertone-worker config check` lists every mistake",
                );
                None
            }
        };
        site::check_policy(folder, &mut results);
        site::check_folder(folder, &mut results);
        let key = site::check_key(folder, config.as_ref(), clock(), &mut results);
        disk::check_free_space(folder, config.as_ref(), &mut results);
        disk::check_sync(folder, &mut results);
        let store = site::check_ledger(folder, key.as_ref(), config.as_ref(), &mut results);
        if let Some(store) = &store {
            site::check_approval(folder, store, clock(), &mut results);
            peers::check_peers(store, clock(), &mut results);
            data::check_datasets(folder, store, self.quick, &mut results);
            data::check_lineages(folder, store, &mut results);
            data::check_budgets(folder, store, &mut results);
        }
        if let Some(config) = &config {
            data::check_device(config, &mut results);
            transcription::check_transcription(folder, config, store.as_ref(), self, clock, &mut results);
        }
        for wall in crate::speech::sandbox::missing_walls() {
            results.warn("programs", wall.problem, wall.remedy);
        }
        release_clock::check_release_clocks(folder, &mut results);
        site::check_daemon(folder, &mut results);
        if let (Some(config), Some(key), false) = (config, key, self.offline) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(server::check_server(folder, &config, key, store.as_ref(), clock, &mut results));
        }
        Ok(results)
    }
}

fn print(results: &CheckResults, out: &mut dyn Write) -> std::io::Result<()> {
    let width = results.checks.iter().map(|result| result.check.len()).max().unwrap_or(0);
    for CheckResult { check, state, message, remedy } in &results.checks {
        let word = match state {
            CheckState::Ok => "ok  ",
            CheckState::Warn => "warn",
            CheckState::Fail => "FAIL",
        };
        let message = message.replace('\n', "; ");
        writeln!(out, "{word}  {check:width$}  {message}")?;
        if let Some(remedy) = remedy {
            writeln!(out, "      {:width$}  -> {remedy}", "")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
