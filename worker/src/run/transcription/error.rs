//! The reasons why a run of `transcription` ends without a result.
//!
//! The proposer reads the message of a refusal, so it names nothing of the recordings. No message and no cause has a
//! word of a transcript.

use std::io;
use std::num::NonZeroU32;
use std::path::PathBuf;

use undertone_api::job::transcription::window::ONE_WORD;
use undertone_privacy::histogram::HistogramError;

use crate::config::transcription::{EngineError, RecognizerSetupError};
use crate::run::RunError;
use crate::site::speech::SpeechError;
use crate::speech::audio::AudioError;
use crate::speech::recordings::RecordingError;
use crate::speech::transcribe::dummy::DummyError;
use crate::speech::transcribe::noise::NoiseError;
use crate::speech::transcribe::outbound::OutboundError;
use crate::speech::transcribe::plan::PlanError;
use crate::speech::transcribe::provider::settings::SettingsError;
use crate::speech::transcribe::recognize::RecognizerError;
use crate::speech::transcribe::recorded::RecordedError;
use crate::speech::transcribe::segment::LimitError;
use crate::speech::transcribe::segment::cut::CutError;
use crate::speech::transcribe::sensitive::SensitiveError;
use crate::speech::transcribe::speak::SpeakError;
use crate::speech::transcribe::vocabulary::VocabularyError;
use crate::speech::transcribe::voice::VoiceError;

/// The reason why a transcription cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum TranscriptionError {
    // Refusals
    /// The noise does not cover a spoken word.
    #[error(
        "one spoken word changes up to {ONE_WORD} counts of pieces, and the job hides {0}: propose it with a \
         distance of {ONE_WORD} or more"
    )]
    Distance(NonZeroU32),
    /// Imitated voices reveal pieces of other recognizers.
    #[error(
        "this site's speech engine imitates the speakers, by which each recognizer hears of pieces that others are \
         sent: propose the job with {0} colluding recognizers, all of them, or have [transcription.speech] imitate \
         no speaker"
    )]
    ImitatedVoices(usize),
    /// A paid batch is missing.
    #[error(
        "a batch of sounds was paid for, and is not in the job's folder any more: the ledger was restored from an \
         older copy, or the folder was removed. A second one is never made; propose a new job"
    )]
    LostBatch,
    /// The plan is not the charged release.
    #[error("the job's plan is another release than its manifest charges")]
    OtherRelease,
    /// A provider's address has changed.
    #[error("a provider leads elsewhere by the site's configuration than when the batch was charged")]
    OtherRecipient(#[source] OutboundError),
    /// A provider of the job is not configured.
    #[error("no provider `{0}` is in [[transcription.providers]]")]
    NoProvider(String),
    /// A provider has another protocol.
    #[error("the provider `{0}` has another protocol at this site than in the job")]
    OtherProtocol(String),
    /// No recognizer is configured.
    #[error("the site has no [transcription.recognizer]")]
    NoRecognizer,
    /// The recognizer is of another kind.
    #[error("the site's recognizer is not the job's (`{0}`)")]
    OtherRecognizer(&'static str),
    /// The site's recordings are in other languages.
    #[error("transcription.sensitive.languages: this site has no recordings in `{0}`")]
    OtherRecordingLanguage(String),
    /// The bundled list of sensitive words does not know the language.
    #[error("transcription.sensitive: {0}")]
    SensitiveLanguage(#[source] SensitiveError),
    /// The site's list of sensitive words is in another language.
    #[error("transcription.sensitive.language is of `{list}`, the job of `{job}`")]
    OtherSensitiveLanguage {
        /// The language of the list.
        list: String,
        /// The language of the job.
        job: String,
    },
    /// No corpus is configured.
    #[error("the job asks for the site's corpus, and [transcription.dummies] names none")]
    NoCorpus,
    /// No public corpus is configured.
    #[error(
        "the job weighs words by a public corpus of the site, and [transcription.vocabulary] names no `baseline`: add \
         one, or propose the job with the weight `frequency`"
    )]
    NoBaseline,
    /// Recorded speech may lack a chosen word.
    #[error(
        "the job's words are chosen from the recordings, and this site's recorded speech may lack one of them: name an \
         engine in `fill` of [transcription.speech], or propose the job with a public list"
    )]
    ChosenWordsNeedEngine,
    /// The speech engine does not imitate voices.
    #[error(
        "the job asks for dummies in imitated voices, and [transcription.speech] imitates none: it must be of the kind \
         `command`, with `{{reference}}` among its arguments"
    )]
    NoImitatedVoices,
    /// The voice is of another kind.
    #[error("[transcription.voice] is not of the kind that the job asks for: {0}")]
    OtherVoice(&'static str),
    /// The recorded speech has too few pieces.
    #[error(
        "this site's recorded speech does not cover the vocabulary: {short} of {kinds} kinds of dummies have fewer \
         than the {needed} unused pieces that a job of this noise sets aside; a larger epsilon, a smaller distance, \
         fewer words or fewer recognizers need fewer"
    )]
    Uncovered {
        /// The kinds with too few pieces.
        short: usize,
        /// All kinds of dummies.
        kinds: usize,
        /// The pieces of each kind that the job sets aside.
        needed: u32,
    },

    // Failures of the site's disk, after which the part waits
    /// A plan or another random choice cannot be drawn, stored or read.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The recognizer is lost.
    #[error(transparent)]
    Recognizer(#[from] RecognizerError),
    /// The recorded speech cannot be used.
    #[error(transparent)]
    Recorded(#[from] RecordedError),
    /// A recording cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The batch cannot be made, stored or sent.
    #[error(transparent)]
    Outbound(#[from] OutboundError),
    /// A reference of a voice cannot be stored.
    #[error("cannot store the reference of a voice: {0}")]
    VoiceReference(#[source] io::Error),
    /// The site's report cannot be read.
    #[error("cannot read {path}: {source}")]
    ReadReport {
        /// The report.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A transcript cannot be written. Its path has the name of the recording, which must not be logged.
    #[error("cannot write a transcript: check the disk of the site's folder")]
    WriteTranscript(#[source] io::Error),
    /// The work folder cannot be removed.
    #[error("cannot clear the job's work folder: {0}")]
    ClearWorkFolder(#[source] io::Error),

    // Other failures
    /// The dataset is not the job's.
    #[error("this dataset does not take part in the job")]
    NotParticipant,
    /// The names of two recordings conflict. The message names neither.
    #[error(
        "a transcript of one recording would lie where the folder of another has to be: name one of them otherwise \
         and add the recordings again"
    )]
    NameConflict,
    /// The recordings were replaced.
    #[error(
        "the recordings are others than those that the job began with, whose sensitive words it has found: propose a \
         new job"
    )]
    OtherRecordings,
    /// A word became sensitive after the plan was drawn.
    #[error(
        "more words must not leave than when the job was planned, and its plan would send some of them: propose a \
         new job"
    )]
    NewSensitiveWord,
    /// The noise of the spec does not exist.
    #[error(transparent)]
    Histogram(#[from] HistogramError),
    /// The noise cannot be drawn.
    #[error(transparent)]
    Noise(#[from] NoiseError),
    /// A limit of the segmentation is out of range.
    #[error(transparent)]
    Limits(#[from] LimitError),
    /// The audio of a recording is invalid.
    #[error(transparent)]
    Audio(#[from] AudioError),
    /// A piece cannot be cut from its recording.
    #[error(transparent)]
    Cut(#[from] CutError),
    /// There is no vocabulary.
    #[error(transparent)]
    Vocabulary(#[from] VocabularyError),
    /// A piece has no number.
    #[error("the recordings have more than 4294967295 pieces: make several datasets")]
    TooManyPieces,
    /// The settings of a provider are wrong.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The recognizer does not start.
    #[error(transparent)]
    RecognizerStart(#[from] RecognizerSetupError),
    /// The speech engine does not start.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A file of the configuration is too long.
    #[error("{field}: {path} has more than {most} bytes")]
    LongText {
        /// The field that names the file.
        field: &'static str,
        /// The file.
        path: PathBuf,
        /// The largest size.
        most: u64,
    },
    /// A file of the configuration cannot be read.
    #[error("{field}: cannot read {path}: {source}")]
    ReadText {
        /// The field that names the file.
        field: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The site's list of sensitive words or its patterns are wrong.
    #[error("transcription.sensitive: {0}")]
    Sensitive(#[source] SensitiveError),
    /// There are no texts for dummies.
    #[error(transparent)]
    Dummy(#[from] DummyError),
    /// A sound has no other voice.
    #[error(transparent)]
    Voice(#[from] VoiceError),
    /// The engine does not speak a dummy.
    #[error(transparent)]
    Speak(#[from] SpeakError),
    /// The recorded speech of the site cannot be used.
    #[error(transparent)]
    Speech(#[from] SpeechError),
    /// The plan has no place for a dummy.
    #[error("dummy {0} has no place in the plan")]
    DummyPlace(usize),
    /// The plan has no place for a piece.
    #[error("piece {0} has no place in the plan")]
    PiecePlace(u32),
    /// A converted sound is too long.
    #[error(
        "a sound is longer than any piece: the converter of voices, or the speech engine, does not keep to its length"
    )]
    LongSound,
    /// A spoken dummy is too long.
    #[error("a dummy is longer than any piece: the speech engine does not keep to the rate")]
    LongDummy,
    /// A recorded dummy is too long.
    #[error(
        "a recorded dummy is longer than any piece: have the recorded speech heard anew by `data index-speech \
         --replace`, and propose a new job"
    )]
    LongRecordedDummy,
    /// A recorded dummy has no piece.
    #[error("no recorded speech was set aside for some dummies of the plan: propose a new job")]
    NoRecordedPiece,
    /// A recorded piece is silent.
    #[error("a piece of the recorded speech is silent: take its recording out and index the rest")]
    SilentPiece,
    /// A recording has no voice to imitate.
    #[error("a recording is silent: there is no voice in it to imitate")]
    SilentRecording,
    /// The stored dummies belong to another plan.
    #[error("the stored dummies belong to another plan")]
    OtherPlan,
    /// The stored dummies belong to other recordings.
    #[error("the stored dummies belong to other recordings")]
    OtherDummies,
    /// A name leads out of the folder of results.
    #[error("a recording's name leads out of the folder of transcripts: add the recordings again")]
    OutsideName,
    /// The site's report has another form.
    #[error("{path} is not what this worker wrote: {source}")]
    ForeignReport {
        /// The report.
        path: PathBuf,
        /// The reason.
        source: serde_json::Error,
    },
}

impl From<TranscriptionError> for RunError {
    fn from(error: TranscriptionError) -> Self {
        match error {
            TranscriptionError::Distance(_)
            | TranscriptionError::ImitatedVoices(_)
            | TranscriptionError::LostBatch
            | TranscriptionError::OtherRelease
            | TranscriptionError::OtherRecipient(_)
            | TranscriptionError::NoProvider(_)
            | TranscriptionError::OtherProtocol(_)
            | TranscriptionError::NoRecognizer
            | TranscriptionError::OtherRecognizer(_)
            | TranscriptionError::OtherRecordingLanguage(_)
            | TranscriptionError::SensitiveLanguage(_)
            | TranscriptionError::OtherSensitiveLanguage { .. }
            | TranscriptionError::NoCorpus
            | TranscriptionError::NoBaseline
            | TranscriptionError::ChosenWordsNeedEngine
            | TranscriptionError::NoImitatedVoices
            | TranscriptionError::OtherVoice(_)
            | TranscriptionError::Uncovered { .. }
            | TranscriptionError::Outbound(OutboundError::WrongEvent { .. }) => Self::Refused(error.into()),
            TranscriptionError::Plan(_)
            | TranscriptionError::Recognizer(_)
            | TranscriptionError::Recorded(_)
            | TranscriptionError::Recording(_)
            | TranscriptionError::Outbound(_)
            | TranscriptionError::VoiceReference(_)
            | TranscriptionError::ReadReport { .. }
            | TranscriptionError::WriteTranscript(_)
            | TranscriptionError::ClearWorkFolder(_) => Self::from_disk_operation(error),
            _ => Self::Failed(error.into()),
        }
    }
}

/// Converts errors of the layers below to the end of a run.
macro_rules! convert_to_run_error {
    ($($source:ty),* $(,)?) => {$(
        impl From<$source> for RunError {
            fn from(error: $source) -> Self {
                TranscriptionError::from(error).into()
            }
        }
    )*};
}

convert_to_run_error! {
    AudioError, CutError, DummyError, EngineError, HistogramError, LimitError, NoiseError, OutboundError, PlanError,
    RecognizerError, RecognizerSetupError, RecordedError, RecordingError, SettingsError, SpeakError, SpeechError,
    VocabularyError, VoiceError,
}
