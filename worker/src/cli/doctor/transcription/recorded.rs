//! Checks of the recorded speech for dummies: it may be used, is indexed to its end, and covers the vocabularies of
//! this site's open jobs.

use std::sync::Arc;

use undertone_api::job::Spec;
use undertone_api::signed::Manifest;

use super::super::super::format_error;
use super::{CHECK, CheckResults};
use crate::config::transcription::TranscriptionSettings;
use crate::run::transcription::{SpeechCoverage, coverage};
use crate::run::{RunError, TranscriptionSite};
use crate::site::clock::Clock;
use crate::site::folder::Folder;
use crate::site::jobs::{self, JobRecord};
use crate::site::speech;
use crate::site::store::Store;
use crate::speech::transcribe::recorded::index::SpeechIndex;
use crate::speech::transcribe::recorded::journal::PieceJournal;

/// The highest number of listed words.
const NAMED: usize = 10;

/// Checks recorded speech, if the site has some.
pub(super) fn check_recorded_speech(
    folder: &Folder,
    settings: &TranscriptionSettings,
    store: Option<&Store>,
    clock: &Clock,
    results: &mut CheckResults,
) {
    let Some(source) = settings.speech.recorded() else { return };
    let recordings = match speech::open(folder, source.dataset.as_deref()) {
        Ok(recordings) => recordings,
        Err(error) => return results.fail(CHECK, format_error(&error), "provide public recordings"),
    };
    let remedy = "run `undertone-worker data index-speech`";
    match SpeechIndex::look(&folder.speech()) {
        Ok(Some(index)) if index.of.recordings == recordings.meta().digest => {
            let count = index.recordings;
            let seconds = recordings.meta().seconds();
            let pieces = index.pieces;
            results
                .ok(CHECK, format!("recorded speech: {pieces} pieces of {count} recordings, {seconds} s, are indexed"));
        }
        Ok(Some(_)) => return results.fail(CHECK, "recorded speech: the index belongs to other recordings", remedy),
        Ok(None) => return results.fail(CHECK, "recorded speech: the index is incomplete", remedy),
        Err(error) => return results.fail(CHECK, format_error(&error), remedy),
    }
    match PieceJournal::look(&folder.piece_journal()) {
        Ok(reserved) => {
            let pieces: usize = reserved.iter().map(|entry| entry.offers.len()).sum();
            results.ok(CHECK, format!("recorded speech: {pieces} pieces are set aside for {} jobs", reserved.len()));
        }
        Err(error) => return results.fail(CHECK, format_error(&error), "restore the newest copy of spoken.jsonl"),
    }
    let site = TranscriptionSite {
        settings: settings.clone(),
        site: folder.root().to_owned(),
        results: folder.root().to_owned(),
        environment: |name| std::env::var_os(name),
        clock: Arc::clone(clock),
    };
    let proposals = store.map(jobs::list_jobs).and_then(Result::ok).unwrap_or_default();
    for job in proposals.iter().filter(|job| is_open(job)) {
        // The manifest was verified before it was stored.
        let manifest: Result<Manifest, _> = serde_json::from_str(&job.signed.payload);
        if let Ok(Manifest { spec: Spec::Transcription(spec), .. }) = manifest {
            report_coverage(&job.job.to_string(), coverage(&spec, &site), settings, results);
        }
    }
}

/// Returns whether a job may still request dummies here.
fn is_open(job: &JobRecord) -> bool {
    let is_refused = job.decision.as_ref().is_some_and(|decided| !decided.decision.approve);
    let has_begun = job.run.is_some();
    !is_refused && !has_begun
}

/// Reports whether the recorded speech covers a job.
fn report_coverage(
    job: &str,
    coverage: Result<Option<SpeechCoverage>, RunError>,
    settings: &TranscriptionSettings,
    results: &mut CheckResults,
) {
    match coverage {
        // A vocabulary chosen from the recordings is unknown before they are recognized.
        Ok(None) => {}
        Ok(Some(coverage)) if coverage.short.is_empty() => {
            results.ok(CHECK, format!("recorded speech covers the {} kinds of dummies of job {job}", coverage.words));
        }
        Ok(Some(coverage)) => {
            let words: Vec<String> =
                coverage.short.iter().take(NAMED).map(|(word, count)| format!("{word} ({count})")).collect();
            let more = if coverage.short.len() > NAMED { ", ..." } else { "" };
            let problem = format!(
                "job {job} sets aside {} pieces of each kind of dummy, but recorded speech has fewer for {} of its {} kinds: {}{more}",
                coverage.needed,
                coverage.short.len(),
                coverage.words,
                words.join(", ")
            );
            let has_engine = settings.speech.engine().is_some();
            let effect = if has_engine {
                "an engine speaks the rest, which is easier to recognize"
            } else {
                "the job is refused"
            };
            results.warn(
                CHECK,
                problem,
                format!("{effect}: add recordings with `data index-speech --input FOLDER --replace`"),
            );
        }
        Err(error) => results.fail(CHECK, format_error(&error), "correct this before a job needs recorded speech"),
    }
}
