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
use undertone_api::job::transcription::{Spec, Vocabulary as Words};
use url::Url;

use super::batch::{Making, Places, add, by_parts, file};
use super::dummies::{self, mechanism};
use super::tools::{self, Tools};
use super::{failed, go_on};
use crate::config::transcription::RecordedSource;
use crate::dp::randomness::{Purpose, Randomness};
use crate::run::{Exchange, RunError, Transcribing};
use crate::site::folder::Folder;
use crate::site::speech;
use crate::speech::recordings::Recordings;
use crate::speech::transcribe::dummy::PhraseLengths;
use crate::speech::transcribe::outbound::BatchDraft;
use crate::speech::transcribe::plan::load_or_create;
use crate::speech::transcribe::recorded::choice::choose;
use crate::speech::transcribe::recorded::index::{IndexedSource, SpeechIndex};
use crate::speech::transcribe::recorded::journal::{PieceJournal, PieceReservation, UsedPieces, used};
use crate::speech::transcribe::recorded::need::most;
use crate::speech::transcribe::recorded::offer::{OfferFilter, OfferSample, PieceOffer, find};
use crate::speech::transcribe::recorded::sounds::{in_order, sounds};
use crate::speech::transcribe::sensitive::SensitiveFinder;
use crate::speech::transcribe::speak::likeness::{SAMPLES, length, level};
use crate::speech::transcribe::vocabulary::language::StemmingLanguage;
use crate::speech::transcribe::vocabulary::{self, Vocabulary, WordList};

/// The stream of randomness for the draw of pieces: far from those that shape dummies, which count from 0.
const DRAWING: u32 = u32::MAX - 1;

/// A job's request for recorded speech.
pub(super) struct Asked<'a> {
    pub(super) spec: &'a Spec,
    /// The recordings to transcribe: none of them is a dummy.
    pub(super) recordings: &'a Recordings,
    pub(super) tools: &'a Tools,
    pub(super) site: &'a Transcribing,
    pub(super) work: &'a Path,
}

impl Asked<'_> {
    /// Checks that there are enough pieces, as far as that is known before recognition.
    ///
    /// # Errors
    /// [`RunError::Refused`] when there are not, [`RunError::Failed`] when the recorded speech cannot be used.
    pub(super) fn covers(&self, exchange: &dyn Exchange) -> Result<(), RunError> {
        let (Some(of), Words::Public { words }) = (&self.tools.recorded, &self.spec.vocabulary) else { return Ok(()) };
        if self.is_drawn() {
            return Ok(());
        }
        let aside = PieceJournal::look(&Folder::new(&self.site.site).piece_journal())?;
        if aside.iter().any(|one| one.name == name(exchange)) {
            return Ok(());
        }
        let vocabulary = public(words, self.tools.language)?;
        let used = used(&aside, &self.tools.hosts, of.again);
        // Nothing is drawn, so any randomness suffices.
        let mut rng = Randomness::from_os(Purpose::Dummies).stream(DRAWING);
        let found = self.find(of, &vocabulary, &used, 0, &mut rng, exchange)?;
        self.enough(&found, most(&mechanism(self.spec)?, vocabulary.len()))
    }

    /// Sets aside the pieces that any plan of the job may need, once.
    ///
    /// # Errors
    /// As [`Asked::covers`]; nothing is set aside then.
    pub(super) fn set_aside(&self, vocabulary: &Vocabulary, exchange: &mut dyn Exchange) -> Result<(), RunError> {
        let Some(of) = self.tools.recorded.as_ref().filter(|_| !self.is_drawn()) else { return Ok(()) };
        // The journal stays open until the entry is written, so that no other job draws the same pieces.
        let mut journal = PieceJournal::open(&Folder::new(&self.site.site).piece_journal())?;
        if journal.find(&name(exchange)).is_some() {
            return Ok(());
        }
        let needed = most(&mechanism(self.spec)?, vocabulary.len());
        let used = journal.used(&self.tools.hosts, of.again);
        let mut rng = exchange.chance(Purpose::Dummies).stream(DRAWING);
        let found = self.find(of, vocabulary, &used, needed, &mut rng, exchange)?;
        self.enough(&found, needed)?;
        let recordings = speech::open(&Folder::new(&self.site.site), of.dataset.as_deref()).map_err(failed)?;
        let digest = |number: u32| {
            let recording = recordings.meta().recordings.get(number as usize);
            recording.map(|recording| recording.digest.as_str())
        };
        Ok(journal.set_aside(PieceReservation::new(name(exchange), self.tools.hosts.clone(), found.drawn, digest))?)
    }

    fn find(
        &self,
        of: &RecordedSource,
        vocabulary: &Vocabulary,
        used: &UsedPieces,
        most: u32,
        rng: &mut impl Rng,
        exchange: &dyn Exchange,
    ) -> Result<OfferSample, RunError> {
        let stock = Stock::open(of, self.site, self.tools.language, Some(self.tools.ears.name()))?;
        let own = self.recordings.meta().recordings.iter().map(|recording| recording.digest.clone());
        let looked = Looked { vocabulary, finder: &self.tools.finder, used, without: &own.collect(), most };
        stock.find(&looked, rng, &|| go_on(exchange))
    }

    /// Checks that there are enough pieces, or an engine for the rest.
    fn enough(&self, found: &OfferSample, needed: u32) -> Result<(), RunError> {
        let short = found.short(needed).len();
        if short == 0 {
            return Ok(());
        }
        let fewest = found.there.iter().min().copied().unwrap_or(0);
        tracing::warn!(needed, fewest, short, "recorded speech has too few pieces for some words of a vocabulary");
        if self.tools.engine.is_some() {
            return Ok(());
        }
        let all = found.there.len();
        Err(RunError::Refused(format!(
            "this site's recorded speech does not cover the vocabulary: {short} of {all} kinds of dummies have fewer than the \
             {needed} pieces that nobody has heard which a job of this noise sets aside; a larger epsilon, a smaller distance, fewer \
             words or fewer recognizers need fewer"
        )))
    }

    fn is_drawn(&self) -> bool {
        self.work.join("plan.json").exists()
    }
}

/// Returns the name under which a job's pieces are set aside.
fn name(exchange: &dyn Exchange) -> String {
    exchange.manifest().job.to_string()
}

fn public(words: &[String], language: StemmingLanguage) -> Result<Vocabulary, RunError> {
    vocabulary::public(language, &WordList::from_words(words).map_err(failed)?).map_err(failed)
}

/// Recorded speech with its index.
struct Stock {
    folder: PathBuf,
}

/// The criteria of a search in it.
struct Looked<'a> {
    vocabulary: &'a Vocabulary,
    finder: &'a SensitiveFinder,
    used: &'a UsedPieces,
    without: &'a HashSet<String>,
    most: u32,
}

impl Stock {
    /// Opens the recorded speech; `recognizer` names the required recognizer of the index, if any.
    fn open(
        of: &RecordedSource,
        site: &Transcribing,
        language: StemmingLanguage,
        recognizer: Option<&str>,
    ) -> Result<Self, RunError> {
        let folder = Folder::new(&site.site);
        let recordings = speech::open(&folder, of.dataset.as_deref()).map_err(failed)?;
        let heard = SpeechIndex::look(&folder.speech())?.map(|index| index.of.recognizer).unwrap_or_default();
        let of = IndexedSource::new(&recordings, language, recognizer.unwrap_or(&heard));
        SpeechIndex::open(&folder.speech(), &of)?;
        Ok(Self { folder: folder.speech() })
    }

    fn find(
        &self,
        looked: &Looked<'_>,
        rng: &mut impl Rng,
        go_on: &dyn Fn() -> Result<(), RunError>,
    ) -> Result<OfferSample, RunError> {
        let sieve = OfferFilter::new(looked.vocabulary, looked.finder);
        let lines = SpeechIndex::lines(&self.folder)?.map(|line| {
            go_on()?;
            line.map_err(RunError::from)
        });
        find(lines, &sieve, looked.used, looked.without, looked.most, rng)
    }
}

/// The coverage of a job's needs, for the site's operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Coverage {
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
pub(crate) fn coverage(spec: &Spec, site: &Transcribing) -> Result<Option<Coverage>, RunError> {
    let Words::Public { words } = &spec.vocabulary else { return Ok(None) };
    let language = StemmingLanguage::new(&spec.language).map_err(failed)?;
    let Some(left) = left(&public(words, language)?, site)? else { return Ok(None) };
    let needed = most(&mechanism(spec)?, left.len() as u32 - 1);
    let words = left.len();
    Ok(Some(Coverage { needed, words, short: left.into_iter().filter(|(_, there)| *there < needed).collect() }))
}

/// Returns the number of remaining pieces for dummies in a site's recorded speech, for each word, and for none of them,
/// which comes last; `None` without recorded speech. It names words: for the terminal only.
///
/// # Errors
/// [`RunError`] when the recorded speech cannot be used.
pub(crate) fn left(vocabulary: &Vocabulary, site: &Transcribing) -> Result<Option<Vec<(String, u32)>>, RunError> {
    let Some(of) = site.settings.speech.recorded() else { return Ok(None) };
    let language = vocabulary.language();
    let addresses: Vec<Url> = site.settings.providers.iter().filter_map(|known| Url::parse(&known.url).ok()).collect();
    let aside = PieceJournal::look(&Folder::new(&site.site).piece_journal())?;
    let finder = tools::finder(language.code(), site)?;
    let (used, without) = (used(&aside, &tools::hosts(&addresses), of.again), HashSet::new());
    let looked = Looked { vocabulary, finder: &finder, used: &used, without: &without, most: 0 };
    let mut rng = Randomness::from_os(Purpose::Dummies).stream(DRAWING);
    let found = Stock::open(&of, site, language, None)?.find(&looked, &mut rng, &|| Ok(()))?;
    let word = |number: u32| vocabulary.forms(number).first().map_or("(none of them)", String::as_str).to_owned();
    Ok(Some((0_u32..).zip(found.there).map(|(number, there)| (word(number), there)).collect()))
}

/// The assignment of recorded pieces to dummies.
#[derive(Default)]
pub(super) struct Taken {
    /// Digests of the recordings.
    recordings: Vec<String>,
    /// By number of the dummy; `None` for those that an engine speaks.
    pieces: Vec<Option<PieceOffer>>,
}

impl Taken {
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
pub(super) fn taken(making: &Making<'_>, exchange: &mut dyn Exchange) -> Result<Taken, RunError> {
    let Making { plan, tools, work, .. } = making;
    if tools.recorded.is_none() {
        return Ok(Taken::default());
    }
    let site = exchange.transcribing()?;
    let aside = PieceJournal::look(&Folder::new(&site.site).piece_journal())?;
    let of = aside.into_iter().find(|one| one.name == name(exchange));
    let (recordings, offers) = of.map(|of| (of.recordings, of.offers)).unwrap_or_default();
    let chance = exchange.chance(Purpose::Dummies);
    let chosen: Vec<Option<u32>> = load_or_create::<_, RunError>(&work.join("recorded.json"), || {
        Ok(choose(plan, &offers, &PhraseLengths::public(), &chance))
    })?;
    let piece = |chosen: Option<u32>| match chosen {
        None => Ok(None),
        Some(place) => offers.get(place as usize).cloned().map(Some).ok_or(place),
    };
    let pieces: Result<Vec<Option<PieceOffer>>, u32> = chosen.into_iter().map(piece).collect();
    match pieces {
        Ok(pieces) if pieces.len() == plan.dummies().count() => {
            if tools.engine.is_none() && pieces.iter().any(Option::is_none) {
                return Err(failed("no recorded speech was set aside for some dummies of the plan: propose a new job"));
            }
            // They were cut as the true ones are.
            if pieces.iter().flatten().any(|piece| piece.end.saturating_sub(piece.start) > SAMPLES as u64) {
                return Err(failed(
                    "a recorded dummy is longer than any piece: have the recorded speech heard anew by `data index-speech --replace`, \
                     and propose a new job",
                ));
            }
            Ok(Taken { recordings, pieces })
        }
        _ => Err(failed(dummies::OTHERS)),
    }
}

/// The destination of recorded dummies, and their sound.
pub(super) struct Placing<'a> {
    pub(super) making: &'a Making<'a>,
    pub(super) places: &'a Places,
    pub(super) draft: &'a Mutex<BatchDraft>,
    pub(super) chance: &'a Randomness,
}

impl Placing<'_> {
    /// Converts the pieces to the public loudness, the one voice and the public length, like true ones, and puts them
    /// in their places.
    ///
    /// # Errors
    /// [`RunError`] when a recording has changed or cannot be read, the voice fails, the disk refuses, or the exchange
    /// is stopped.
    pub(super) fn put(&self, taken: &Taken, exchange: &dyn Exchange) -> Result<(), RunError> {
        let tools = self.making.tools;
        let Some(of) = &tools.recorded else { return Ok(()) };
        let folder = Folder::new(exchange.transcribing()?.site);
        let recordings = speech::open(&folder, of.dataset.as_deref()).map_err(failed)?;
        let numbered = taken.pieces.iter().enumerate();
        let mut pieces: Vec<(usize, PieceOffer)> =
            numbered.filter_map(|(number, piece)| piece.clone().map(|piece| (number, piece))).collect();
        in_order(&mut pieces);
        let (chance, voice) = (self.chance, &tools.voice);
        let made = |((number, _), sound): (&(usize, PieceOffer), &Vec<f32>)| -> Result<(usize, Vec<u8>), RunError> {
            if length(sound) == 0 {
                return Err(failed(
                    "a piece of the recorded speech is silent: take its recording out and index the rest",
                ));
            }
            // Each dummy has a separate stream, independent of thread and order.
            let mut rng = chance.stream(2 + *number as u32);
            let spoken = voice.convert(&level(sound, &mut rng)).map_err(failed)?;
            Ok((*number, file(spoken, &mut rng)?))
        };
        let mut heard = sounds(&recordings, &taken.recordings, &pieces)?;
        by_parts(&pieces, &mut heard, |part, some: Vec<Vec<f32>>| {
            go_on(exchange)?;
            let files: Vec<(usize, Vec<u8>)> =
                part.par_iter().zip(&some).map(&made).collect::<Result<_, RunError>>()?;
            for (number, file) in files {
                add(self.draft, self.places.dummy(number)?, &file)?;
            }
            Ok(())
        })
    }
}
