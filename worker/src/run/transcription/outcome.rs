//! The end: transcripts and the site's own report, in the site's own folder, for its owner only.
//!
//! `transcripts/<job>/` holds each recording's transcript in every format under the recording's name, and
//! `histogram.tsv`, with each provider's possible counts and the true ones; `received.rs` adds some sounds. `report.json` has all facts about the job
//! and is written last: a run that finds it is over.

use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use undertone_api::id::JobId;
use undertone_api::job::transcription::{
    Provider, ProviderResult, Report, Spec, TranscriptErrors, TranscriptionOutcome, WordErrors,
};

use super::TranscriptionError;
use super::attack::AttackResults;
use super::histogram::ProviderCounts;
use super::pieces::PieceCatalog;
use super::sounds::keep_sounds;
use super::stages::StageTimes;
use super::tools::JobTools;
use crate::run::RunError;
use crate::site::folder::{FolderError, create_private, write_durably};
use crate::speech::audio::RATE;
use crate::speech::recordings::Recordings;
use crate::speech::transcribe::outbound::SealedSounds;
use crate::speech::transcribe::piece::{Recognition, seconds};
use crate::speech::transcribe::plan::{BatchItem, Plan};
use crate::speech::transcribe::transcript::wer::WordErrors as WordCounts;
use crate::speech::transcribe::transcript::{Format, OfflineReason, Transcript, TranscriptPart};

/// The site's report.
const REPORT: &str = "report.json";
/// The counts of each recognizer.
pub(super) const HISTOGRAM_FILE: &str = "histogram.tsv";
/// Its version; a reader should refuse another one.
const VERSION: u32 = 1;

/// The content of the report.
pub(super) struct OutcomeSource<'a> {
    pub(super) recordings: &'a Recordings,
    pub(super) catalog: &'a PieceCatalog,
    pub(super) plan: &'a Plan,
    pub(super) tools: &'a JobTools,
    pub(super) sealed: &'a SealedSounds,
    /// The reason for missing answers, by provider.
    pub(super) problems: Vec<Option<String>>,
    /// The results of the simulated adversaries.
    pub(super) attacks: AttackResults,
}

/// The site's report as stored on disk.
#[derive(Serialize, Deserialize)]
struct SiteReport {
    version: u32,
    job: JobId,
    /// Program, version and settings of the tools.
    tools: Vec<(String, String)>,
    /// The digest of the recordings.
    digest: String,
    /// The public part.
    planned: Report,
    outcome: TranscriptionOutcome,
    providers: Vec<ProviderDelivery>,
}

/// A provider's sounds.
#[derive(Serialize, Deserialize)]
struct ProviderDelivery {
    /// Name and address.
    recipient: String,
    /// The number of transmissions, over all processes of the run; more than the sounds if some were sent again.
    times: u64,
    /// Sounds that were not answered.
    unanswered: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// Returns the outcome of the job, if an earlier process has written everything already.
///
/// # Errors
/// [`RunError::Failed`] when it cannot be read.
pub(super) fn read(results: &Path) -> Result<Option<TranscriptionOutcome>, RunError> {
    Ok(read_report(results)?.map(|report| report.outcome))
}

/// Returns the digest of the recordings of a finished job; `None` before it is finished.
///
/// # Errors
/// [`RunError::Failed`] when its report cannot be read.
pub(super) fn read_digest(results: &Path) -> Result<Option<String>, RunError> {
    Ok(read_report(results)?.map(|report| report.digest))
}

/// Returns the plan of a finished job; `None` before it is finished.
///
/// # Errors
/// [`RunError::Failed`] when its report cannot be read.
pub(super) fn read_planned(results: &Path) -> Result<Option<Report>, RunError> {
    Ok(read_report(results)?.map(|report| report.planned))
}

fn read_report(results: &Path) -> Result<Option<SiteReport>, RunError> {
    let path = results.join(REPORT);
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(TranscriptionError::ReadReport { path, source }.into()),
    };
    let report = serde_json::from_slice(&text).map_err(|source| TranscriptionError::ForeignReport { path, source })?;
    Ok(Some(report))
}

/// Writes transcripts, histogram, sounds and report.
///
/// # Errors
/// [`RunError`] when a reference cannot be read or the disk refuses.
pub(super) fn write(
    spec: &Spec,
    source: &OutcomeSource<'_>,
    stages: &StageTimes,
    job: JobId,
    results: &Path,
) -> Result<TranscriptionOutcome, RunError> {
    create_private(results)?;
    let mut answers: Vec<Vec<(u32, u32, Recognition)>> = vec![Vec::new(); source.catalog.recordings.len()];
    for (provider, place, recognition) in source.sealed.answers() {
        if let Some((recording, _)) = source.piece(provider, place) {
            answers[recording].push((provider, place, recognition));
        }
    }
    let mut errors: Option<TranscriptErrors> = None;
    let mut unanswered = 0;
    for (number, (recording, answers)) in source.recordings.meta().recordings.iter().zip(answers).enumerate() {
        let parts = source.parts(number);
        let sendable = parts.iter().filter(|part| part.stays.is_none()).count() as u64;
        unanswered += sendable - (answers.len() as u64).min(sendable);
        let piece = |provider, place| source.piece(provider, place).map(|(_, local)| local);
        let transcript = Transcript::assemble(&parts, answers, piece);
        for format in Format::ALL {
            let path = transcript_path(results, &recording.name, format.extension())?;
            write_durably(&path, transcript.write(format).as_bytes()).map_err(without_path)?;
        }
        let reference = source.recordings.reference(recording).map_err(RunError::from_disk_operation)?;
        if let Some(reference) = reference {
            let offline: Vec<String> = parts.iter().map(|part| part.offline.text()).collect();
            let count = |text: &str| WordCounts::count(&reference, text);
            let sum = errors.get_or_insert(TranscriptErrors {
                ours: WordErrors::default(),
                offline: WordErrors::default(),
                cloud: None,
            });
            add(&mut sum.ours, count(&transcript.plain()));
            add(&mut sum.offline, count(&offline.join(" ")));
        }
    }
    let counts = ProviderCounts::count(source.catalog, source.plan);
    write_durably(&results.join(HISTOGRAM_FILE), write_histogram(spec, source.catalog, &counts).as_bytes())?;
    keep_sounds(spec, source.plan, source.sealed, results)?;
    let outcome = source.outcome(spec, &counts, errors, unanswered, stages);
    let report = SiteReport {
        version: VERSION,
        job,
        tools: source.tools.names().map(|(tool, name)| (tool.to_owned(), name)).to_vec(),
        digest: source.recordings.meta().digest.clone(),
        planned: Report::from_plan(spec)?,
        outcome: outcome.clone(),
        providers: source.deliveries(),
    };
    let text = serde_json::to_vec_pretty(&report)?;
    write_durably(&results.join(REPORT), &text)?;
    Ok(outcome)
}

/// Returns the error of a transcript that cannot be written. The path contains the recording's name, which must not be
/// logged, so only the cause in the file system is kept.
fn without_path(error: FolderError) -> TranscriptionError {
    TranscriptionError::WriteTranscript(match error {
        FolderError::Io { source, .. } => source,
        FolderError::Locked(_) | FolderError::Name(_) => std::io::ErrorKind::Other.into(),
    })
}

impl OutcomeSource<'_> {
    /// Returns the recording and the piece at a provider's place; `None` for a dummy.
    fn piece(&self, provider: u32, place: u32) -> Option<(usize, u32)> {
        let Some(BatchItem::Piece(number)) = self.plan.batch(provider).get(place as usize) else { return None };
        self.catalog.part(*number).map(|(recording, part)| (recording, part.piece.id))
    }

    /// Returns the parts of a recording, including those that stay because of the plan.
    fn parts(&self, recording: usize) -> Vec<TranscriptPart> {
        let pieces = &self.catalog.recordings[recording];
        let mut parts = pieces.parts.clone();
        let end = pieces.first + parts.len() as u32;
        for number in self.plan.offline_pieces().iter().filter(|number| (pieces.first..end).contains(*number)) {
            parts[(number - pieces.first) as usize].stays = Some(OfflineReason::Crowded);
        }
        parts
    }

    fn outcome(
        &self,
        spec: &Spec,
        counts: &[ProviderCounts],
        errors: Option<TranscriptErrors>,
        unanswered: u64,
        stages: &StageTimes,
    ) -> TranscriptionOutcome {
        let recordings = &self.recordings.meta().recordings;
        let samples: u64 = recordings.iter().map(|recording| recording.samples).sum();
        let parts = self.catalog.recordings.iter().flat_map(|pieces| &pieces.parts);
        let result = |((number, provider), counts): ((u32, &Provider), &ProviderCounts)| {
            let tariff = self.tools.tariffs.get(number as usize).and_then(Option::as_ref);
            ProviderResult {
                name: provider.name.clone(),
                pieces: counts.pieces,
                dummies: counts.dummies,
                seconds: seconds(self.sealed.lengths(number).sum()),
                cost: tariff.map(|tariff| tariff.cost(self.sealed.lengths(number))),
                histogram: counts.bins(),
                topic_distance: counts.topic_distance(),
            }
        };
        TranscriptionOutcome {
            words: self.catalog.vocabulary.len(),
            recordings: recordings.len() as u64,
            seconds: samples as f64 / f64::from(RATE),
            pieces: self.catalog.piece_count(),
            sensitive: parts.filter(|part| part.stays == Some(OfflineReason::Sensitive)).count() as u64,
            crowded: self.plan.offline_pieces().len() as u64,
            unanswered,
            errors,
            providers: (0_u32..).zip(&spec.providers).zip(counts).map(result).collect(),
            attacks: self.attacks.attacks.clone(),
            untried: self.attacks.untried.clone(),
            stages: stages.all(),
        }
    }

    fn deliveries(&self) -> Vec<ProviderDelivery> {
        let recipients = (0_u32..).zip(self.sealed.recipients());
        let deliveries = recipients.map(|(number, recipient)| ProviderDelivery {
            recipient: recipient.clone(),
            times: self.sealed.send_count(number),
            unanswered: self.sealed.unanswered(number).len() as u64,
            problem: self.problems.get(number as usize).cloned().flatten(),
        });
        deliveries.collect()
    }
}

fn add(sum: &mut WordErrors, counts: WordCounts) {
    sum.words += counts.words;
    sum.substitutions += counts.substitutions;
    sum.insertions += counts.insertions;
    sum.deletions += counts.deletions;
}

/// Writes a row for each provider and word of the vocabulary, with its counts.
fn write_histogram(spec: &Spec, catalog: &PieceCatalog, counts: &[ProviderCounts]) -> String {
    let mut table = "word\tprovider\tsaid\theard\n".to_owned();
    for (provider, counts) in spec.providers.iter().zip(counts) {
        for (word, (said, heard)) in (0_u32..).zip(counts.said.iter().zip(&counts.heard)) {
            let form = catalog.vocabulary.forms(word).first().map_or("", String::as_str);
            // Writing to a string cannot fail.
            let _ = writeln!(table, "{form}\t{}\t{said}\t{heard}", provider.name);
        }
    }
    table
}

/// Returns the path for the transcript of a recording, below `results`.
///
/// # Errors
/// [`TranscriptionError::OutsideName`] for a name that leads out of that folder.
pub(super) fn transcript_path(results: &Path, name: &str, extension: &str) -> Result<PathBuf, TranscriptionError> {
    let path = Path::new(name);
    let is_plain = path.components().all(|part| matches!(part, Component::Normal(_))) && path.file_name().is_some();
    if !is_plain {
        return Err(TranscriptionError::OutsideName);
    }
    let mut file = results.join("recordings").join(path).into_os_string();
    file.push(".");
    file.push(extension);
    Ok(file.into())
}
