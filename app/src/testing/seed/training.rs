//! Training jobs: a finished one with three arms and audits, a paused one, a running one, and one that waits for approval.

use serde_json::json;
use time::Duration;
use time::macros::datetime;
use undertone_api::id::{DraftId, JobId};
use undertone_api::job::audit::{
    AttackMethod, AuditFinding, AuditTrial, CanaryFamily, MembershipAttack, OperatingPoint, TrialResult,
};
use undertone_api::job::dp_sgd::{
    Arm, ArmResult, AuditOptions, Report as TrainingReport, Spec as TrainingSpec, TestResult,
};
use undertone_api::job::log::{Phase, SiteEvent};
use undertone_api::job::{Job, Measurement, NewApprovalLimit, NewDraft, PauseRequest, Report, Spec};
use undertone_privacy::{Delta, Epsilon, PrivacyUnit};
use undertone_server_core::service::approval;
use undertone_server_core::service::job::{draft_create, draft_update, hold_dataset, pause};
use undertone_server_core::service::version::ExpectedVersion;
use undertone_server_core::testing::TestPart;

use super::Seeding;
use crate::kind::dp_sgd::TrainingPlan;

/// The private rounds of the finished job.
const ROUNDS: u32 = 4;
/// The rounds of the open arm.
const OPEN_ROUNDS: u32 = 2;
/// The finished rounds of the running job, before the open one.
const RUN_ROUNDS: u32 = 3;

impl Seeding {
    /// Returns the spec of a training job of the named speech datasets, with the planner's numbers.
    fn training_spec(&self, joining: &[usize], rounds: u32, noise: f64) -> TrainingSpec {
        self.training_plan(joining, rounds, noise).spec(&self.speech).expect("the plan's numbers are in range")
    }

    /// Returns the planner's first plan with these datasets, rounds and noise.
    fn training_plan(&self, joining: &[usize], rounds: u32, noise: f64) -> TrainingPlan {
        let mut plan = TrainingPlan::first(&self.speech, &[]).expect("there are datasets");
        plan.rounds = rounds;
        for (index, part) in plan.parts.iter_mut().enumerate() {
            part.joins = joining.contains(&index);
            part.noise = noise;
        }
        plan
    }

    /// Begins every part of a job of the named speech datasets, in the order of their workers.
    async fn begin_training(&self, job: &Job, joining: &[usize]) -> Vec<(usize, TestPart)> {
        let mut parts = Vec::new();
        for index in joining {
            let worker = [0, 1, 1, 2][*index];
            parts.push((worker, self.begin(worker, job, &self.speech[*index]).await));
        }
        parts
    }

    /// Submits every vector of some rounds of a series.
    async fn play(&mut self, parts: &[(usize, TestPart)], series: &str, rounds: std::ops::RangeInclusive<u32>) {
        for round in rounds {
            for (worker, part) in parts {
                self.workers[*worker].submit(&self.app.ctx, part, series, round).await;
            }
            self.app.clock.advance(Duration::seconds(20));
        }
    }

    /// Runs a job with three arms and an audit of each private party to its end.
    pub(super) async fn finish_training(&mut self) -> JobId {
        let joining = [0, 2, 3];
        let plan = TrainingPlan { open: true, ..self.training_plan(&joining, ROUNDS, 10.0) };
        let mut spec = plan.spec(&self.speech).expect("the plan's numbers are in range");
        if let Some(open) = &mut spec.open {
            open.rounds = OPEN_ROUNDS;
        }
        spec.audit = Some(AuditOptions { canaries: 1000, guesses: 500, recordings: 100 });
        let job = self.propose("First model of the consortium", Spec::DpSgd(spec.clone())).await;
        let job = self.approve(job).await;
        let parts = self.begin_training(&job, &joining).await;
        self.measure_training(&parts[0].1, &spec).await;
        self.play(&parts, "open", 1..=OPEN_ROUNDS).await;
        self.play(&parts, "private", 1..=ROUNDS).await;
        let lead = &parts[0].1;
        self.workers[0].store_file(&self.app.ctx, lead, "model.safetensors", b"a model").await;
        self.app.clock.advance(Duration::minutes(2));
        for (worker, part) in &parts[1..] {
            let delta = Delta::new(1e-6).expect("a delta");
            let statement = self.workers[*worker].sign_audit(&self.app.ctx, part, finding(), ROUNDS.into(), delta);
            self.workers[*worker].end(&self.app.ctx, part, None, Some(&statement)).await;
        }
        let report = Report::DpSgd(training_report(&spec));
        self.workers[0].end(&self.app.ctx, lead, Some(report), None).await;
        job.summary.id
    }

    /// Submits the lead's measurements of every arm.
    async fn measure_training(&self, lead: &TestPart, spec: &TrainingSpec) {
        for test in &spec.tests {
            for (series, last, from, to) in
                [("public", 10, 0.0, 0.38), ("open", OPEN_ROUNDS, 0.37, 0.49), ("private", ROUNDS, 0.37, 0.45)]
            {
                for round in 0..=last {
                    let accuracy = from + (to - from) * (1.0 - (-0.5 * f64::from(round)).exp());
                    let figure = Measurement {
                        series: series.to_owned(),
                        round,
                        test: test.name.clone(),
                        frames: 48_213,
                        accuracy,
                        loss: 4.0 - 5.0 * accuracy,
                    };
                    self.workers[0].measure(self.ctx(), lead, &figure).await;
                }
            }
        }
    }

    /// Raises the budget of a dataset of which something was released under the first one.
    pub(super) async fn raise_budget(&self) {
        self.set_budget(&self.speech[1], PrivacyUnit::Speaker, 8.0, 1e-6).await;
    }

    /// Replaces the key of the second organization's site, and sets a limit for automatic approval.
    pub(super) async fn change_key_and_set_limit(&mut self) {
        self.workers[1].rotate_key(&self.app.ctx).await;
        let epsilon = |epsilon| Epsilon::new(epsilon).expect("an epsilon");
        let new = NewApprovalLimit {
            epsilon: epsilon(1.5),
            total_epsilon: Some(epsilon(2.1)),
            kinds: vec!["dp_sgd".to_owned()],
            until: self.ctx().now() + Duration::days(60),
        };
        let ward = self.speech[1].id;
        let set = approval::limit_set(self.ctx(), &self.people.steward, ward, &new, &ExpectedVersion::Anything).await;
        set.expect("a steward may set a limit");
    }

    /// Runs a job for two rounds; its proposer, a steward and a site hold it.
    pub(super) async fn pause_training(&mut self) -> JobId {
        let joining = [0, 1, 2, 3];
        let job = self.propose("Elderly speakers, continued", Spec::DpSgd(self.training_spec(&joining, 40, 5.0))).await;
        let job = self.approve(job).await;
        let parts = self.begin_training(&job, &joining).await;
        self.play(&parts, "private", 1..=2).await;
        let id = job.summary.id;
        let reason = |reason: &str| PauseRequest { reason: reason.to_owned() };
        let rate = reason("the model's learning rate is being thought over");
        pause(self.ctx(), &self.people.researcher, id, &rate).await.expect("the proposer may pause");
        let disk = reason("the ward's disk is being replaced");
        let held = hold_dataset(self.ctx(), &self.people.steward, id, self.speech[2].id, &disk).await;
        held.expect("a steward may hold");
        let terminal = "the site's steward has to approve it at the site's terminal";
        self.workers[1].hold(self.ctx(), &parts[1].1, terminal).await;
        id
    }

    /// Runs a job for some rounds, until the third organization's worker is silent: the last round closed without it.
    pub(super) async fn run_training(&mut self) -> JobId {
        let joining = [0, 1, 2, 3];
        let mut spec = self.training_spec(&joining, 40, 5.0);
        if let Some(rounds) = &mut spec.private {
            rounds.quorum = 3;
        }
        let job = self.propose("Elderly speakers, three arms", Spec::DpSgd(spec.clone())).await;
        let job = self.approve(job).await;
        let mut parts = self.begin_training(&job, &joining).await;
        let begun = |phase| SiteEvent::Phase { phase };
        self.workers[1].log(&self.app.ctx, &parts[1].1, &[begun(Phase::Begun)]).await;
        self.workers[2].log(&self.app.ctx, &parts[3].1, &[begun(Phase::AwaitsSlot)]).await;
        self.play(&parts, "private", 1..=RUN_ROUNDS).await;
        for test in &spec.tests {
            for round in [0, RUN_ROUNDS] {
                let accuracy = 0.37 + 0.01 * f64::from(round);
                let figure = Measurement {
                    series: "private".to_owned(),
                    round,
                    test: test.name.clone(),
                    frames: 48_213,
                    accuracy,
                    loss: 2.0,
                };
                self.workers[0].measure(&self.app.ctx, &parts[0].1, &figure).await;
            }
        }
        let late = parts.pop().expect("four parts");
        self.play(&parts, "private", RUN_ROUNDS + 1..=RUN_ROUNDS + 1).await;
        let sent = SiteEvent::Sent { series: 0, round: RUN_ROUNDS + 1, repeated: false };
        self.workers[1].log(&self.app.ctx, &parts[1].1, &[sent]).await;
        self.app.clock.advance(Duration::minutes(11));
        let (worker, lead) = &parts[0];
        let is_closed = self.workers[*worker].fetch_average(&self.app.ctx, lead, "private", RUN_ROUNDS + 1).await;
        assert!(is_closed, "the quorum is there and the deadline is over");
        parts.push(late);
        self.running.extend(parts);
        undertone_server_core::service::notification::look(self.ctx()).await.expect("the jobs can be read");
        job.summary.id
    }

    /// Proposes a job that exceeds the total of the limit for automatic approval. The third organization's steward has
    /// approved it.
    pub(super) async fn propose_training(&self) -> JobId {
        self.move_to(datetime!(2026-11-20 18:00 UTC));
        let spec = self.training_spec(&[0, 1, 2, 3], 40, 5.0);
        let job = self.propose("Dysarthric speech, <b>second</b> try", Spec::DpSgd(spec)).await;
        let clinic = self.speech[3].id;
        let approved = approval::approve(self.ctx(), &self.people.other_steward, job.summary.id, clinic).await;
        approved.expect("a steward may approve").summary.id
    }

    /// Writes drafts as the steward: a complete one in its third version, an incomplete one, and one with questions.
    pub(super) async fn write_drafts(&self) -> [DraftId; 3] {
        let spec = Spec::DpSgd(self.training_spec(&[0, 1, 2, 3], 40, 10.0));
        let complete = NewDraft::from_spec("Dysarthric speech, third try", &spec).expect("a spec is JSON");
        let begun = NewDraft { title: String::new(), kind: "dp_sgd".to_owned(), spec: json!({}) };
        let questions = NewDraft::from_spec("What callers want", &self.question_spec()).expect("a spec is JSON");
        let mut ids = Vec::new();
        for new in [&questions, &begun, &complete] {
            let draft = draft_create(self.ctx(), &self.people.steward, self.people.consortium, new).await;
            ids.push(draft.expect("a researcher may write drafts"));
        }
        for _ in 0..2 {
            let last = ids.pop().expect("the complete draft");
            let next = draft_update(
                self.ctx(),
                &self.people.steward,
                last.id,
                &complete,
                Some(last.version),
                &ExpectedVersion::Anything,
            );
            ids.push(next.await.expect("the version is the last"));
        }
        let [questions, begun, complete] = <[_; 3]>::try_from(ids).expect("three drafts");
        [complete.id, begun.id, questions.id]
    }
}

/// Returns the lead's report on the training.
fn training_report(spec: &TrainingSpec) -> TrainingReport {
    let arm = |arm, rounds, accuracy: f64| ArmResult {
        arm,
        rounds,
        seconds: f64::from(rounds) * 88.0,
        tests: spec
            .tests
            .iter()
            .map(|test| TestResult {
                test: test.name.clone(),
                frames: 48_213,
                accuracy,
                loss: 2.21,
                macro_f1: Some(accuracy * 0.6),
                words: None,
            })
            .collect(),
    };
    TrainingReport {
        arms: vec![arm(Arm::Public, 10, 0.378), arm(Arm::Open, OPEN_ROUNDS, 0.492), arm(Arm::Private, ROUNDS, 0.452)],
        parameters: 2_001_200,
        ..TrainingReport::default()
    }
}

/// Returns the finding of an audit that disproves nothing.
fn finding() -> AuditFinding {
    let trial = |family, canaries, guesses| AuditTrial { family, canaries, guesses };
    AuditFinding {
        trials: vec![
            TrialResult { trial: trial(CanaryFamily::Direction, 1000, 500), correct: 261 },
            TrialResult { trial: trial(CanaryFamily::Recording, 100, 50), correct: 27 },
        ],
        attacks: [("public", 0.49, 0), ("open", 0.86, 21), ("private", 0.53, 1)].map(attack).into(),
    }
}

/// Makes an attack on a series' finished model, with its area and its number of found members.
fn attack((series, auc, members): (&str, f64, u32)) -> MembershipAttack {
    let point = |aimed, true_positives, false_positives| OperatingPoint { aimed, true_positives, false_positives };
    MembershipAttack {
        series: Some(series.to_owned()),
        method: if series == "public" { AttackMethod::LossThreshold } else { AttackMethod::LikelihoodRatio },
        members: 52,
        nonmembers: 48,
        auc,
        auc_interval: Some([auc - 0.08, (auc + 0.08).min(1.0)]),
        points: vec![point(0.001, members, 0), point(0.01, members + 1, 1)],
    }
}
