#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use sha2::{Digest as _, Sha256};
use undertone_api::freeze::ClearFreeze;
use undertone_api::job::audit::{Assessment, AuditFinding, AuditTrial, AuditVerdict, CanaryFamily, TrialResult};
use undertone_api::job::dp_sgd::{AuditOptions, Report as DpSgdReport, Spec};
use undertone_api::job::{Job, JobState, Report};
use undertone_api::problem::Code;
use undertone_api::signed::{AuditStatement, Signed};
use undertone_privacy::mechanism::EVALUATOR_VERSION;
use undertone_privacy::{Adjacency, Delta, Event, NoiseMultiplier, PrivacyUnit, SamplingRate};

use super::list;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::{audit, freeze as freezes};
use crate::service::finish::{PartOutcome, finish, finish_audited};
use crate::service::model::{self, ArtifactHeader};
use crate::service::world::TestConsortium;
use crate::service::{freeze, job as jobs};
use crate::testing::on_both;

const ROUNDS: u32 = 2;
const TRIAL: AuditTrial = AuditTrial { family: CanaryFamily::Direction, canaries: 400, guesses: 400 };

fn event() -> Event {
    Event::PoissonSampledGaussian {
        sampling_rate: SamplingRate::new(0.125).unwrap(),
        noise_multiplier: NoiseMultiplier::new(1.0).unwrap(),
    }
}

/// Returns a job of two rounds whose private parties promise four hundred guesses.
fn spec(world: &TestConsortium) -> Spec {
    let audit = Some(AuditOptions { canaries: TRIAL.canaries, guesses: TRIAL.guesses, recordings: 0 });
    Spec { audit, ..world.spec(ROUNDS) }
}

/// Returns every lease, after every round was paid and averaged.
async fn train_job(world: &mut TestConsortium) -> (Job, Vec<String>) {
    let job = world.propose(spec(world)).await.unwrap();
    let job = world.approved(job).await;
    let mut leases = Vec::new();
    for site in 0..world.sites.len() {
        leases.push(world.lease(site).await);
    }
    for round in 1..=ROUNDS {
        for (site, lease) in leases.iter().enumerate() {
            world.submit(&job, site, lease, round, &[1.0]).await.unwrap();
        }
    }
    (job, leases)
}

fn new_statement(world: &TestConsortium, job: &Job, site: usize, correct: u32) -> AuditStatement {
    let finding = AuditFinding { trials: vec![TrialResult { trial: TRIAL, correct }], attacks: Vec::new() };
    let delta = Delta::new(1e-6).unwrap();
    let assessment = Assessment::assess(&finding.trials, &event(), Adjacency::ZeroOut, ROUNDS.into(), delta).unwrap();
    AuditStatement {
        worker: world.sites[site].worker,
        job: job.summary.id,
        dataset: world.sites[site].dataset,
        lineage: world.sites[site].lineage,
        manifest: job.manifest.clone(),
        series: "private".to_owned(),
        unit: PrivacyUnit::Record,
        adjacency: Adjacency::ZeroOut,
        event: event(),
        releases: ROUNDS.into(),
        finding,
        assessment,
        evaluator: EVALUATOR_VERSION.to_owned(),
        at: time::OffsetDateTime::UNIX_EPOCH,
    }
}

async fn end(
    world: &TestConsortium,
    site: usize,
    lease: &str,
    report: Option<Report>,
    statement: Option<&AuditStatement>,
) -> Result<(), Error> {
    let signed = statement.map(|statement| Signed::new(statement, &world.sites[site].key).unwrap());
    let outcome = PartOutcome::Done(report);
    finish_audited(&world.ctx, world.sites[site].worker, lease, &outcome, signed.as_ref(), &[]).await.map(drop)
}

fn report() -> Report {
    Report::DpSgd(DpSgdReport { parameters: 7, ..DpSgdReport::default() })
}

async fn put(ctx: &Ctx, world: &TestConsortium, lease: &str) -> undertone_api::id::ArtifactId {
    let content = b"a model";
    let header = ArtifactHeader {
        lease: lease.to_owned(),
        name: "model.safetensors".to_owned(),
        size: content.len() as u64,
        digest: hex::encode(Sha256::digest(content)),
    };
    let mut incoming = model::begin(ctx, world.sites[0].worker, header).await.unwrap();
    incoming.write(content).await.unwrap();
    incoming.accept(ctx).await.unwrap()
}

async fn count_rows(ctx: &Ctx) -> (usize, usize) {
    use sea_orm::EntityTrait as _;
    let audits = audit::Entity::find().all(ctx.db.read()).await.unwrap().len();
    (audits, freezes::Entity::find().all(ctx.db.read()).await.unwrap().len())
}

on_both! {
    async fn files_are_released_when_every_audit_has_arrived(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let (job, leases) = train_job(&mut world).await;
        let file = put(&app.ctx, &world, &leases[0]).await;
        let researcher = &world.sites[0].steward;
        let refused = model::take(&app.ctx, researcher, file).await.unwrap_err();
        assert_eq!(refused.code(), Code::Withheld, "while it runs");
        assert!(model::list(&app.ctx, researcher, job.summary.id).await.unwrap().is_empty());

        end(&world, 0, &leases[0], Some(report()), None).await.unwrap();
        let none = end(&world, 1, &leases[1], None, None).await.unwrap_err();
        assert_eq!(none.code(), Code::ValidationFailed, "the audit is missing");
        for site in [1, 2] {
            assert_eq!(world.job(job.summary.id).await.summary.state, JobState::Running);
            let statement = new_statement(&world, &job, site, 205);
            end(&world, site, &leases[site], None, Some(&statement)).await.unwrap();
        }
        assert_eq!(world.job(job.summary.id).await.summary.state, JobState::Finished);
        assert_eq!(model::list(&app.ctx, researcher, job.summary.id).await.unwrap().len(), 1);
        model::take(&app.ctx, researcher, file).await.unwrap();
        let views = list(&app.ctx, researcher, job.summary.id).await.unwrap();
        assert_eq!(views.len(), 2);
        assert!(views.iter().all(|view| view.verdict == AuditVerdict::Consistent), "{views:?}");
        let ours = views[0].assessment;
        assert_eq!(ours.delta, Delta::new(1e-5).unwrap(), "that of the consortium's account");
        assert!(ours.claim < views[0].statement.assessment.claim, "a larger δ promises a smaller ε");
        assert_eq!(count_rows(&app.ctx).await, (2, 0));
    }

    async fn disproved_claim_fails_job_and_freezes_account(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let (job, leases) = train_job(&mut world).await;
        let file = put(&app.ctx, &world, &leases[0]).await;
        let broken = new_statement(&world, &job, 1, 400);
        assert_eq!(broken.assessment.verdict, AuditVerdict::Disproved);
        end(&world, 1, &leases[1], None, Some(&broken)).await.unwrap();

        let failed = world.job(job.summary.id).await;
        assert_eq!(failed.summary.state, JobState::Failed);
        assert!(failed.reason.is_some_and(|reason| reason.contains("measured at least ε")));
        let researcher = &world.sites[0].steward;
        let refused = model::take(&app.ctx, researcher, file).await.unwrap_err();
        assert_eq!(refused.code(), Code::Withheld);
        assert!(model::list(&app.ctx, researcher, job.summary.id).await.unwrap().is_empty());
        let worker = world.sites[2].worker;
        let fetched = model::fetch(&app.ctx, worker, &leases[2], "model.safetensors", 0).await.unwrap_err();
        assert_eq!(fetched.code(), Code::LeaseLost, "nor by a participant");
        let views = list(&app.ctx, &world.sites[2].steward, job.summary.id).await.unwrap();
        assert_eq!((views.len(), views[0].verdict), (1, AuditVerdict::Disproved));
        let key = world.sites[1].key.verifying_key();
        assert_eq!(views[0].signed.open::<AuditStatement>(&key).unwrap(), broken, "the evidence is kept");

        let plain = || world.spec(1);
        let frozen = world.propose(plain()).await.unwrap_err().into_problem();
        assert_eq!(frozen.code, Code::AccountFrozen);
        assert!(frozen.detail.contains("measured at least"), "{}", frozen.detail);
        let mut without = plain();
        without.participants.remove(1);
        assert!(world.propose(without).await.is_ok(), "others go on");

        let (dataset, steward) = (world.sites[1].dataset, &world.sites[1].steward);
        let word = |reason: &str| ClearFreeze { reason: reason.to_owned() };
        let mended = word("the noise was compiled out; rebuilt and checked");
        let stranger = freeze::clear(&app.ctx, &world.sites[2].steward, dataset, &mended).await.unwrap_err();
        assert!(matches!(stranger.code(), Code::Forbidden | Code::NotFound));
        let empty = freeze::clear(&app.ctx, steward, dataset, &word("ok")).await.unwrap_err();
        assert_eq!(empty.code(), Code::ValidationFailed);
        freeze::clear(&app.ctx, steward, dataset, &mended).await.unwrap();
        let again = freeze::clear(&app.ctx, steward, dataset, &mended).await.unwrap_err();
        assert_eq!(again.code(), Code::WrongState);
        let history = freeze::list(&app.ctx, steward, dataset).await.unwrap();
        assert_eq!(history.iter().map(|row| row.frozen).collect::<Vec<_>>(), [false, true]);
        assert!(world.propose(plain()).await.is_ok());
        assert_eq!(model::take(&app.ctx, researcher, file).await.unwrap_err().code(), Code::Withheld, "for good");
    }

    async fn job_proposed_before_freeze_reserves_nothing_after_it(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let (job, leases) = train_job(&mut world).await;
        let waiting = world.propose(world.spec(1)).await.unwrap();
        let broken = new_statement(&world, &job, 1, 400);
        end(&world, 1, &leases[1], None, Some(&broken)).await.unwrap();
        let (one, two) = (&world.sites[1], &world.sites[2]);
        crate::service::approval::approve(&app.ctx, &two.steward, waiting.summary.id, two.dataset).await.unwrap();
        let refused = crate::service::approval::approve(&app.ctx, &one.steward, waiting.summary.id, one.dataset).await;
        assert_eq!(refused.unwrap_err().code(), Code::AccountFrozen);
        assert_eq!(world.job(waiting.summary.id).await.summary.state, JobState::Proposed);
    }

    async fn a_lying_statement_is_refused_and_nothing_of_it_is_kept(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let (job, leases) = train_job(&mut world).await;
        type Lie = fn(&mut AuditStatement);
        let lies: [(&str, Lie); 11] = [
            ("fewer releases", |s| s.releases = 1),
            ("more releases", |s| s.releases = 1_000_000_000),
            ("more right guesses than guesses", |s| s.finding.trials[0].correct = 401),
            ("fewer guesses than promised", |s| s.finding.trials[0].trial.guesses = 100),
            ("other canaries than promised", |s| s.finding.trials[0].trial.canaries = 500),
            ("no trial at all", |s| s.finding.trials.clear()),
            ("another manifest", |s| s.manifest = "another".to_owned()),
            ("another event", |s| s.event = Event::NonPrivate),
            ("a larger claim than was made", |s| s.assessment.tight *= 2.0),
            ("a smaller measurement than the counts say", |s| s.assessment.blocking = 0.1),
            ("another verdict than the counts say", |s| s.assessment.verdict = AuditVerdict::Consistent),
        ];
        for (what, lie) in lies {
            let mut statement = new_statement(&world, &job, 1, 400);
            lie(&mut statement);
            let refused = end(&world, 1, &leases[1], None, Some(&statement)).await.unwrap_err();
            assert_eq!(refused.code(), Code::ValidationFailed, "{what}");
        }
        let forged = Signed::new(&new_statement(&world, &job, 1, 205), &world.sites[0].key).unwrap();
        let (worker, done) = (world.sites[1].worker, PartOutcome::Done(None));
        let refused = finish_audited(&app.ctx, worker, &leases[1], &done, Some(&forged), &[]).await.unwrap_err();
        assert_eq!(refused.code(), Code::BadSignature);
        assert_eq!(count_rows(&app.ctx).await, (0, 0));
        assert_eq!(world.job(job.summary.id).await.summary.state, JobState::Running);
    }

    async fn a_participant_that_gives_up_without_its_audit_ends_the_job(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let (job, leases) = train_job(&mut world).await;
        end(&world, 0, &leases[0], Some(report()), None).await.unwrap();
        let gave_up = PartOutcome::GaveUp("the disk is full".to_owned());
        finish(&app.ctx, world.sites[1].worker, &leases[1], &gave_up, &[]).await.unwrap();
        assert_eq!(world.job(job.summary.id).await.summary.state, JobState::Failed, "two of three would be a quorum");
    }

    async fn late_audit_statement_is_stored_and_freezes(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let (job, leases) = train_job(&mut world).await;
        jobs::cancel(&app.ctx, &world.sites[0].steward, job.summary.id).await.unwrap();
        let broken = new_statement(&world, &job, 1, 400);
        end(&world, 1, &leases[1], None, Some(&broken)).await.unwrap();
        end(&world, 1, &leases[1], None, Some(&broken)).await.unwrap();
        assert_eq!(count_rows(&app.ctx).await, (1, 1), "once");
        assert_eq!(world.job(job.summary.id).await.summary.state, JobState::Cancelled);
        assert_eq!(world.propose(world.spec(1)).await.unwrap_err().code(), Code::AccountFrozen);
    }

    async fn an_unasked_statement_is_refused(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let job = world.queued(ROUNDS).await;
        let (_, lease) = (world.lease(0).await, world.lease(1).await);
        let statement = new_statement(&world, &job, 1, 205);
        let refused = end(&world, 1, &lease, None, Some(&statement)).await.unwrap_err();
        assert_eq!(refused.code(), Code::ValidationFailed);
    }

    async fn the_evidence_is_append_only(app: &TestApp) {
        use sea_orm::ConnectionTrait as _;
        let mut world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let (job, leases) = train_job(&mut world).await;
        let broken = new_statement(&world, &job, 1, 400);
        end(&world, 1, &leases[1], None, Some(&broken)).await.unwrap();
        for change in [
            "UPDATE audit SET verdict = 'consistent'",
            "DELETE FROM audit",
            "UPDATE account_freeze SET reason = ''",
            "DELETE FROM account_freeze",
        ] {
            let result = app.ctx.db.write("test", async |tx| Ok(tx.execute_unprepared(change).await?)).await;
            assert!(result.is_err(), "{change}");
        }
    }
}
