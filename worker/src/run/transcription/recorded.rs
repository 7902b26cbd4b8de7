//! Dummies of recorded people: the pieces that a job sets aside before its plan is drawn, their assignment to dummies,
//! and their sound.
//!
//! The number of pieces follows from the spec alone, and they stay set aside at the site: see
//! [`recorded`](crate::speech::transcribe::recorded). A job that the recordings do not cover is refused before any
//! draw, so that its refusal reveals nothing of the recordings to transcribe. Others learn the number of words without
//! enough pieces, never the words. Once sounds are sealed this state has no further use.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rand_chacha::rand_core::Rng;
use rayon::iter::{IndexedParallelIterator as _, IntoParallelRefIterator as _, ParallelIterator as _};
use undertone_api::job::transcription::{Spec, Vocabulary as VocabularySpec};
use url::Url;

use super::TranscriptionError;
use super::batch_places::{BatchInputs, BatchPlaces, add, for_each_part, write_file};
use super::dummies::make_mechanism;
use super::tools::{self, JobTools};
use crate::config::transcription::RecordedSource;
use crate::dp::randomness::{Purpose, Randomness};
use crate::run::{Outbound, RunContext, RunError, TranscriptionSite, check_cancelled};
use crate::site::folder::Folder;
use crate::site::speech;
use crate::speech::recordings::Recordings;
use crate::speech::transcribe::dummy::PhraseLengths;
use crate::speech::transcribe::outbound::BatchDraft;
use crate::speech::transcribe::plan::load_or_create;
use crate::speech::transcribe::recorded::choice::choose;
use crate::speech::transcribe::recorded::index::{IndexedSource, SpeechIndex};
use crate::speech::transcribe::recorded::journal::{PieceJournal, PieceReservation, used};
use crate::speech::transcribe::recorded::need::most;
use crate::speech::transcribe::recorded::offer::{OfferFilter, OfferSample, PieceOffer, find};
use crate::speech::transcribe::recorded::sounds::{in_order, sounds};
use crate::speech::transcribe::recorded::used_pieces::UsedPieces;
use crate::speech::transcribe::sensitive::SensitiveFinder;
use crate::speech::transcribe::speak::likeness::{SAMPLES, length, level};
use crate::speech::transcribe::vocabulary::language::StemmingLanguage;
use crate::speech::transcribe::vocabulary::{self, Vocabulary, WordList};

/// The stream of randomness for the draw of pieces: far from those that shape dummies, which count from 0.
const DRAWING: u32 = u32::MAX - 1;

/// A job's request for recorded speech.
pub(super) struct SpeechRequest<'a> {
    pub(super) spec: &'a Spec,
    /// The recordings to transcribe: none of them is a dummy.
    pub(super) recordings: &'a Recordings,
    pub(super) tools: &'a JobTools,
    pub(super) site: &'a TranscriptionSite,
    pub(super) work: &'a Path,
}

impl SpeechRequest<'_> {
    /// Checks that there are enough pieces, as far as that is known before recognition.
    ///
    /// # Errors
    /// [`RunError::Refused`] when there are not, [`RunError::Failed`] when the recorded speech cannot be used.
    pub(super) fn check_coverage(&self, exchange: &dyn RunContext) -> Result<(), RunError> {
        let (Some(recorded), VocabularySpec::Public { words }) = (&self.tools.recorded, &self.spec.vocabulary) else {
            return Ok(());
        };
        if self.has_plan() {
            return Ok(());
        }
        let reservations = PieceJournal::look(&Folder::new(&self.site.site).piece_journal())?;
        if reservations.iter().any(|reservation| reservation.name == job_name(exchange)) {
            return Ok(());
        }
        let vocabulary = public_vocabulary(words, self.tools.language)?;
        let used = used(&reservations, &self.tools.hosts, recorded.again);
        // Nothing is drawn, so any randomness suffices.
        let mut rng = Randomness::from_os(Purpose::Dummies).stream(DRAWING);
        let sample = self.find(recorded, &vocabulary, &used, 0, &mut rng, exchange)?;
        self.check_sample(&sample, most(&make_mechanism(self.spec)?, vocabulary.len()))
    }

    /// Sets aside the pieces that any plan of the job may need, once.
    ///
    /// # Errors
    /// As [`SpeechRequest::check_coverage`]; nothing is set aside then.
    pub(super) fn set_aside(&self, vocabulary: &Vocabulary, exchange: &mut dyn RunContext) -> Result<(), RunError> {
        let Some(recorded) = self.tools.recorded.as_ref().filter(|_| !self.has_plan()) else { return Ok(()) };
        // The journal stays open until the entry is written, so that no other job draws the same pieces.
        let mut journal = PieceJournal::open(&Folder::new(&self.site.site).piece_journal())?;
        if journal.find(&job_name(exchange)).is_some() {
            return Ok(());
        }
        let needed = most(&make_mechanism(self.spec)?, vocabulary.len());
        let used = journal.used(&self.tools.hosts, recorded.again);
        let mut rng = exchange.draw_randomness(Purpose::Dummies).stream(DRAWING);
        let sample = self.find(recorded, vocabulary, &used, needed, &mut rng, exchange)?;
        self.check_sample(&sample, needed)?;
        let recordings = speech::open(&Folder::new(&self.site.site), recorded.dataset.as_deref())?;
        let digest = |number: u32| {
            let recording = recordings.meta().recordings.get(number as usize);
            recording.map(|recording| recording.digest.as_str())
        };
        let reservation = PieceReservation::new(job_name(exchange), self.tools.hosts.clone(), sample.drawn, digest);
        Ok(journal.set_aside(reservation)?)
    }

    fn find(
        &self,
        recorded: &RecordedSource,
        vocabulary: &Vocabulary,
        used: &UsedPieces,
        most: u32,
        rng: &mut impl Rng,
        exchange: &dyn RunContext,
    ) -> Result<OfferSample, RunError> {
        let recognizer = Some(self.tools.recognizer.name());
        let speech = RecordedSpeech::open(recorded, self.site, self.tools.language, recognizer)?;
        let own = self.recordings.meta().recordings.iter().map(|recording| recording.digest.clone());
        let criteria = OfferCriteria { vocabulary, finder: &self.tools.finder, used, without: &own.collect(), most };
        speech.find(&criteria, rng, &|| check_cancelled(exchange))
    }

    /// Checks that there are enough pieces, or an engine for the rest.
    fn check_sample(&self, sample: &OfferSample, needed: u32) -> Result<(), RunError> {
        let short = sample.short(needed).len();
        if short == 0 {
            return Ok(());
        }
        let fewest = sample.there.iter().min().copied().unwrap_or(0);
        tracing::warn!(needed, fewest, short, "recorded speech has too few pieces for some words of a vocabulary");
        if self.tools.engine.is_some() {
            return Ok(());
        }
        Err(TranscriptionError::Uncovered { short, kinds: sample.there.len(), needed }.into())
    }

    fn has_plan(&self) -> bool {
        self.work.join("plan.json").exists()
    }
}

/// Returns the name under which a job's pieces are set aside.
fn job_name(exchange: &dyn RunContext) -> String {
    exchange.manifest().job.to_string()
}

fn public_vocabulary(words: &[String], language: StemmingLanguage) -> Result<Vocabulary, RunError> {
    Ok(vocabulary::public(language, &WordList::from_words(words)?)?)
}

/// Recorded speech with its index.
struct RecordedSpeech {
    folder: PathBuf,
}

/// The criteria of a search in it.
struct OfferCriteria<'a> {
    vocabulary: &'a Vocabulary,
    finder: &'a SensitiveFinder,
    used: &'a UsedPieces,
    without: &'a HashSet<String>,
    most: u32,
}

impl RecordedSpeech {
    /// Opens the recorded speech; `recognizer` names the required recognizer of the index, if any.
    fn open(
        recorded: &RecordedSource,
        site: &TranscriptionSite,
        language: StemmingLanguage,
        recognizer: Option<&str>,
    ) -> Result<Self, RunError> {
        let folder = Folder::new(&site.site);
        let recordings = speech::open(&folder, recorded.dataset.as_deref())?;
        let indexed_by = SpeechIndex::look(&folder.speech())?.map(|index| index.of.recognizer).unwrap_or_default();
        let source = IndexedSource::new(&recordings, language, recognizer.unwrap_or(&indexed_by));
        SpeechIndex::open(&folder.speech(), &source)?;
        Ok(Self { folder: folder.speech() })
    }

    fn find(
        &self,
        criteria: &OfferCriteria<'_>,
        rng: &mut impl Rng,
        check_cancelled: &dyn Fn() -> Result<(), RunError>,
    ) -> Result<OfferSample, RunError> {
        let sieve = OfferFilter::new(criteria.vocabulary, criteria.finder);
        let lines = SpeechIndex::lines(&self.folder)?.map(|line| {
            check_cancelled()?;
            line.map_err(RunError::from)
        });
        find(lines, &sieve, criteria.used, criteria.without, criteria.most, rng)
    }
}

/// The coverage of a job's needs, for the site's operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SpeechCoverage {
    /// The number of pieces of each word that the job sets aside.
    pub(crate) needed: u32,
    /// The number of words, including the one that stands for none.
    pub(crate) words: usize,
    /// The words with fewer pieces, with their numbers of pieces.
    pub(crate) short: Vec<(String, u32)>,
}

/// Returns the coverage of a job with a public vocabulary by a site's recorded speech; `None` for other jobs and sites.
/// It names words: for the terminal only.
///
/// # Errors
/// [`RunError`] when the recorded speech cannot be used.
pub(crate) fn coverage(spec: &Spec, site: &TranscriptionSite) -> Result<Option<SpeechCoverage>, RunError> {
    let VocabularySpec::Public { words } = &spec.vocabulary else { return Ok(None) };
    let language = StemmingLanguage::new(&spec.language)?;
    let Some(counts) = count_remaining(&public_vocabulary(words, language)?, site)? else { return Ok(None) };
    let words = counts.len();
    let needed = most(&make_mechanism(spec)?, words as u32 - 1);
    let short = counts.into_iter().filter(|(_, count)| *count < needed).collect();
    Ok(Some(SpeechCoverage { needed, words, short }))
}

/// Returns the number of remaining pieces for dummies in a site's recorded speech, for each word, and for none of them,
/// which comes last; `None` without recorded speech. It names words: for the terminal only.
///
/// # Errors
/// [`RunError`] when the recorded speech cannot be used.
pub(crate) fn count_remaining(
    vocabulary: &Vocabulary,
    site: &TranscriptionSite,
) -> Result<Option<Vec<(String, u32)>>, RunError> {
    let Some(recorded) = site.settings.speech.recorded() else { return Ok(None) };
    let language = vocabulary.language();
    let providers = site.settings.providers.iter();
    let addresses: Vec<Url> = providers.filter_map(|provider| Url::parse(&provider.url).ok()).collect();
    let reservations = PieceJournal::look(&Folder::new(&site.site).piece_journal())?;
    let finder = tools::load_finder(language.code(), site)?;
    let used = used(&reservations, &tools::list_hosts(&addresses), recorded.again);
    let criteria = OfferCriteria { vocabulary, finder: &finder, used: &used, without: &HashSet::new(), most: 0 };
    let mut rng = Randomness::from_os(Purpose::Dummies).stream(DRAWING);
    let speech = RecordedSpeech::open(&recorded, site, language, None)?;
    let sample = speech.find(&criteria, &mut rng, &|| Ok(()))?;
    let word = |number: u32| vocabulary.forms(number).first().map_or("(none of them)", String::as_str).to_owned();
    Ok(Some((0_u32..).zip(sample.there).map(|(number, count)| (word(number), count)).collect()))
}

/// The assignment of recorded pieces to dummies.
#[derive(Default)]
pub(super) struct DummyPieces {
    /// Digests of the recordings.
    recordings: Vec<String>,
    /// By number of the dummy; `None` for those that an engine speaks.
    pieces: Vec<Option<PieceOffer>>,
}

impl DummyPieces {
    /// Returns the piece of a dummy.
    pub(super) fn piece(&self, number: usize) -> Option<&PieceOffer> {
        self.pieces.get(number).and_then(Option::as_ref)
    }
}

/// Assigns pieces that were set aside to dummies: chosen now, or the stored choice.
///
/// # Errors
/// [`RunError::Failed`] when a dummy would have neither a piece nor an engine, or be longer than any piece, or the
/// stored choice belongs to another plan.
pub(super) fn load_dummy_pieces(
    inputs: &BatchInputs<'_>,
    exchange: &mut dyn Outbound,
) -> Result<DummyPieces, RunError> {
    let BatchInputs { plan, tools, work, .. } = inputs;
    if tools.recorded.is_none() {
        return Ok(DummyPieces::default());
    }
    let site = exchange.transcription_site();
    let reservations = PieceJournal::look(&Folder::new(&site.site).piece_journal())?;
    let reservation = reservations.into_iter().find(|reservation| reservation.name == job_name(exchange));
    let (recordings, offers) =
        reservation.map(|reservation| (reservation.recordings, reservation.offers)).unwrap_or_default();
    let randomness = exchange.draw_randomness(Purpose::Dummies);
    let choice: Vec<Option<u32>> = load_or_create::<_, RunError>(&work.join("recorded.json"), || {
        Ok(choose(plan, &offers, &PhraseLengths::public(), &randomness))
    })?;
    let piece = |place: Option<u32>| match place {
        None => Ok(None),
        Some(place) => offers.get(place as usize).cloned().map(Some).ok_or(TranscriptionError::OtherPlan),
    };
    let pieces: Vec<Option<PieceOffer>> = choice.into_iter().map(piece).collect::<Result<_, _>>()?;
    if pieces.len() != plan.dummies().count() {
        return Err(TranscriptionError::OtherPlan.into());
    }
    if tools.engine.is_none() && pieces.iter().any(Option::is_none) {
        return Err(TranscriptionError::NoRecordedPiece.into());
    }
    // They were cut as the true ones are.
    if pieces.iter().flatten().any(|piece| piece.end.saturating_sub(piece.start) > SAMPLES as u64) {
        return Err(TranscriptionError::LongRecordedDummy.into());
    }
    Ok(DummyPieces { recordings, pieces })
}

/// The dummies of recorded pieces, with the destination of their sounds.
pub(super) struct RecordedDummies<'a> {
    pub(super) inputs: &'a BatchInputs<'a>,
    pub(super) places: &'a BatchPlaces,
    pub(super) draft: &'a Mutex<BatchDraft>,
    pub(super) randomness: &'a Randomness,
}

impl RecordedDummies<'_> {
    /// Converts the pieces to the public loudness, the one voice and the public length, like true ones, and puts them
    /// in their places.
    ///
    /// # Errors
    /// [`RunError`] when a recording has changed or cannot be read, the voice fails, the disk refuses, or the exchange
    /// is stopped.
    pub(super) fn make(&self, dummies: &DummyPieces, exchange: &dyn Outbound) -> Result<(), RunError> {
        let tools = self.inputs.tools;
        let Some(recorded) = &tools.recorded else { return Ok(()) };
        let folder = Folder::new(exchange.transcription_site().site);
        let recordings = speech::open(&folder, recorded.dataset.as_deref())?;
        let numbered = dummies.pieces.iter().enumerate();
        let mut pieces: Vec<(usize, PieceOffer)> =
            numbered.filter_map(|(number, piece)| piece.clone().map(|piece| (number, piece))).collect();
        in_order(&mut pieces);
        let randomness = self.randomness;
        let voice = &tools.voice;
        let make_file =
            |((number, _), sound): (&(usize, PieceOffer), &Vec<f32>)| -> Result<(usize, Vec<u8>), RunError> {
                if length(sound) == 0 {
                    return Err(TranscriptionError::SilentPiece.into());
                }
                // Each dummy has a separate stream, independent of thread and order.
                let mut rng = randomness.stream(2 + *number as u32);
                let converted = voice.convert(&level(sound, &mut rng))?;
                Ok((*number, write_file(converted, &mut rng)?))
            };
        let mut sounds = sounds(&recordings, &dummies.recordings, &pieces)?;
        for_each_part(&pieces, &mut sounds, |part, sounds: Vec<Vec<f32>>| {
            check_cancelled(exchange)?;
            let files: Vec<(usize, Vec<u8>)> =
                part.par_iter().zip(&sounds).map(&make_file).collect::<Result<_, RunError>>()?;
            for (number, file) in files {
                add(self.draft, self.places.dummy(number)?, &file)?;
            }
            Ok(())
        })
    }
}
