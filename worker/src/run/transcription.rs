//! `transcription` at a site: recordings sent, in pieces and among dummies, to external recognizers, and returned as
//! transcripts.
//!
//! | step | file | stored in the work folder |
//! |---|---|---|
//! | first transcript, by the site's own recognizer | `hear.rs` | `recordings.json`, `heard-N.json` |
//! | vocabulary; sensitive words | `pieces.rs` | `vocabulary.json` |
//! | pieces of recorded speech for dummies, if the site has some | `recorded.rs` | none: they are in the site's `spoken.jsonl` |
//! | plan, texts and manners of the dummies | `dummies.rs` | `plan.json`, `texts.json`, `manners.json` |
//! | assignment of recorded pieces to dummies | `recorded.rs` | `recorded.json` |
//! | rate and silence that fit a dummy into the length of a piece | `fitting.rs` | none |
//! | voices to imitate, if the engine clones | `clones.rs` | `voices/`, only while dummies are made |
//! | sounds in one voice, sealed and paid | `batch.rs` | `out/` |
//! | each provider's simulated adversary | `attack.rs` | none |
//! | transcripts and the site's report | `outcome.rs` | none: they lie in the site's `transcripts/<job>/` |
//!
//! A killed run resumes from the stored state. Unsealed sounds were never sent, and are made again by the same plan;
//! sealed sounds are paid once and sent again bit for bit. The site pays after every step that can fail, so that a
//! machine without a voice costs nothing, and the server countersigns the payment before the first sound leaves. A paid
//! batch that is lost, because the ledger was restored on another machine, is never made a second time.
//!
//! The server receives the plan that it signed, and for public recordings the outcome. Nothing here logs a word or the
//! name of a recording. The work folder is cleared when the transcripts are on disk.

mod attack;
mod batch;
mod clones;
mod dummies;
mod fitting;
mod hear;
mod histogram;
mod outcome;
mod pieces;
mod recorded;
mod stages;
#[cfg(test)]
mod tests;
mod tools;
#[cfg(test)]
pub(crate) use batch::{AT_ONCE, PASSES, SAMPLE};
#[cfg(test)]
pub(crate) use tools::MOST_TEXT;

pub(crate) use recorded::{Coverage, coverage, left};

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use undertone_api::job::Report as AnyReport;
use undertone_api::job::transcription::window::ONE_WORD;
use undertone_api::job::transcription::{Report, Spec, TranscriptionOutcome};

use super::{Exchange, Run, RunError};
use crate::speech::recordings::{Recordings, collision};
use crate::speech::transcribe::outbound::SealedSounds;
use crate::speech::transcribe::plan::{PlanError, load_or_create};
use crate::speech::transcribe::recognize::RecognizerError;
use crate::speech::transcribe::recorded::RecordedError;
use crate::speech::transcribe::speak::SpeechEngine;
use stages::Stages;
use tools::Tools;

fn failed(error: impl std::fmt::Display) -> RunError {
    RunError::Failed(error.to_string())
}

/// An error of a plan is no refusal: nothing was paid.
impl From<PlanError> for RunError {
    fn from(error: PlanError) -> Self {
        Self::from_failure(error)
    }
}

/// A lost recognizer is not a refusal.
impl From<RecognizerError> for RunError {
    fn from(error: RecognizerError) -> Self {
        Self::from_failure(error)
    }
}

/// A problem with recorded speech, which is the site's own, is not a refusal.
impl From<RecordedError> for RunError {
    fn from(error: RecordedError) -> Self {
        Self::from_failure(error)
    }
}

/// The period of the release clock for short recordings: the time for the dummies of a plan does not depend on the
/// recordings' length. For longer recordings the period is their duration.
const SHORTEST_WORK: Duration = Duration::from_mins(15);
/// The folder, below the job's own, of everything that is removed at the end.
const WORK: &str = "transcription";
/// The reason to stop a run on replaced recordings.
const OTHERS: &str = "the recordings are others than those that the job began with, of which nobody has looked what must not leave: \
                      propose a new job";
/// The reason to reject recordings with conflicting names; it names none of them.
const PLACES: &str = "a transcript of one recording would lie where the folder of another has to be: name one of them otherwise and \
                      add the recordings again";
/// The reason to stop a run whose plan precedes a listed word.
const LISTED: &str = "what must not leave has become more since the job was planned, and its plan would send some of it: propose a new \
                      job";

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
        // This also removes files of an earlier process that died between its last file and this line.
        clear(&work)?;
        let planned = Report::from_plan(self).map_err(failed)?;
        let public = exchange.published(dataset).is_ok();
        exchange.report(AnyReport::Transcription(if public { planned.with_outcome(outcome) } else { planned }))
    }
}

/// Refuses a job on private recordings if its noise does not cover the sounds that the site would send.
///
/// # Errors
/// [`RunError::Refused`] if one spoken word changes more counts than the noise hides, or if imitated voices reveal
/// pieces of other recognizers that the job counts as unknown.
fn check_cover(spec: &Spec, tools: &Tools) -> Result<(), RunError> {
    let distance = spec.participant.distance.get();
    if distance < ONE_WORD {
        return Err(RunError::Refused(format!(
            "one spoken word changes up to {ONE_WORD} counts of pieces, and the job hides {distance}: propose it with a distance \
             of {ONE_WORD} or more"
        )));
    }
    let clones = tools.engine.as_ref().is_some_and(SpeechEngine::clones);
    let (colluding, providers) = (spec.colluding.get() as usize, spec.providers.len());
    if clones && colluding < providers {
        return Err(RunError::Refused(format!(
            "this site's speech engine imitates the speakers, by which each recognizer hears of pieces that others are sent: \
             propose the job with {providers} colluding recognizers, all of them, or have [transcription.speech] imitate nobody"
        )));
    }
    Ok(())
}

/// Runs all steps, from the point where an earlier process stopped; the transcripts are on disk when this returns.
fn transcribe(spec: &Spec, work: &Path, exchange: &mut dyn Exchange) -> Result<TranscriptionOutcome, RunError> {
    // Only public numbers: the recordings are not read before.
    let longest = exchange.longest_recordings().map_or(SHORTEST_WORK, Duration::from_secs);
    exchange.fix_period(&mut || Ok(longest.max(SHORTEST_WORK)))?;
    let recordings = Recordings::open(&exchange.dataset(spec.participant.dataset)?).map_err(RunError::from_failure)?;
    if collision(recordings.meta().recordings.iter().map(|recording| recording.name.as_str())).is_some() {
        return Err(failed(PLACES));
    }
    let site = exchange.transcribing()?;
    let tools = Tools::new(spec, &site)?;
    if exchange.published(spec.participant.dataset).is_err() {
        check_cover(spec, &tools)?;
    }
    let mut stages = Stages::open(work)?;
    same_recordings(&recordings, work)?;
    if batch::sealed(work)?.is_none() {
        batch::is_untouched(exchange)?;
    }
    let stock = recorded::Asked { spec, recordings: &recordings, tools: &tools, site: &site, work };
    stock.covers(exchange)?;
    let heard = stages.time("first transcript", || hear::all(&recordings, &tools, work, exchange))?;
    let ground = stages.time("vocabulary and pieces", || pieces::ground(spec, &heard, &tools, work, exchange))?;
    if tools.recorded.is_some() {
        stages.time("recorded speech", || stock.set_aside(&ground.vocabulary, exchange))?;
    }
    let plan = dummies::plan(spec, &ground, work, exchange)?;
    let before = batch::sealed(work)?;
    let all_left =
        |sealed: &Arc<SealedSounds>| (0..plan.providers()).all(|provider| sealed.unanswered(provider).is_empty());
    if !before.as_ref().is_some_and(all_left) && !plan.sends_only(&ground.candidates()) {
        return Err(failed(LISTED));
    }
    let sealed = match before {
        Some(sealed) => sealed,
        None => batch::make(
            &batch::Making { recordings: &recordings, ground: &ground, plan: &plan, tools: &tools, work },
            &mut stages,
            exchange,
        )?,
    };
    let problems = stages.time("recognizers", || batch::deliver(&sealed, &tools.lines, exchange))?;
    let job = exchange.manifest().job;
    let target = attack::Target { ground: &ground, plan: &plan, sealed: &sealed };
    let tried = stages.time("attacks", || attack::all(spec, &target, job, exchange))?;
    let told = outcome::Telling {
        recordings: &recordings,
        ground: &ground,
        plan: &plan,
        tools: &tools,
        sealed: &sealed,
        problems,
        tried,
    };
    outcome::write(spec, &told, &stages, job, &site.results)
}

/// Checks that an earlier process of the run had the same recordings: the positions of pieces and sensitive words were
/// computed once, and do not apply to others.
fn same_recordings(recordings: &Recordings, work: &Path) -> Result<(), RunError> {
    let now = &recordings.meta().digest;
    let began: String = load_or_create(&work.join("recordings.json"), || Ok::<_, RunError>(now.clone()))?;
    if began == *now { Ok(()) } else { Err(failed(OTHERS)) }
}

/// Removes the remaining recordings data of a finished part, after any outcome, from its folder.
pub(super) fn forget(folder: &Path) -> Result<(), RunError> {
    clear(&folder.join(WORK))
}

/// Removes the work folder; transcripts are on disk, and its files have no further use.
fn clear(work: &Path) -> Result<(), RunError> {
    match std::fs::remove_dir_all(work) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            let text = format!("the job's work folder cannot be cleared: {error}");
            Err(RunError::from_secret_failure(&error, text))
        }
        _ => Ok(()),
    }
}

/// Ends the run when the exchange is stopped.
fn go_on(exchange: &dyn Exchange) -> Result<(), RunError> {
    if exchange.stopped() { Err(RunError::Stopped("the worker was asked to stop".to_owned())) } else { Ok(()) }
}
