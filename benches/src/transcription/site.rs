//! The site's steps, module by module: from a recording to sounds that may leave. The job's own program between these
//! modules is not measured; this code takes the same steps, with a clock.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng as _;
use support::clouds::Ear;
use support::ear;
use support::stage::TestResult;
use undertone_api::job::transcription::OutputVoice;
use undertone_worker::dp::randomness::{Purpose, Randomness};
use undertone_worker::site::clock::entropy;
use undertone_worker::speech::audio::{RATE, Stream};
use undertone_worker::speech::transcribe::dummy::corpus::TextCorpus;
use undertone_worker::speech::transcribe::dummy::{self, PhraseLengths};
use undertone_worker::speech::transcribe::parts::parts;
use undertone_worker::speech::transcribe::piece::{Piece, Recognition, TimedWord};
use undertone_worker::speech::transcribe::plan::{Candidate, Plan};
use undertone_worker::speech::transcribe::recognize::SpeechRecognizer;
use undertone_worker::speech::transcribe::recognize::pocketsphinx::PocketSphinx;
use undertone_worker::speech::transcribe::segment::{SegmentLimits, SpokenPiece, segment};
use undertone_worker::speech::transcribe::sensitive::{self, SensitiveFinder};
use undertone_worker::speech::transcribe::speak::likeness::{
    MeanSpectrum, SpeakingManner, SpectrumShaping, level, pad,
};
use undertone_worker::speech::transcribe::speak::reference::{ReferenceFolder, VoiceReference};
use undertone_worker::speech::transcribe::speak::{self, SpeechEngine, SpeechSynthesizer};
use undertone_worker::speech::transcribe::transcript::TranscriptPart;
use undertone_worker::speech::transcribe::vocabulary::language::{StemmingLanguage, normal};
use undertone_worker::speech::transcribe::vocabulary::{self, Vocabulary, WordList};
use undertone_worker::speech::transcribe::voice::{OneVoice, VoiceConfig};
use undertone_worker::speech::transcribe::wav;

use super::document::{self, SpokenDocument};
use super::sizes::TranscriptionSizes;
use super::stages::StageTimes;

/// The longest recording, seconds.
const LONGEST: f64 = 36_000.0;

/// The tools of the site.
pub(super) struct SiteTools {
    recognizer: Box<dyn SpeechRecognizer>,
    /// The clouds' ear: the same program, in processes of its own.
    pub(super) ear: Ear,
    pub(super) vocabulary: Vocabulary,
    finder: SensitiveFinder,
    corpus: TextCorpus,
    engine: SpeechEngine,
    /// The program that speaks in imitated voices, if there is one.
    cloner: Option<SpeechEngine>,
    /// The number of concurrent tasks: the machine's cores.
    pub(super) at_once: usize,
}

impl SiteTools {
    /// Starts the recognizers. Requires a runtime, on a thread that may block.
    ///
    /// # Errors
    /// When a required program is missing.
    pub(super) fn start(sizes: &TranscriptionSizes) -> TestResult<Self> {
        let at_once = cores();
        let python = std::env::var_os("UNDERTONE_ALIGNER").filter(|python| !python.is_empty());
        let python = python.ok_or("no PocketSphinx: UNDERTONE_ALIGNER names no Python that has it (.ci/aligner.sh)")?;
        let ear = ear::pocketsphinx(at_once)?.ok_or("no PocketSphinx")?;
        let language = StemmingLanguage::new("en")?;
        Ok(Self {
            recognizer: Box::new(PocketSphinx::new(python).start(at_once)?),
            ear,
            vocabulary: vocabulary::public(language, &public(language, sizes.vocabulary)?)?,
            finder: SensitiveFinder::new(
                sensitive::language::SensitiveLexicon::bundled("en")?,
                &sensitive::SensitiveSettings::default(),
            )?,
            corpus: TextCorpus::bundled()?,
            engine: SpeechEngine::espeak("en-us", Duration::from_mins(1))?,
            cloner: cloner(sizes)?,
            at_once,
        })
    }

    /// Replaces the site's recognizer.
    pub(super) fn with_recognizer(self, recognizer: Box<dyn SpeechRecognizer>) -> Self {
        Self { recognizer, ..self }
    }

    /// Speaks a text with the engine of the dummies; a short silence for an empty text.
    ///
    /// # Errors
    /// When the engine fails.
    pub(super) fn speak(&self, text: &str, rate: f64) -> TestResult<Vec<f32>> {
        if text.is_empty() { Ok(vec![0.0; RATE as usize / 10]) } else { Ok(self.engine.speak(text, rate)?) }
    }
}

fn cloner(sizes: &TranscriptionSizes) -> TestResult<Option<SpeechEngine>> {
    if sizes.cloner.is_empty() {
        return Ok(None);
    }
    let command: Vec<&str> = sizes.cloner.iter().map(String::as_str).collect();
    let engine = SpeechEngine::command(&command, Duration::from_mins(5))?;
    if engine.clones() { Ok(Some(engine)) } else { Err("UNDERTONE_TRANSCRIPTION_CLONER has no {reference}".into()) }
}

/// Returns the most frequent words of books without stop words: a list that is older than the data.
fn public(language: StemmingLanguage, words: usize) -> TestResult<WordList> {
    let table = std::fs::read_to_string(document::data()?.join("docs/librispeech_word_counts.tsv"))?;
    let stops = language.stop_words();
    let all = table.lines().skip(1).filter_map(|line| line.split('\t').next());
    let accepted = all.filter(|word| normal(word).is_some_and(|word| !stops.contains(&word)));
    Ok(WordList::parse(&accepted.take(words).collect::<Vec<_>>().join("\n"))?)
}

/// A recording, cut and recognized at the site.
pub(super) struct PreparedRecording {
    pub(super) pieces: Vec<SpokenPiece>,
    /// The first transcript.
    pub(super) words: Vec<TimedWord>,
    /// Every piece; pieces that never leave have a reason.
    pub(super) parts: Vec<TranscriptPart>,
    /// The pieces that may leave, with their words.
    pub(super) candidates: Vec<Candidate>,
    /// The number of pieces that stay, by reason.
    pub(super) kept: BTreeMap<String, usize>,
}

impl PreparedRecording {
    /// Returns a piece by its number.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn piece(&self, id: u32) -> TestResult<&SpokenPiece> {
        self.pieces.get(id as usize).ok_or_else(|| format!("no piece {id}").into())
    }

    /// Returns the seconds of all pieces.
    pub(super) fn seconds(&self) -> f64 {
        self.pieces.iter().map(|spoken| spoken.piece.seconds()).sum()
    }
}

/// Cuts a document as the site does, at rests, and determines the pieces that may leave.
///
/// # Errors
/// When a module fails.
pub(super) async fn prepare(
    tools: &SiteTools,
    document: &SpokenDocument,
    stages: &mut StageTimes,
) -> TestResult<PreparedRecording> {
    let began = Instant::now();
    let pieces = segment_document(document, SegmentLimits::default())?;
    stages.add("segment", document.seconds(), began);

    let began = Instant::now();
    let recognitions = offline(tools, &pieces).await?;
    stages.add("first transcript", document.seconds(), began);

    let began = Instant::now();
    let recognitions = pieces.iter().zip(recognitions).map(|(spoken, recognition)| {
        let words = recognition.words.iter().map(|word| word.later(spoken.piece.start())).collect();
        (spoken.piece.clone(), Recognition { words })
    });
    let recognitions: Vec<(Piece, Recognition)> = recognitions.collect();
    let words: Vec<TimedWord> =
        recognitions.iter().flat_map(|(_, recognition)| recognition.words.iter().cloned()).collect();
    let places: Vec<Piece> = pieces.iter().map(|spoken| spoken.piece.clone()).collect();
    // Counted over the whole document; the search in a piece and its neighbours gives nearly the same.
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for kind in sensitive::select_local_pieces(&places, &words, &tools.finder.find(&words)).values().flatten() {
        *counts.entry(format!("{kind:?}").to_lowercase()).or_default() += 1;
    }
    let parts = parts(recognitions, &tools.finder);
    let may = parts.iter().filter(|part| part.stays.is_none());
    let candidates = may.map(|part| (part.piece.id, tools.vocabulary.classify(&part.offline.words))).collect();
    stages.add("sensitive words, vocabulary", document.seconds(), began);
    Ok(PreparedRecording { pieces, words, parts, candidates, kept: counts })
}

/// Cuts a document into pieces, read from a file as recordings are.
///
/// # Errors
/// When it cannot be read.
pub(super) fn segment_document(document: &SpokenDocument, limits: SegmentLimits) -> TestResult<Vec<SpokenPiece>> {
    let folder = tempfile::tempdir()?;
    let path: PathBuf = folder.path().join("recording.wav");
    std::fs::write(&path, wav::write(&document.samples))?;
    Ok(segment(Stream::open(&path, LONGEST)?, limits)?.collect::<Result<_, _>>()?)
}

/// Recognizes pieces with the site's own recognizer.
async fn offline(tools: &SiteTools, pieces: &[SpokenPiece]) -> TestResult<Vec<Recognition>> {
    let hearing = pieces.iter().map(|spoken| tools.recognizer.transcribe(&spoken.audio));
    Ok(stream::iter(hearing).buffered(tools.at_once).try_collect().await?)
}

/// Returns the dummies of a plan, the first `most`, spoken in random manners; by number.
///
/// # Errors
/// When a module fails.
pub(super) fn dummies(
    tools: &SiteTools,
    plan: &Plan,
    most: usize,
    stages: &mut StageTimes,
) -> TestResult<Vec<Vec<f32>>> {
    synthesize_dummies(tools, &tools.engine, plan, most, stages)
}

/// Returns the same dummies in imitations of the document's voice; none without a program that imitates.
///
/// # Errors
/// When a module fails.
pub(super) fn imitations(
    tools: &SiteTools,
    prepared: &PreparedRecording,
    plan: &Plan,
    most: usize,
    stages: &mut StageTimes,
) -> TestResult<Vec<Vec<f32>>> {
    let Some(cloner) = &tools.cloner else { return Ok(Vec::new()) };
    let mut reference = VoiceReference::default();
    for (id, _) in &prepared.candidates {
        reference.add(&prepared.piece(*id)?.audio);
    }
    let folder = tempfile::tempdir()?;
    let references = ReferenceFolder::begin(&folder.path().join("voices"))?;
    references.keep(0, &reference.sound())?;
    let path = references.path(0);
    synthesize_dummies(tools, &cloner.imitating(&path), plan, most, stages)
}

fn synthesize_dummies(
    tools: &SiteTools,
    speaker: &dyn SpeechSynthesizer,
    plan: &Plan,
    most: usize,
    stages: &mut StageTimes,
) -> TestResult<Vec<Vec<f32>>> {
    let began = Instant::now();
    let randomness = Randomness::from_os(Purpose::Dummies);
    let texts = dummy::write(plan, &tools.vocabulary, &tools.corpus, &PhraseLengths::public(), &randomness)?;
    let mut rng = ChaCha20Rng::from_seed(entropy()?);
    let manners: Vec<SpeakingManner> = (0..texts.len().min(most)).map(|_| SpeakingManner::draw(&mut rng)).collect();
    let requests: Vec<(String, f64)> =
        texts.into_iter().zip(&manners).map(|(text, manner)| (text.text, manner.rate)).collect();
    let sounds = Mutex::new(vec![Vec::new(); requests.len()]);
    let keep = |place: usize, sound: Vec<f32>| -> TestResult<()> {
        sounds.lock().map_err(|_| "a thread gave up")?[place] = sound;
        Ok(())
    };
    speak::all(speaker, &requests, tools.at_once, &keep)?;
    let sounds = sounds.into_inner().map_err(|_| "a thread gave up")?;
    stages.add("dummies: text and speech", seconds(&sounds), began);

    let began = Instant::now();
    let mut engine = MeanSpectrum::default();
    for sound in &sounds {
        engine.add(sound);
    }
    let shaping = SpectrumShaping::new(&engine);
    let shaped: Vec<Vec<f32>> =
        sounds.iter().zip(&manners).map(|(sound, manner)| shaping.shape(sound, manner.lead)).collect();
    stages.add("dummies: mean spectrum", seconds(&shaped), began);
    Ok(shaped)
}

/// Returns the seconds of all sounds.
pub(super) fn seconds(sounds: &[Vec<f32>]) -> f64 {
    sounds.iter().map(Vec::len).sum::<usize>() as f64 / f64::from(RATE)
}

/// A measured voice.
pub(super) struct MeasuredVoice {
    pub(super) name: String,
    /// Whether dummies are spoken in imitations of the document's voice.
    pub(super) clones: bool,
    /// Whether jobs have it by default.
    pub(super) is_default: bool,
    voice: Option<Box<dyn OneVoice>>,
}

/// Returns the original voice, and every requested voice.
///
/// # Errors
/// When a voice cannot be made.
pub(super) fn voices(sizes: &TranscriptionSizes) -> TestResult<Vec<MeasuredVoice>> {
    let mut voices =
        vec![MeasuredVoice { name: "as recorded".to_owned(), clones: false, is_default: false, voice: None }];
    let mut all: Vec<VoiceConfig> = sizes.alphas.iter().map(|alpha| VoiceConfig::Mcadams { alpha: *alpha }).collect();
    for varied in [false, true] {
        all.extend(sizes.details.iter().map(|detail| VoiceConfig::Vocoder { detail: *detail, varied }));
    }
    if !sizes.converter.is_empty() {
        all.push(VoiceConfig::Command { command: sizes.converter.clone(), seconds: 60 });
    }
    for voice in all {
        let is_default = match (&voice, OutputVoice::default()) {
            (VoiceConfig::Vocoder { detail, varied }, OutputVoice::Vocoder { detail: usual, varied: usually }) => {
                (*detail, *varied) == (usual, usually)
            }
            _ => false,
        };
        let voice = voice.start()?;
        voices.push(MeasuredVoice { name: voice.name(), clones: false, is_default, voice: Some(voice) });
    }
    if !sizes.cloner.is_empty() {
        voices.push(MeasuredVoice { name: "cloned".to_owned(), clones: true, is_default: false, voice: None });
    }
    Ok(voices)
}

/// The noise of each true piece and each dummy of a document, which is the same whenever it is made.
#[derive(Clone, Copy)]
pub(super) enum SoundNoise {
    Piece(u32),
    Dummy(usize),
}

impl SoundNoise {
    fn rng(self) -> ChaCha20Rng {
        let (seed, stream) = match self {
            Self::Piece(id) => (0, u64::from(id)),
            Self::Dummy(number) => (1, number as u64),
        };
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        rng
    }
}

impl MeasuredVoice {
    /// Returns sounds in their final form: with the public loudness and length, in this voice, as files.
    ///
    /// # Errors
    /// When a sound cannot be converted, or exceeds the longest length.
    pub(super) fn leaving(&self, sounds: &[(SoundNoise, &[f32])], stages: &mut StageTimes) -> TestResult<Vec<Vec<u8>>> {
        let mut rngs: Vec<ChaCha20Rng> = sounds.iter().map(|(noise, _)| noise.rng()).collect();
        let leveled: Vec<Vec<f32>> = sounds.iter().zip(&mut rngs).map(|((_, sound), rng)| level(sound, rng)).collect();
        let leveled: Vec<&[f32]> = leveled.iter().map(Vec::as_slice).collect();
        let files = self.files(&leveled, stages)?;
        let padded = files.iter().zip(&mut rngs).map(|(file, rng)| -> TestResult<Vec<u8>> {
            Ok(wav::write(&pad(wav::read(file)?, rng).ok_or("a sound is longer than any may be")?))
        });
        padded.collect()
    }

    /// Returns sounds in this voice, as files.
    ///
    /// # Errors
    /// When a sound cannot be converted.
    pub(super) fn files(&self, sounds: &[&[f32]], stages: &mut StageTimes) -> TestResult<Vec<Vec<u8>>> {
        let began = Instant::now();
        let one = |sound: &&[f32]| -> TestResult<Vec<u8>> {
            Ok(match &self.voice {
                None => wav::write(sound),
                Some(voice) => wav::write(&voice.convert(sound)?),
            })
        };
        let each = sounds.len().div_ceil(cores()).max(1);
        let files = std::thread::scope(|scope| {
            let spawned: Vec<_> = sounds
                .chunks(each)
                .map(|part| scope.spawn(move || part.iter().map(one).collect::<TestResult<Vec<_>>>()))
                .collect();
            let mut files = Vec::new();
            for part in spawned {
                files.extend(part.join().map_err(|_| "a thread gave up")??);
            }
            TestResult::Ok(files)
        })?;
        if self.voice.is_some() {
            let samples: usize = sounds.iter().map(|sound| sound.len()).sum();
            stages.add("one voice", samples as f64 / f64::from(RATE), began);
        }
        Ok(files)
    }
}

/// Returns the number of the machine's cores.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}
