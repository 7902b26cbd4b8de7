//! Checks of the recorded speech for dummies: it may be used, is indexed to its end, and covers the vocabularies of
//! this site's open jobs.

use std::sync::Arc;

use undertone_api::job::Spec;
use undertone_api::signed::Manifest;

use super::super::super::chain;
use super::{CHECK, Findings};
use crate::config::transcription::Transcription;
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
pub(super) fn look(
    folder: &Folder,
    settings: &Transcription,
    store: Option<&Store>,
    clock: &Clock,
    found: &mut Findings,
) {
    let Some(of) = settings.speech.recorded() else { return };
    let recordings = match speech::open(folder, of.dataset.as_deref()) {
        Ok(recordings) => recordings,
        Err(error) => return found.fail(CHECK, chain(&error), "give recordings that anybody may have"),
    };
    let remedy = "run `undertone-worker data index-speech`";
    match SpeechIndex::look(&folder.speech()) {
        Ok(Some(index)) if index.of.recordings == recordings.meta().digest => {
            let (count, seconds, pieces) = (index.recordings, recordings.meta().seconds(), index.pieces);
            found
                .ok(CHECK, format!("recorded speech: {pieces} pieces of {count} recordings, {seconds} s, are indexed"));
        }
        Ok(Some(_)) => return found.fail(CHECK, "recorded speech: the index is of other recordings", remedy),
        Ok(None) => return found.fail(CHECK, "recorded speech: it is not indexed to its end", remedy),
        Err(error) => return found.fail(CHECK, chain(&error), remedy),
    }
    match PieceJournal::look(&folder.piece_journal()) {
        Ok(aside) => {
            let pieces: usize = aside.iter().map(|one| one.offers.len()).sum();
            found.ok(CHECK, format!("recorded speech: {pieces} pieces were set aside for {} jobs", aside.len()));
        }
        Err(error) => return found.fail(CHECK, chain(&error), "restore spoken.jsonl from where the newest copy is"),
    }
    let site = TranscriptionSite {
        settings: settings.clone(),
        site: folder.root().to_owned(),
        results: folder.root().to_owned(),
        environment: |name| std::env::var_os(name),
        clock: Arc::clone(clock),
    };
    let seen = store.map(jobs::list_jobs).and_then(Result::ok).unwrap_or_default();
    for job in seen.iter().filter(|job| is_open(job)) {
        // The manifest was verified before it was stored.
        let manifest: Result<Manifest, _> = serde_json::from_str(&job.signed.payload);
        if let Ok(Manifest { spec: Spec::Transcription(spec), .. }) = manifest {
            covered(&job.job.to_string(), coverage(&spec, &site), settings, found);
        }
    }
}

/// Returns whether a job may still request dummies here.
fn is_open(job: &JobRecord) -> bool {
    let refused = job.decision.as_ref().is_some_and(|decided| !decided.decision.approve);
    let began = job.run.is_some();
    !refused && !began
}

/// Reports whether the recorded speech covers a job.
fn covered(
    job: &str,
    coverage: Result<Option<SpeechCoverage>, RunError>,
    settings: &Transcription,
    found: &mut Findings,
) {
    match coverage {
        // A vocabulary chosen from the recordings is unknown before they are recognized.
        Ok(None) => {}
        Ok(Some(of)) if of.short.is_empty() => {
            found.ok(CHECK, format!("recorded speech covers the {} kinds of dummies of job {job}", of.words));
        }
        Ok(Some(of)) => {
            let named: Vec<String> =
                of.short.iter().take(NAMED).map(|(word, there)| format!("{word} ({there})")).collect();
            let more = if of.short.len() > NAMED { ", ..." } else { "" };
            let said = format!(
                "recorded speech has fewer than the {} pieces that job {job} sets aside of {} of its {} kinds of dummies: {}{more}",
                of.needed,
                of.short.len(),
                of.words,
                named.join(", ")
            );
            let filled = settings.speech.engine().is_some();
            let does =
                if filled { "an engine speaks for the rest, and is easier to tell" } else { "the job is refused" };
            found.warn(
                CHECK,
                said,
                format!("{does}: add recordings with `data index-speech --input FOLDER --replace`"),
            );
        }
        Err(error) => found.fail(CHECK, chain(&error), "mend it before a job needs it"),
    }
}
