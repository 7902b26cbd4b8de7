//! `transcription` at a site: recordings sent, in pieces and among dummies, to external recognizers, and returned as
//! transcripts.
//!
//! | step | file | stored in the work folder |
//! |---|---|---|
//! | first transcript, by the site's own recognizer | `first_transcript.rs` | `recordings.json`, `heard-N.json` |
//! | vocabulary; sensitive words | `pieces.rs` | `vocabulary.json` |
//! | pieces of recorded speech for dummies, if the site has some | `recorded.rs` | none: they lie in `spoken.jsonl` |
//! | plan, texts and manners of the dummies | `dummies.rs` | `plan.json`, `texts.json`, `manners.json` |
//! | assignment of recorded pieces to dummies | `recorded.rs` | `recorded.json` |
//! | rate and silence that fit a dummy into the length of a piece | `fitting.rs` | none |
//! | voices to imitate, if the engine clones | `clones.rs` | `voices/`, only while dummies are made |
//! | sounds in one voice, sealed and paid | `batch.rs` | `out/` |
//! | each provider's simulated adversary | `attack.rs` | none |
//! | transcripts, sounds as received, and the site's report | `outcome.rs`, `received.rs` | none: they lie in the site's `transcripts/<job>/` |
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
mod batch_places;
mod clones;
mod dummies;
mod error;
pub(crate) mod finished;
mod first_transcript;
mod fitting;
mod histogram;
mod outcome;
mod pieces;
pub(crate) mod received;
mod recorded;
pub(crate) mod sounds;
mod stages;
#[cfg(test)]
pub(crate) mod tests;
mod tools;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use undertone_api::job::Report as AnyReport;
use undertone_api::job::transcription::window::ONE_WORD;
use undertone_api::job::transcription::{Report, Spec, TranscriptionOutcome};

use super::{Outbound, RunError};
use crate::speech::recordings::{Recordings, collision};
use crate::speech::transcribe::outbound::SealedSounds;
use crate::speech::transcribe::plan::load_or_create;
use crate::speech::transcribe::speak::SpeechEngine;
use batch_places::BatchInputs;
use outcome::OutcomeSource;
use stages::StageTimes;
use tools::JobTools;

#[cfg(test)]
pub(crate) use batch::{PASSES, SAMPLE};
#[cfg(test)]
pub(crate) use batch_places::AT_ONCE;
pub use error::TranscriptionError;
pub(crate) use recorded::{SpeechCoverage, count_remaining, coverage};
#[cfg(test)]
pub(crate) use tools::MOST_TEXT;

/// The period of the release clock for short recordings: the time for the dummies of a plan does not depend on the
/// recordings' length. For longer recordings the period is their duration.
const SHORTEST_WORK: Duration = Duration::from_mins(15);
/// The folder, below the job's own, of everything that is removed at the end.
const WORK: &str = "transcription";

/// Runs a job to its end, from the point where an earlier process stopped.
///
/// # Errors
/// [`RunError`] when it ends without a result.
pub fn run(spec: &Spec, exchange: &mut dyn Outbound) -> Result<(), RunError> {
    let dataset = exchange.participant().dataset;
    if dataset != spec.participant.dataset {
        return Err(TranscriptionError::NotParticipant.into());
    }
    let site = exchange.transcription_site();
    let work = exchange.folder().join(WORK);
    let outcome = match outcome::read(&site.results)? {
        Some(outcome) => outcome,
        None => transcribe(spec, &work, exchange)?,
    };
    // This also removes files of an earlier process that died between its last file and this line.
    clear(&work)?;
    let planned = Report::from_plan(spec)?;
    let is_public = exchange.confirm_public(dataset).is_ok();
    exchange.submit_report(AnyReport::Transcription(if is_public { planned.with_outcome(outcome) } else { planned }))
}

/// Refuses a job on private recordings if its noise does not cover the sounds that the site would send.
///
/// # Errors
/// [`RunError::Refused`] if one spoken word changes more counts than the noise hides, or if imitated voices reveal
/// pieces of other recognizers that the job counts as unknown.
fn check_cover(spec: &Spec, tools: &JobTools) -> Result<(), TranscriptionError> {
    let distance = spec.participant.distance;
    if distance.get() < ONE_WORD {
        return Err(TranscriptionError::Distance(distance));
    }
    let imitates = tools.engine.as_ref().is_some_and(SpeechEngine::clones);
    let providers = spec.providers.len();
    if imitates && (spec.colluding.get() as usize) < providers {
        return Err(TranscriptionError::ImitatedVoices(providers));
    }
    Ok(())
}

/// Runs all steps, from the point where an earlier process stopped; the transcripts are on disk when this returns.
fn transcribe(spec: &Spec, work: &Path, exchange: &mut dyn Outbound) -> Result<TranscriptionOutcome, RunError> {
    // Only public numbers: the recordings are not read before.
    let longest = exchange.longest_recordings().map_or(SHORTEST_WORK, Duration::from_secs);
    exchange.fix_period(&mut || Ok(longest.max(SHORTEST_WORK)))?;
    let recordings = Recordings::open(&exchange.dataset(spec.participant.dataset)?);
    let recordings = recordings.map_err(RunError::from_disk_operation)?;
    if collision(recordings.meta().recordings.iter().map(|recording| recording.name.as_str())).is_some() {
        return Err(TranscriptionError::NameConflict.into());
    }
    let site = exchange.transcription_site();
    let tools = JobTools::new(spec, &site)?;
    if exchange.confirm_public(spec.participant.dataset).is_err() {
        check_cover(spec, &tools)?;
    }
    let mut stages = StageTimes::open(work)?;
    check_same_recordings(&recordings, work)?;
    if batch::open_sealed(work)?.is_none() {
        batch::check_untouched(exchange)?;
    }
    let request = recorded::SpeechRequest { spec, recordings: &recordings, tools: &tools, site: &site, work };
    request.check_coverage(exchange)?;
    let transcripts =
        stages.time("first transcript", || first_transcript::transcribe_all(&recordings, &tools, work, exchange))?;
    let catalog =
        stages.time("vocabulary and pieces", || pieces::load_catalog(spec, &transcripts, &tools, work, exchange))?;
    if tools.recorded.is_some() {
        stages.time("recorded speech", || request.set_aside(&catalog.vocabulary, exchange))?;
    }
    let plan = dummies::load_plan(spec, &catalog, work, exchange)?;
    let earlier = batch::open_sealed(work)?;
    let is_answered =
        |sealed: &Arc<SealedSounds>| (0..plan.providers()).all(|provider| sealed.unanswered(provider).is_empty());
    if !earlier.as_ref().is_some_and(is_answered) && !plan.sends_only(&catalog.candidates()) {
        return Err(TranscriptionError::NewSensitiveWord.into());
    }
    let sealed = if let Some(sealed) = earlier {
        sealed
    } else {
        let inputs = BatchInputs { recordings: &recordings, catalog: &catalog, plan: &plan, tools: &tools, work };
        batch::make(&inputs, &mut stages, exchange)?
    };
    let problems = stages.time("recognizers", || batch::deliver(&sealed, &tools.lines, exchange))?;
    let job = exchange.manifest().job;
    let target = attack::AttackTarget { catalog: &catalog, plan: &plan, sealed: &sealed };
    let attacks = stages.time("attacks", || attack::simulate_all(spec, &target, job, exchange))?;
    let source = OutcomeSource {
        recordings: &recordings,
        catalog: &catalog,
        plan: &plan,
        tools: &tools,
        sealed: &sealed,
        problems,
        attacks,
    };
    outcome::write(spec, &source, &stages, job, &site.results)
}

/// Checks that an earlier process of the run had the same recordings: the positions of pieces and sensitive words were
/// computed once, and do not apply to others.
fn check_same_recordings(recordings: &Recordings, work: &Path) -> Result<(), RunError> {
    let current = &recordings.meta().digest;
    let earlier: String = load_or_create(&work.join("recordings.json"), || Ok::<_, RunError>(current.clone()))?;
    if earlier == *current { Ok(()) } else { Err(TranscriptionError::OtherRecordings.into()) }
}

/// Removes the remaining recordings data of a finished part, after any outcome, from its folder.
pub(super) fn forget(folder: &Path) -> Result<(), RunError> {
    clear(&folder.join(WORK))
}

/// Removes the work folder; transcripts are on disk, and its files have no further use.
fn clear(work: &Path) -> Result<(), RunError> {
    match std::fs::remove_dir_all(work) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(TranscriptionError::ClearWorkFolder(error).into())
        }
        _ => Ok(()),
    }
}
