//! The end: transcripts and the site's own report, in the site's own folder, for its owner only.
//!
//! `transcripts/<job>/` holds each recording's transcript in every format under the recording's name, and
//! `histogram.tsv`, with each provider's possible counts and the true ones. `report.json` has all facts about the job
//! and is written last: a run that finds it is over.

use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use undertone_api::id::JobId;
use undertone_api::job::transcription::{
    ProviderResult, Report, Spec, TranscriptErrors, TranscriptionOutcome, WordErrors,
};

use super::attack::Tried;
use super::failed;
use super::histogram::Counts;
use super::pieces::Ground;
use super::stages::Stages;
use super::tools::Tools;
use crate::run::RunError;
use crate::site::folder::{create_private, write_durably};
use crate::speech::audio::RATE;
use crate::speech::recordings::Recordings;
use crate::speech::transcribe::outbound::SealedSounds;
use crate::speech::transcribe::piece::{Recognition, seconds};
use crate::speech::transcribe::plan::{BatchItem, Plan};
use crate::speech::transcribe::transcript::wer::WordErrors as WordCounts;
use crate::speech::transcribe::transcript::{Format, OfflineReason, Transcript, TranscriptPart};

/// The site's report.
const REPORT: &str = "report.json";
/// Its version; a reader should refuse another one.
const VERSION: u32 = 1;

/// The content of the report.
pub(super) struct Telling<'a> {
    pub(super) recordings: &'a Recordings,
    pub(super) ground: &'a Ground,
    pub(super) plan: &'a Plan,
    pub(super) tools: &'a Tools,
    pub(super) sealed: &'a SealedSounds,
    /// The reason for missing answers, by provider.
    pub(super) problems: Vec<Option<String>>,
    /// The results of the simulated adversaries.
    pub(super) tried: Tried,
}

/// The site's report as stored on disk.
#[derive(Serialize, Deserialize)]
struct Page {
    version: u32,
    job: JobId,
    /// Program, version and settings of the tools.
    tools: Vec<(String, String)>,
    /// The digest of the recordings.
    digest: String,
    /// The public part.
    planned: Report,
    outcome: TranscriptionOutcome,
    providers: Vec<Sent>,
}

/// A provider's sounds.
#[derive(Serialize, Deserialize)]
struct Sent {
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
pub(super) fn written(results: &Path) -> Result<Option<TranscriptionOutcome>, RunError> {
    let path = results.join(REPORT);
    match std::fs::read(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        read => {
            let page: Page = serde_json::from_slice(&read.map_err(RunError::from_failure)?)
                .map_err(|error| failed(format!("{} is not what this worker wrote: {error}", path.display())))?;
            Ok(Some(page.outcome))
        }
    }
}

/// Writes transcripts, histogram and report.
///
/// # Errors
/// [`RunError`] when a reference cannot be read or the disk refuses.
pub(super) fn write(
    spec: &Spec,
    told: &Telling<'_>,
    stages: &Stages,
    job: JobId,
    results: &Path,
) -> Result<TranscriptionOutcome, RunError> {
    create_private(results).map_err(RunError::from_failure)?;
    let mut answers: Vec<Vec<(u32, u32, Recognition)>> = vec![Vec::new(); told.ground.cuts.len()];
    for (provider, place, heard) in told.sealed.answers() {
        if let Some((recording, _)) = told.piece(provider, place) {
            answers[recording].push((provider, place, heard));
        }
    }
    let mut errors: Option<TranscriptErrors> = None;
    let mut unanswered = 0;
    for (number, (recording, answers)) in told.recordings.meta().recordings.iter().zip(answers).enumerate() {
        let parts = told.parts(number);
        let sent = parts.iter().filter(|part| part.stays.is_none()).count() as u64;
        unanswered += sent - (answers.len() as u64).min(sent);
        let piece = |provider, place| told.piece(provider, place).map(|(_, local)| local);
        let transcript = Transcript::assemble(&parts, answers, piece);
        for format in Format::ALL {
            let path = place(results, &recording.name, format.extension())?;
            // The path contains the recording's name, which must not be logged.
            write_durably(&path, transcript.write(format).as_bytes()).map_err(|error| {
                let text = "a transcript cannot be written: check the disk of the site's folder";
                RunError::from_secret_failure(&error, text.to_owned())
            })?;
        }
        if let Some(reference) = told.recordings.reference(recording).map_err(RunError::from_failure)? {
            let offline: Vec<String> = parts.iter().map(|part| part.offline.text()).collect();
            let found = |text: &str| WordCounts::count(&reference, text);
            let sum = errors.get_or_insert(TranscriptErrors {
                ours: WordErrors::default(),
                offline: WordErrors::default(),
                cloud: None,
            });
            add(&mut sum.ours, found(&transcript.plain()));
            add(&mut sum.offline, found(&offline.join(" ")));
        }
    }
    let counts = Counts::of(told.ground, told.plan);
    write_durably(&results.join("histogram.tsv"), histogram(spec, told.ground, &counts).as_bytes())
        .map_err(RunError::from_failure)?;
    let outcome = told.outcome(spec, &counts, errors, unanswered, stages);
    let page = Page {
        version: VERSION,
        job,
        tools: told.tools.names().map(|(tool, name)| (tool.to_owned(), name)).to_vec(),
        digest: told.recordings.meta().digest.clone(),
        planned: Report::from_plan(spec).map_err(failed)?,
        outcome: outcome.clone(),
        providers: told.sent(),
    };
    let text = serde_json::to_vec_pretty(&page).map_err(failed)?;
    write_durably(&results.join(REPORT), &text).map_err(RunError::from_failure)?;
    Ok(outcome)
}

impl Telling<'_> {
    /// Returns the recording and the piece at a provider's place; `None` for a dummy.
    fn piece(&self, provider: u32, place: u32) -> Option<(usize, u32)> {
        let Some(BatchItem::Piece(number)) = self.plan.batch(provider).get(place as usize) else { return None };
        self.ground.part(*number).map(|(recording, part)| (recording, part.piece.id))
    }

    /// Returns the parts of a recording, including those that stay because of the plan.
    fn parts(&self, recording: usize) -> Vec<TranscriptPart> {
        let cut = &self.ground.cuts[recording];
        let mut parts = cut.parts.clone();
        let end = cut.first + parts.len() as u32;
        for number in self.plan.offline_pieces().iter().filter(|number| (cut.first..end).contains(*number)) {
            parts[(number - cut.first) as usize].stays = Some(OfflineReason::Crowded);
        }
        parts
    }

    fn outcome(
        &self,
        spec: &Spec,
        counts: &[Counts],
        errors: Option<TranscriptErrors>,
        unanswered: u64,
        stages: &Stages,
    ) -> TranscriptionOutcome {
        let recordings = &self.recordings.meta().recordings;
        let samples: u64 = recordings.iter().map(|recording| recording.samples).sum();
        let parts = self.ground.cuts.iter().flat_map(|cut| &cut.parts);
        let provider = |((number, asked), counts): ((u32, _), &Counts)| {
            let asked: &undertone_api::job::transcription::Provider = asked;
            let tariff = self.tools.tariffs.get(number as usize).and_then(Option::as_ref);
            ProviderResult {
                name: asked.name.clone(),
                pieces: counts.pieces,
                dummies: counts.dummies,
                seconds: seconds(self.sealed.lengths(number).sum()),
                cost: tariff.map(|tariff| tariff.cost(self.sealed.lengths(number))),
                histogram: counts.bins(),
                topic_distance: counts.topic_distance(),
            }
        };
        TranscriptionOutcome {
            words: self.ground.vocabulary.len(),
            recordings: recordings.len() as u64,
            seconds: samples as f64 / f64::from(RATE),
            pieces: self.ground.pieces(),
            sensitive: parts.filter(|part| part.stays == Some(OfflineReason::Sensitive)).count() as u64,
            crowded: self.plan.offline_pieces().len() as u64,
            unanswered,
            errors,
            providers: (0_u32..).zip(&spec.providers).zip(counts).map(provider).collect(),
            attacks: self.tried.attacks.clone(),
            untried: self.tried.untried.clone(),
            stages: stages.all(),
        }
    }

    fn sent(&self) -> Vec<Sent> {
        let recipients = (0_u32..).zip(self.sealed.recipients());
        let sent = recipients.map(|(number, recipient)| Sent {
            recipient: recipient.clone(),
            times: self.sealed.send_count(number),
            unanswered: self.sealed.unanswered(number).len() as u64,
            problem: self.problems.get(number as usize).cloned().flatten(),
        });
        sent.collect()
    }
}

fn add(sum: &mut WordErrors, found: WordCounts) {
    sum.words += found.words;
    sum.substitutions += found.substitutions;
    sum.insertions += found.insertions;
    sum.deletions += found.deletions;
}

/// Returns a row for each provider and word of the vocabulary, with its counts.
fn histogram(spec: &Spec, ground: &Ground, counts: &[Counts]) -> String {
    let mut table = "word\tprovider\tsaid\theard\n".to_owned();
    for (asked, counts) in spec.providers.iter().zip(counts) {
        for (word, (said, heard)) in (0_u32..).zip(counts.said.iter().zip(&counts.heard)) {
            let form = ground.vocabulary.forms(word).first().map_or("", String::as_str);
            // Writing to a string cannot fail.
            let _ = writeln!(table, "{form}\t{}\t{said}\t{heard}", asked.name);
        }
    }
    table
}

/// Returns the path for the transcript of a recording, below `results`.
///
/// # Errors
/// [`RunError::Failed`] for a name that leads out of that folder.
fn place(results: &Path, name: &str, extension: &str) -> Result<PathBuf, RunError> {
    let path = Path::new(name);
    let plain = path.components().all(|part| matches!(part, Component::Normal(_))) && path.file_name().is_some();
    if !plain {
        return Err(failed("a recording's name leads out of the folder of transcripts: add the recordings again"));
    }
    let mut file = results.join("recordings").join(path).into_os_string();
    file.push(".");
    file.push(extension);
    Ok(file.into())
}
