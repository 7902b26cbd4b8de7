//! `doctor`: checks all conditions for a working worker at once, and prints ok or the remedy.
//!
//! It changes nothing except a probe file, which it removes. It never reveals more to the server or another site than a
//! sign-in does. To add a check: a function in `doctor/`, its call in [`Doctor::look`].

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

use super::Failure;
use crate::config::Config;
use crate::site::clock::Clock;
use crate::site::folder::Folder;

/// Look at everything that has to be right for this worker to work.
#[derive(Debug, Args)]
pub(super) struct Doctor {
    /// Print one JSON object instead of lines.
    #[arg(long)]
    json: bool,
    /// Leave out what takes long: reading datasets whole.
    #[arg(long)]
    quick: bool,
    /// Leave out what needs the server.
    #[arg(long)]
    offline: bool,
}

/// The state of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// Correct.
    Ok,
    /// Requires attention.
    Warn,
    /// Wrong: the worker does not work, or is not safe.
    Fail,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Finding {
    check: &'static str,
    state: State,
    said: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

/// The results so far.
#[derive(Debug, Default, Serialize)]
struct Findings {
    checks: Vec<Finding>,
}

impl Findings {
    fn ok(&mut self, check: &'static str, said: impl Into<String>) {
        self.checks.push(Finding { check, state: State::Ok, said: said.into(), remedy: None });
    }

    fn warn(&mut self, check: &'static str, said: impl Into<String>, remedy: impl Into<String>) {
        self.checks.push(Finding { check, state: State::Warn, said: said.into(), remedy: Some(remedy.into()) });
    }

    fn fail(&mut self, check: &'static str, said: impl Into<String>, remedy: impl Into<String>) {
        self.checks.push(Finding { check, state: State::Fail, said: said.into(), remedy: Some(remedy.into()) });
    }

    fn count(&self, state: State) -> usize {
        self.checks.iter().filter(|finding| finding.state == state).count()
    }

    fn worst(&self) -> State {
        self.checks.iter().map(|finding| finding.state).max().unwrap_or(State::Ok)
    }
}

impl Doctor {
    pub(super) fn run(&self, folder: &Folder, clock: &Clock, out: &mut dyn Write) -> Result<(), Failure> {
        let found = self.look(folder, clock)?;
        if self.json {
            let whole = serde_json::json!({
                "ok": found.count(State::Ok),
                "warn": found.count(State::Warn),
                "fail": found.count(State::Fail),
                "checks": found.checks,
            });
            writeln!(out, "{whole:#}")?;
        } else {
            print(&found, out)?;
        }
        let (warn, fail) = (found.count(State::Warn), found.count(State::Fail));
        match found.worst() {
            State::Ok => Ok(()),
            State::Warn => Err(Failure { code: 1, error: format!("{warn} to be looked at").into() }),
            State::Fail => Err(Failure { code: 2, error: format!("{fail} wrong, {warn} to be looked at").into() }),
        }
    }

    fn look(&self, folder: &Folder, clock: &Clock) -> Result<Findings, Failure> {
        let mut found = Findings::default();
        let config = match Config::load(folder) {
            Ok(config) => {
                let whose = format!("worker `{}` of {}", config.worker_name, config.organization_name);
                found.ok("config", whose);
                Some(config)
            }
            Err(error) => {
                found.fail("config", super::chain(&error), "`undertone-worker config check` names every mistake");
                None
            }
        };
        site::policy(folder, &mut found);
        site::folder(folder, &mut found);
        let key = site::key(folder, config.as_ref(), clock(), &mut found);
        disk::room(folder, config.as_ref(), &mut found);
        disk::sync(folder, &mut found);
        let store = site::ledger(folder, key.as_ref(), config.as_ref(), &mut found);
        if let Some(store) = &store {
            site::approval(folder, store, clock(), &mut found);
            peers::look(store, clock(), &mut found);
            data::datasets(folder, store, self.quick, &mut found);
            data::lineages(folder, store, &mut found);
            data::budgets(folder, store, &mut found);
        }
        if let Some(config) = &config {
            data::device(config, &mut found);
            transcription::look(folder, config, store.as_ref(), self, clock, &mut found);
        }
        for wall in crate::speech::sandbox::missing_walls() {
            found.warn("programs", wall.problem, wall.remedy);
        }
        release_clock::look(folder, &mut found);
        site::daemon(folder, &mut found);
        if let (Some(config), Some(key), false) = (config, key, self.offline) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(server::all(folder, &config, key, store.as_ref(), clock, &mut found));
        }
        Ok(found)
    }
}

fn print(found: &Findings, out: &mut dyn Write) -> std::io::Result<()> {
    let width = found.checks.iter().map(|finding| finding.check.len()).max().unwrap_or(0);
    for Finding { check, state, said, remedy } in &found.checks {
        let word = match state {
            State::Ok => "ok  ",
            State::Warn => "warn",
            State::Fail => "FAIL",
        };
        let said = said.replace('\n', "; ");
        writeln!(out, "{word}  {check:width$}  {said}")?;
        if let Some(remedy) = remedy {
            writeln!(out, "      {:width$}  -> {remedy}", "")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
