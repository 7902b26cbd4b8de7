//! The stages of a job with questions.

use sea_orm::ConnectionTrait as _;
use undertone_api::dataset::Visibility;
use undertone_api::job::JobState;
use undertone_api::job::active_learning::{PRIVATE_TEST, TRAINING};
use undertone_api::problem::Code;
use undertone_api::signed::certificate::FigureMethod;
use undertone_certificate::{TrustedInputs, verify};

use crate::service::finish::PartOutcome;
use crate::service::world::poll::QuestionJob;
use crate::service::{certificate, job, question, report, round};
use crate::testing::on_both;

on_both! {
    async fn a_job_that_asks_finishes_with_certificate_and_report_and_its_pools_go(app: &TestApp) {
        let poll = QuestionJob::pooled(&app.ctx, 1).await;
        poll.chooses(1, &[poll.id(1, "a")]).await.unwrap();
        let steward = &poll.world.sites[1].steward;
        let progress = job::progress(&app.ctx, steward, poll.job.summary.id).await.unwrap();
        assert_eq!(progress.now, "round 1 of 3: 0 of 1 questions are answered");
        poll.says(&poll.annotator(), poll.id(1, "a"), "what").await.unwrap();
        let job = poll.finish().await;
        assert_eq!((job.summary.state, job.summary.rounds_done, job.summary.rounds), (JobState::Finished, 1, 3), "the lead ends when it has enough");
        let account = poll.world.account(1).await;
        assert!(account.spent > 0.0 && account.committed == account.spent, "nothing stays reserved");

        let certificate = certificate::get(&app.ctx, steward, job.summary.id).await.unwrap();
        assert_eq!(certificate.parties[0].charged, None, "the lead's data are public");
        let charge = certificate.parties[1].charged.as_ref().unwrap();
        assert_eq!((charge.releases.committed, charge.releases.counted), (1, 1));
        assert_eq!(charge.mechanism.event, poll.charge(1).event);
        assert_eq!(charge.renyi.unwrap().method, FigureMethod::Renyi);
        let file = certificate::file(&app.ctx, steward, job.summary.id).await.unwrap();
        let keys = TrustedInputs { server_key: Some(app.ctx.signer.verifying_key()), ..TrustedInputs::default() };
        let verdict = verify(&file, &keys);
        assert!(verdict.holds(), "{verdict}");
        let report = report::get(&app.ctx, steward, job.summary.id).await.unwrap();
        assert_eq!((report.privacy.len(), report.outcome), (2, job.report));

        let pools = app.data_dir().join("objects/pools").join(job.summary.id.to_string());
        assert_eq!(std::fs::read_dir(pools).into_iter().flatten().count(), 0, "what was not asked is kept nowhere");
        let late = poll.says(&poll.annotator(), poll.id(1, "a"), "what").await.unwrap_err();
        assert_eq!(late.code(), Code::RoundClosed);
        assert_eq!(question::asking(&app.ctx, steward, poll.world.consortium).await.unwrap().len(), 1);
    }

    async fn a_private_test_set_pays_for_each_measurement_that_the_lead_reads(app: &TestApp) {
        let mut poll = Box::pin(QuestionJob::measured_privately(&app.ctx, Visibility::Public)).await;
        let charge = poll.charge(2);
        assert_eq!((charge.releases, poll.charge(1).releases), (2, 1));
        poll.asks(1, &["a", "b"]).await.unwrap();
        poll.pools().await.unwrap();
        let unpaid = poll.sends_vector(2, PRIVATE_TEST, 1, Vec::new()).await;
        assert!(unpaid.is_err(), "unpaid histograms are refused");
        let read = async |poll: &QuestionJob, site: usize| {
            let (worker, lease) = (poll.world.sites[site].worker, poll.leases[site].clone());
            round::average(&app.ctx, worker, &lease, PRIVATE_TEST, 1, 0).await
        };
        assert_eq!(read(&poll, 0).await.unwrap(), None, "nothing was measured yet");
        let receipt = poll.receipt_in(2, PRIVATE_TEST, 1);
        poll.sends_vector(2, PRIVATE_TEST, 1, vec![receipt]).await.unwrap();
        assert!(read(&poll, 0).await.unwrap().is_some(), "the lead contributes nothing, and reads the result");
        assert!(read(&poll, 2).await.unwrap().is_some(), "as the test set's site does");
        assert_eq!(read(&poll, 1).await.unwrap_err().code(), Code::ValidationFailed, "and no other site");
        let job = poll.finish().await;
        assert_eq!(job.summary.state, JobState::Finished, "the lead ended before the second measurement");
        let account = poll.world.account(2).await;
        assert!(account.spent > 0.0 && account.committed == account.spent, "the other measurement is returned");
    }

    async fn a_private_test_set_measures_between_the_trainings_of_a_private_lead(app: &TestApp) {
        let mut poll = Box::pin(QuestionJob::measured_privately(&app.ctx, Visibility::Private)).await;
        let receipt = poll.receipt_in(0, TRAINING, 1);
        poll.trains(1, vec![receipt]).await.unwrap();
        let receipt = poll.receipt_in(2, PRIVATE_TEST, 1);
        poll.sends_vector(2, PRIVATE_TEST, 1, vec![receipt]).await.unwrap();
        let receipt = poll.receipt_in(0, TRAINING, 2);
        poll.trains(2, vec![receipt]).await.unwrap();
    }

    async fn a_private_lead_pays_for_each_training_and_is_certified(app: &TestApp) {
        let mut poll = Box::pin(QuestionJob::led_privately(&app.ctx)).await;
        let charge = poll.charge(0);
        assert_eq!(charge.releases, 4, "before the first of three rounds, and after each");
        poll.asks(1, &["a", "b"]).await.unwrap();
        poll.asks(2, &["c"]).await.unwrap();
        poll.pools().await.unwrap();
        assert!(poll.trains(1, Vec::new()).await.is_err(), "an unpaid classifier is refused");
        let receipt = poll.receipt_in(0, TRAINING, 1);
        poll.trains(1, vec![receipt]).await.unwrap();
        let (worker, lease) = (poll.world.sites[0].worker, &poll.leases[0]);
        let mean = round::average(&app.ctx, worker, lease, TRAINING, 1, 0).await.unwrap();
        assert!(mean.is_some(), "the one vector closes the round");
        poll.chooses(1, &[poll.id(1, "a")]).await.unwrap();
        let steward = poll.world.sites[1].steward.clone();
        let progress = job::progress(&app.ctx, &steward, poll.job.summary.id).await.unwrap();
        assert_eq!(progress.now, "round 1 of 3: 0 of 1 questions are answered", "and not the open training");
        poll.says(&poll.annotator(), poll.id(1, "a"), "what").await.unwrap();
        assert_eq!(poll.answers(1).await.unwrap().len(), 1);
        let receipt = poll.receipt_in(0, TRAINING, 2);
        poll.trains(2, vec![receipt]).await.unwrap();
        let job = poll.finish().await;
        assert_eq!(job.summary.state, JobState::Finished);
        let account = poll.world.account(0).await;
        assert!(account.spent > 0.0 && account.committed == account.spent, "nothing stays reserved");
        let certificate = certificate::get(&app.ctx, &steward, job.summary.id).await.unwrap();
        let charged = certificate.parties[0].charged.as_ref().unwrap();
        assert_eq!((charged.releases.committed, charged.releases.counted), (2, 4));
        assert_eq!(charged.mechanism.event, charge.event);
        let file = certificate::file(&app.ctx, &steward, job.summary.id).await.unwrap();
        let keys = TrustedInputs { server_key: Some(app.ctx.signer.verifying_key()), ..TrustedInputs::default() };
        let verdict = verify(&file, &keys);
        assert!(verdict.holds(), "{verdict}");
    }

    async fn a_job_that_nobody_can_ask_in_any_more_fails_and_gives_back_what_it_held(app: &TestApp) {
        let poll = QuestionJob::new(&app.ctx, 1).await;
        for (site, state) in [(1, JobState::Running), (2, JobState::Failed)] {
            poll.end(site, PartOutcome::GaveUp("the log is damaged".to_owned())).await;
            assert_eq!(poll.world.job(poll.job.summary.id).await.summary.state, state);
        }
        assert_eq!(poll.world.account(1).await.spent, 0.0);
    }

    async fn a_job_with_a_pool_goes_on_when_all_sites_have_left(app: &TestApp) {
        let mut poll = QuestionJob::new(&app.ctx, 1).await;
        poll.asks(1, &["a"]).await.unwrap();
        for site in [1, 2] {
            poll.end(site, PartOutcome::GaveUp("the disk is full".to_owned())).await;
        }
        assert_eq!(poll.pools().await.unwrap().pools.len(), 1);
        assert!(!poll.chooses(1, &[poll.id(1, "a")]).await.unwrap());
    }

    async fn a_server_that_starts_again_goes_on_where_it_was(app: &TestApp) {
        let mut poll = QuestionJob::pooled(&app.ctx, 1).await;
        let (a, d) = (poll.id(1, "a"), poll.id(2, "d"));
        poll.chooses(1, &[d, a]).await.unwrap();
        let one = poll.annotator();
        poll.says(&one, d, "what").await.unwrap();
        let before = poll.pools().await;
        let again = app.restarted().await;
        poll.world.ctx = again.clone();
        assert_eq!(poll.pools().await, before);
        assert!(poll.chooses(1, &[d, a]).await.unwrap());
        poll.says(&one, a, "when").await.unwrap();
        assert_eq!(poll.answers(1).await.unwrap().len(), 2);
        again.shutdown.cancel();
        again.db.clone().close().await.unwrap();
    }

    async fn what_was_asked_and_answered_cannot_be_changed(app: &TestApp) {
        let poll = QuestionJob::pooled(&app.ctx, 1).await;
        poll.chooses(1, &[poll.id(1, "a"), poll.id(1, "b")]).await.unwrap();
        let one = poll.annotator();
        poll.says(&one, poll.id(1, "a"), "what").await.unwrap();
        question::take_back(&app.ctx, &one, poll.id(1, "a")).await.unwrap();
        for table in ["pool", "question", "annotator", "annotation", "undo"] {
            let deleted = format!("DELETE FROM {table}");
            let refused = app.ctx.db.write("test", async |tx| Ok(tx.execute_unprepared(&deleted).await?)).await;
            let crate::error::Error::Database(error) = refused.unwrap_err() else { panic!("{table}") };
            assert!(error.to_string().contains(&format!("{table} is append-only")), "{error}");
        }
    }
}
