//! `transcription` at a site: recordings on their way to recognizers that learn almost nothing of them, and back as transcripts.
//!
//! | step | file | kept in the work folder |
//! |---|---|---|
//! | first transcript, by the site's own recognizer | `hear.rs` | `heard-N.json` by recording |
//! | vocabulary; pieces by words; what never leaves | `pieces.rs` | `vocabulary.json`, `pieces-N.json` |
//! | plan, texts and manners of the dummies | `dummies.rs` | `plan.json`, `texts.json`, `manners.json` |
//! | sounds in one voice, paid and sealed | `batch.rs` | `out/` |
//! | transcripts and the site's report | `outcome.rs` | none: they lie in the site's `transcripts/<job>/` |
//!
//! A run that is killed goes on from what is kept. What was not sealed was never sent, and is made again after the same plan;
//! what was sealed is sent again bit for bit, without a second charge. The site pays after everything is made that can fail, so
//! that a machine without a voice costs nothing.
//!
//! The server is told the plan that it signed, and for public recordings what came of it. Nothing here logs a word or the name
//! of a recording. The work folder is cleared when the transcripts are on disk.

mod batch;
mod dummies;
mod hear;
mod histogram;
mod outcome;
mod pieces;
mod stages;
#[cfg(test)]
mod tests;
mod tools;

use std::path::Path;

use undertone_api::job::Report as AnyReport;
use undertone_api::job::transcription::{Outcome, Report, Spec};

use super::{Exchange, Run, RunError};
use crate::speech::recordings::Recordings;
use crate::speech::transcribe::plan::PlanError;
use stages::Stages;
use tools::Tools;

fn failed(error: impl std::fmt::Display) -> RunError {
    RunError::Failed(error.to_string())
}

/// What can go wrong with a plan is no refusal: nothing was paid.
impl From<PlanError> for RunError {
    fn from(error: PlanError) -> Self {
        failed(error)
    }
}

/// The folder below the job's own in which everything lies that is cleared at the end.
const WORK: &str = "transcription";

impl Run for Spec {
    fn run(&self, exchange: &mut dyn Exchange) -> Result<(), RunError> {
        let dataset = exchange.own().dataset;
        if dataset != self.participant.dataset {
            return Err(failed("this dataset does not take part in the job"));
        }
        let site = exchange.transcribing()?;
        let work = exchange.folder().join(WORK);
        let outcome = match outcome::written(&site.results)? {
            Some(outcome) => outcome,
            None => transcribe(self, &work, exchange)?,
        };
        // Also what an earlier life left that died between its last file and this line.
        clear(&work)?;
        let planned = Report::planned(self).map_err(failed)?;
        let public = exchange.published(dataset).is_ok();
        exchange.report(AnyReport::Transcription(if public { planned.with(outcome) } else { planned }))
    }
}

/// The whole road, from wherever an earlier life stopped; the transcripts are on disk when this returns.
fn transcribe(spec: &Spec, work: &Path, exchange: &mut dyn Exchange) -> Result<Outcome, RunError> {
    let recordings = Recordings::open(&exchange.dataset(spec.participant.dataset)?).map_err(failed)?;
    let site = exchange.transcribing()?;
    let tools = Tools::new(spec, &site)?;
    let mut stages = Stages::open(work)?;
    let heard = stages.time("first transcript", || hear::all(&recordings, &tools, work, exchange))?;
    let ground =
        stages.time("vocabulary and pieces", || pieces::ground(spec, &recordings, &heard, &tools, work, exchange))?;
    let plan = dummies::plan(spec, &ground, work, exchange)?;
    let sealed = match batch::sealed(work)? {
        Some(sealed) => sealed,
        None => batch::make(
            &batch::Making { recordings: &recordings, ground: &ground, plan: &plan, tools: &tools, work },
            &mut stages,
            exchange,
        )?,
    };
    let problems = stages.time("recognizers", || batch::deliver(&sealed, &tools.lines, exchange))?;
    let told = outcome::Telling {
        recordings: &recordings,
        ground: &ground,
        plan: &plan,
        tools: &tools,
        sealed: &sealed,
        problems,
    };
    outcome::write(spec, &told, &stages, exchange.manifest().job, &site.results)
}

/// Removes the work folder; transcripts are on disk, and nothing of it is needed any more.
fn clear(work: &Path) -> Result<(), RunError> {
    match std::fs::remove_dir_all(work) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(failed(format!("the job's work folder cannot be cleared: {error}")))
        }
        _ => Ok(()),
    }
}

/// Ends the run when the exchange says so.
fn go_on(exchange: &dyn Exchange) -> Result<(), RunError> {
    if exchange.stopped() { Err(RunError::Stopped("the worker was asked to stop".to_owned())) } else { Ok(()) }
}
