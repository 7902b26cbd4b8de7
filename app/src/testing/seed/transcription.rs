//! Transcriptions: one that waits for its steward's approval, one running, and two finished ones, of which one has a full
//! report and the other its plan alone.

use std::num::NonZeroU32;

use time::Duration;
use undertone_api::id::{DatasetId, JobId};
use undertone_api::job::transcription::{
    CrowdedPieces, DummyOptions, HistogramBin, Money, OutputVoice, Party, Price, Provider, ProviderProtocol,
    ProviderResult, SiteRecognizer, Spec, StageDuration, TranscriptErrors, TranscriptionAttack, TranscriptionOutcome,
    UntriedAttack, Vocabulary, WordErrors,
};
use undertone_api::job::{Report as AnyReport, Spec as AnySpec};
use undertone_privacy::{Delta, Epsilon};

use super::Seeding;

const WORDS: [&str; 8] = ["anaemia", "biopsy", "cough", "diabetes", "fracture", "insulin", "pneumonia", "surgery"];

impl Seeding {
    /// Runs a transcription of the private recordings and one of the public recordings to their ends.
    pub(super) async fn finish_transcribing(&mut self) -> [JobId; 2] {
        let titles = [(1, "Letters of the autumn"), (0, "Readings of the archive")];
        let mut ids = Vec::new();
        for (index, title) in titles {
            let spec = spec(self.recordings[index].id);
            let job = self.propose(title, AnySpec::Transcription(spec.clone())).await;
            let job = self.approve(job).await;
            let part = self.begin(index, &job, &self.recordings[index]).await;
            self.app.clock.advance(Duration::minutes(30));
            let report = spec.report().expect("the noise has promises");
            let report = if index == 0 { report.with_outcome(outcome()) } else { report };
            let report = AnyReport::Transcription(report);
            self.workers[index].end(&self.app.ctx, &part, Some(report), None).await;
            ids.push(job.summary.id);
        }
        <[JobId; 2]>::try_from(ids).expect("two jobs")
    }

    /// Proposes two transcriptions of the private recordings; one of them is approved and begun.
    pub(super) async fn begin_transcribing(&mut self) -> [JobId; 2] {
        let spec = || AnySpec::Transcription(spec(self.recordings[1].id));
        let offered = self.propose("Letters of the spring", spec()).await;
        let hearing = self.propose("Letters of the winter", spec()).await;
        let hearing = self.approve(hearing).await;
        let part = self.begin(1, &hearing, &self.recordings[1]).await;
        self.running.push((1, part));
        [offered.summary.id, hearing.summary.id]
    }
}

/// Returns the spec of a job on these recordings.
fn spec(recordings: DatasetId) -> Spec {
    let provider = |name: &str, protocol, per_minute: &str| Provider {
        name: name.to_owned(),
        protocol,
        price: Some(Price {
            currency: "USD".to_owned(),
            per_minute: per_minute.to_owned(),
            step_seconds: 1,
            least_seconds: 0,
        }),
    };
    Spec {
        participant: Party {
            dataset: recordings,
            epsilon: Epsilon::new(1.0).expect("an epsilon"),
            delta: Delta::new(1e-5).expect("a delta"),
            distance: NonZeroU32::new(10).expect("not 0"),
        },
        providers: vec![
            provider("cloud-a", ProviderProtocol::Openai, "0.0060"),
            provider("cloud-b", ProviderProtocol::Deepgram, "0.0043"),
            provider("cloud-c", ProviderProtocol::Google, "0.0160"),
        ],
        colluding: NonZeroU32::MIN,
        language: "en".to_owned(),
        vocabulary: Vocabulary::Public { words: WORDS.map(str::to_owned).into() },
        dummies: DummyOptions::default(),
        voice: OutputVoice::default(),
        crowded: CrowdedPieces::default(),
        recognizer: SiteRecognizer::default(),
    }
}

/// Returns the outcome of the public recordings' job.
fn outcome() -> TranscriptionOutcome {
    let wrong =
        |substitutions, deletions, insertions| WordErrors { words: 12_480, substitutions, insertions, deletions };
    let bin = |occurrences, said, heard| HistogramBin { occurrences, said, heard };
    let provider = |name: &str, pieces: u64, nanos, apart| ProviderResult {
        name: name.to_owned(),
        pieces,
        dummies: 314,
        seconds: (pieces + 314) as f64 * 4.5,
        cost: Some(Money { currency: "USD".to_owned(), nanos }),
        histogram: vec![bin(0, 3, 0), bin(1, 2, 0), bin(4, 2, 1), bin(8, 1, 0), bin(32, 0, 7)],
        topic_distance: Some(apart),
    };
    let attack = |name: &str, accuracy: f64, chance| TranscriptionAttack {
        name: name.to_owned(),
        accuracy,
        interval: [accuracy - 0.04, accuracy + 0.04],
        chance,
    };
    let stage = |name: &str, seconds| StageDuration { name: name.to_owned(), seconds };
    TranscriptionOutcome {
        words: 8,
        recordings: 184,
        seconds: 5_140.0,
        pieces: 1_650,
        sensitive: 212,
        crowded: 64,
        unanswered: 5,
        errors: Some(TranscriptErrors {
            ours: wrong(702, 240, 118),
            offline: wrong(2_311, 640, 402),
            cloud: Some(wrong(560, 190, 96)),
        }),
        providers: vec![
            provider("cloud-a", 471, 207_750_000, 0.31),
            provider("cloud-b", 440, 145_555_000, 0.33),
            provider("cloud-c", 463, 535_200_000, 0.29),
        ],
        attacks: vec![attack("true or dummy", 0.58, 0.5), attack("whose voice", 0.06, 0.025)],
        untried: vec![UntriedAttack {
            provider: "cloud-c".to_owned(),
            why: "fewer than 10 true pieces or fewer than 10 dummies were answered: too few to learn from".to_owned(),
        }],
        stages: vec![
            stage("first transcript", 412.0),
            stage("one voice", 96.0),
            stage("dummies", 143.0),
            stage("asking", 760.0),
        ],
    }
}
