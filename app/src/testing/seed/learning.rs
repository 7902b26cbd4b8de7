//! Jobs with questions: one at its second round, and a finished one with a report in which every part is present.

use time::Duration;
use undertone_api::id::{DatasetId, JobId, QuestionId};
use undertone_api::job::active_learning::{
    Acquisition, Aggregation, AnnotatorResult, Classifier, FrequencyBin, Gate, LearningPoint, Party, PoolResult,
    Rehearsal, RehearsalResult, RehearsedPoint, Report, Spec, TestResult, TestSet, UncertaintyHistogram,
};
use undertone_api::job::{Job, Measurement, Report as AnyReport, Spec as AnySpec};
use undertone_api::question::{Answer, Label, NewAnnotation};
use undertone_privacy::kanon::{self, Shown};
use undertone_privacy::{Delta, Epsilon, PrivacyUnit, SamplingRate};
use undertone_server_core::auth::Actor;
use undertone_server_core::service::question::{QuestionChoice, annotate};
use undertone_server_core::testing::TestPart;

use super::Seeding;

const GATES: [(f64, u32); 2] = [(0.1, 10), (0.25, 20)];
const ROUNDS: u32 = 5;
const BATCH: u32 = 40;

/// The texts of the second log's pool, each with its number of occurrences. The first four are open in the second round,
/// the following two are answered there, and the last four were asked in the first round.
const TEXTS: [(&str, u64); 10] = [
    ("can you move my appointment to the week after next", 31),
    ("is the second dose still on the 14th <or> later?", 18),
    ("how do i get a copy of my letter", 57),
    ("where do i park", 112),
    ("can i bring my dog", 12),
    ("is the lift working", 14),
    ("cancel my appointment", 80),
    ("renew my prescription", 66),
    ("who may read my record", 25),
    ("which bus stops at the clinic", 41),
];
/// The pool of the third log.
const OTHER_TEXTS: [(&str, u64); 2] = [("when is visiting time", 45), ("how long do i have to fast", 33)];
/// The labels of the questions of the first round, as each annotator gives them.
const ANSWERS: [[&str; 2]; 4] = [
    ["Appointment", "Appointment"],
    ["Medication", "Medication"],
    ["Record or letter", "Something else"],
    ["Getting there", "Getting there"],
];

impl Seeding {
    fn log_ids(&self) -> Vec<DatasetId> {
        self.logs.iter().map(|log| log.id).collect()
    }

    /// Returns the spec of a job with questions.
    pub(super) fn question_spec(&self) -> AnySpec {
        AnySpec::ActiveLearning(spec(&self.log_ids()))
    }

    /// Proposes a job with questions, approves it, and lets both sites send their pools.
    async fn pool_questions(&mut self, title: &str) -> (Job, Vec<TestPart>) {
        let job = self.propose(title, self.question_spec()).await;
        let job = self.approve(job).await;
        let mut parts = Vec::new();
        for (worker, log) in self.logs.iter().enumerate() {
            parts.push(self.begin(worker, &job, log).await);
        }
        self.workers[1].submit_pool(&self.app.ctx, &parts[1], &TEXTS).await;
        self.workers[2].submit_pool(&self.app.ctx, &parts[2], &OTHER_TEXTS).await;
        for worker in [1, 2] {
            self.workers[worker].end(&self.app.ctx, &parts[worker], None, None).await;
        }
        (job, parts)
    }

    /// Opens a round with texts of the second log, the first the most uncertain.
    async fn ask(&self, parts: &[TestPart], round: u32, texts: &[(&str, u64)]) {
        let choice = |(place, (text, _)): (u32, &(&str, u64))| QuestionChoice {
            question: parts[1].question_id(text),
            uncertainty: 0.93 - 0.05 * f64::from(place),
        };
        let choices: Vec<_> = (0..).zip(texts).map(choice).collect();
        self.workers[0].choose(self.ctx(), &parts[0], round, &choices).await;
    }

    async fn answer(&self, by: &Actor, question: QuestionId, label: &str) {
        let answer = NewAnnotation { answer: Answer::Label { label: label.to_owned() } };
        annotate(self.ctx(), by, question, &answer).await.expect("the question is open");
    }

    /// Asks the first round, which both annotators answer.
    async fn ask_first_round(&self, parts: &[TestPart]) {
        let texts = &TEXTS[6..];
        self.ask(parts, 1, texts).await;
        for ((text, _), labels) in texts.iter().zip(ANSWERS) {
            for (annotator, label) in self.people.annotators.iter().zip(labels) {
                self.answer(annotator, parts[1].question_id(text), label).await;
            }
        }
        assert!(self.workers[0].fetch_answers(self.ctx(), &parts[0], 1).await, "every question has both answers");
    }

    /// Submits the lead's measurements up to a round.
    async fn measure_classifier(&self, lead: &TestPart, rounds: u32) {
        for point in (0..=rounds).map(learned) {
            for test in point.tests {
                let figure = Measurement {
                    series: "classifier".to_owned(),
                    round: point.round,
                    test: test.name,
                    frames: test.examples,
                    accuracy: test.accuracy,
                    loss: test.loss,
                };
                self.workers[0].measure(self.ctx(), lead, &figure).await;
            }
        }
    }

    /// Runs a job with questions to its end.
    pub(super) async fn finish_asking(&mut self) -> JobId {
        let (job, parts) = self.pool_questions("What callers wanted last year").await;
        self.ask_first_round(&parts).await;
        self.measure_classifier(&parts[0], ROUNDS).await;
        self.app.clock.advance(Duration::hours(2));
        let report = AnyReport::ActiveLearning(report(&self.log_ids()));
        self.workers[0].end(&self.app.ctx, &parts[0], Some(report), None).await;
        job.summary.id
    }

    /// Runs a job with questions up to its second round: six questions, of which the steward and an annotator answered
    /// two. Returns the ids of the open questions and of a closed one.
    pub(super) async fn begin_asking(&mut self) -> (JobId, Vec<QuestionId>, QuestionId) {
        let (job, mut parts) = self.pool_questions("What callers want").await;
        self.ask_first_round(&parts).await;
        self.measure_classifier(&parts[0], 1).await;
        self.ask(&parts, 2, &TEXTS[..6]).await;
        for (text, _) in &TEXTS[..6] {
            self.answer(&self.people.annotators[0], parts[1].question_id(text), "Something else").await;
        }
        for (text, _) in &TEXTS[4..6] {
            self.answer(&self.people.steward, parts[1].question_id(text), "Something else").await;
        }
        let questions = TEXTS[..4].iter().map(|(text, _)| parts[1].question_id(text)).collect();
        let closed = parts[1].question_id(TEXTS[6].0);
        self.running.push((0, parts.swap_remove(0)));
        (job.summary.id, questions, closed)
    }
}

fn gate((rate, threshold): (f64, u32)) -> Gate {
    Gate {
        sampling_rate: SamplingRate::new(rate).expect("a rate"),
        threshold: threshold.try_into().expect("not 0"),
        epsilon: Epsilon::new(1.0).expect("an epsilon"),
        shown: Shown::Counts,
        rows_per_unit: 1.try_into().expect("not 0"),
    }
}

/// Returns the spec of both jobs over these logs, the lead's first.
fn spec(logs: &[DatasetId]) -> Spec {
    let labels = [
        ("Appointment", Some('a'), "Anything about a time at the clinic: making, moving, cancelling it."),
        ("Medication", Some('m'), "Doses, prescriptions, side effects."),
        ("Record or letter", None, "Copies of documents, and who may read them."),
        ("Getting there", None, ""),
        ("Something else", Some('0'), "It is about something, and none of the others."),
    ];
    Spec {
        unit: PrivacyUnit::User,
        participants: logs
            .iter()
            .enumerate()
            .map(|(index, log)| Party { dataset: *log, gate: index.checked_sub(1).map(|index| gate(GATES[index])) })
            .collect(),
        labels: labels
            .map(|(name, key, hint)| Label { name: name.to_owned(), key, hint: hint.to_owned() })
            .into(),
        guidelines: "Label what the person wants done, not what they mention.\n\nIf two labels hold, take the one that is to be done first."
            .to_owned(),
        tests: vec![
            TestSet { name: "held-out turns".to_owned(), dataset: logs[0] },
            TestSet { name: "rare intents".to_owned(), dataset: logs[0] },
        ],
        golden: 50,
        private_lead: None,
        private_test: None,
        rounds: ROUNDS,
        batch: BATCH,
        acquisition: Acquisition::default(),
        diversity: true,
        classifier: Classifier::default(),
        annotators: 2,
        aggregation: Aggregation::default(),
        deadline_seconds: 86_400,
        rehearsal: Some(Rehearsal {
            rates: vec![0.1, 0.25, 0.5, 0.75],
            thresholds: vec![5, 10, 20, 50],
            questions: 200,
            repeats: 5,
            annotator_accuracy: 0.95,
            annotator_deviation: 0.02,
        }),
        seed: 7,
    }
}

/// Returns a learning curve from 0.62 towards `to`, slower with a smaller pool.
fn accuracy(labelled: f64, to: f64) -> f64 {
    to - (to - 0.62) * (-labelled / 90.0).exp()
}

fn learned(round: u32) -> LearningPoint {
    let asked = u64::from(round * BATCH);
    let labelled = asked - asked / 30;
    let test = |name: &str, handicap: f64, examples| TestResult {
        name: name.to_owned(),
        accuracy: accuracy(labelled as f64, 0.884) - handicap,
        loss: 1.6 - accuracy(labelled as f64, 0.884),
        examples,
    };
    LearningPoint {
        round,
        asked,
        labelled,
        tests: vec![test("held-out turns", 0.0, 2_400), test("rare intents", 0.17, 180)],
        private_test: None,
    }
}

/// Returns δ of a gate at ε 1, by the theorem.
fn delta(rate: f64, threshold: u32) -> Option<f64> {
    kanon::delta(Shown::Counts, threshold.into(), rate, 1.0).ok().map(Delta::get)
}

fn rehearsed(rate: f64, threshold: u32, baseline: bool) -> RehearsalResult {
    let pool = (52_000.0 * rate / f64::from(threshold).powf(1.1)) as u64;
    let to = 0.90 - 0.035 * (f64::from(threshold) / rate / 20.0).ln_1p();
    let repeats = [0_u64, 40, 80, 120, 160, 200];
    let points = repeats.map(|labelled| RehearsedPoint {
        labelled,
        accuracy: accuracy(labelled as f64, to),
        deviation: if labelled == 0 { 0.006 } else { 0.004 + 0.0002 * f64::from(threshold) },
    });
    RehearsalResult {
        sampling_rate: rate,
        threshold,
        baseline,
        pool,
        violations: 0,
        points: points.into(),
        delta: if baseline { None } else { delta(rate, threshold) },
    }
}

/// Returns the report of a job in which every part is present.
fn report(logs: &[DatasetId]) -> Report {
    let spec = spec(logs);
    let rehearsal = spec.rehearsal.as_ref().expect("one is wanted");
    let pairs = rehearsal.rates.iter().flat_map(|rate| rehearsal.thresholds.iter().map(|k| (*rate, *k)));
    let pool = |index: usize, queries| {
        let (rate, threshold) = GATES[index];
        PoolResult {
            dataset: logs[index + 1],
            sampling_rate: rate,
            threshold,
            unit: PrivacyUnit::User,
            epsilon: Some(1.0),
            delta: delta(rate, threshold),
            queries,
        }
    };
    let bins = |peak: f64| {
        (0..20).map(|bin| (240.0 * (-((f64::from(bin) / 20.0 - peak) / 0.22).powi(2)).exp()) as u64).collect()
    };
    let annotator = |annotator, annotations, right| AnnotatorResult {
        annotator,
        annotations,
        accuracy: Some(right),
        agreement: Some(right - 0.03),
    };
    Report {
        pools: vec![pool(0, 1_874), pool(1, 444)],
        best: Some(ROUNDS),
        learning: (0..=ROUNDS).map(learned).collect(),
        uncertainty: (1..=ROUNDS)
            .map(|round| UncertaintyHistogram {
                round,
                bins: bins(0.75 - 0.1 * f64::from(round)),
                confidence: bins(0.35 + 0.1 * f64::from(round)),
            })
            .collect(),
        frequency: (3..13)
            .map(|power| FrequencyBin { occurrences: 1 << power, queries: (9_000 >> (power + power / 4)).max(1) })
            .collect(),
        rehearsal: pairs.map(|(rate, k)| rehearsed(rate, k, false)).chain([rehearsed(1.0, 1, true)]).collect(),
        annotators: vec![annotator(1, 160, 0.96), annotator(2, 139, 0.91), annotator(3, 97, 0.83)],
        agreement: Some(0.71),
        contents: Vec::new(),
    }
}
