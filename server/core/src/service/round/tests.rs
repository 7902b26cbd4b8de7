#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]
#![expect(clippy::float_cmp, reason = "means of small whole numbers are exact")]

use ed25519_dalek::SigningKey;
use time::Duration;
use undertone_api::job::JobState;
use undertone_api::problem::Code;

use super::close::AT_WORK;
use super::{VectorHeader, begin, received};
use crate::db::PATIENCE;
use crate::exchange::object::digest;
use crate::service::finish::{Outcome, finish};
use crate::service::job;
use crate::service::lease;
use crate::service::world::TestConsortium;
use crate::testing::on_both;

on_both! {
    async fn vector_beyond_the_norm_of_honest_ones_is_refused(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.queued(1).await;
        let leases = [world.lease(0).await, world.lease(1).await, world.lease(2).await];
        let receipt = world.sites[1].receipt(&job, 1, 1);
        let refused = world.submit_with(1, &leases[1], 1, &[1e38], vec![receipt.clone()]).await.unwrap_err().into_problem();
        assert_eq!((refused.code, &*refused.violations[0].field), (Code::ValidationFailed, "data"));
        assert!(refused.violations[0].message.contains("L2 norm is 1.0000e38"), "{}", refused.violations[0].message);
        world.submit(&job, 0, &leases[0], 1, &[1.0]).await.unwrap();
        world.submit(&job, 2, &leases[2], 1, &[2.0]).await.unwrap();
        assert_eq!(world.average(0, &leases[0], 1).await, None, "it waits for another vector of the refused site");
        world.submit_with(1, &leases[1], 1, &[3.0], vec![receipt]).await.unwrap();
        assert_eq!(world.average(0, &leases[0], 1).await, Some(vec![2.0]));
    }

    async fn a_round_closes_when_all_have_submitted_and_gives_the_mean(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.queued(2).await;
        let leases = [world.lease(0).await, world.lease(1).await, world.lease(2).await];
        for (site, vector) in [(2, [6.0, 0.0]), (0, [0.0, 3.0])] {
            world.submit(&job, site, &leases[site], 1, &vector).await.unwrap();
            assert_eq!(world.average(0, &leases[0], 1).await, None);
        }
        world.submit(&job, 1, &leases[1], 1, &[3.0, -3.0]).await.unwrap();
        for (site, lease) in leases.iter().enumerate() {
            assert_eq!(world.average(site, lease, 1).await, Some(vec![3.0, 0.0]));
        }
        let files: Vec<_> = std::fs::read_dir(app.data_dir().join("objects/submissions")).into_iter().flatten()
            .flat_map(|job| walk(&job.unwrap().path())).collect();
        assert!(files.is_empty(), "vectors go when their mean is made: {files:?}");
        assert_eq!(world.job(job.summary.id).await.summary.rounds_done, 1);
    }

    async fn the_vectors_of_a_job_go_when_it_is_over_and_not_before(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        for cancelled in [true, false] {
            let job = world.queued(2).await;
            let leases = [world.lease(0).await, world.lease(1).await, world.lease(2).await];
            for (site, lease) in leases.iter().enumerate() {
                world.submit(&job, site, lease, 1, &[5.0]).await.unwrap();
            }
            world.submit(&job, 1, &leases[1], 2, &[2.0]).await.unwrap();
            let count_files = || {
                ["averages", "submissions"].map(|place| {
                    walk(&app.data_dir().join("objects").join(place).join(job.summary.id.to_string())).len()
                })
            };
            assert_eq!(count_files(), [1, 1]);
            assert_eq!(world.average(2, &leases[2], 1).await, Some(vec![5.0]), "who is at work still fetches");
            let gave_up = Outcome::GaveUp("the lead has lost its data".to_owned());
            if cancelled {
                job::cancel(&app.ctx, &world.sites[0].steward, job.summary.id).await.unwrap();
            } else {
                finish(&app.ctx, world.sites[0].worker, &leases[0], &gave_up, &[]).await.unwrap();
            }
            assert_eq!(count_files(), [0, 0]);
            // Running workers finish their parts of this job; until then they are offered it, not the next one.
            for (site, lease) in leases.iter().enumerate() {
                finish(&app.ctx, world.sites[site].worker, lease, &gave_up, &[]).await.unwrap();
            }
            let account = world.account(1).await;
            assert_eq!(account.committed, account.spent, "nothing stays reserved");
        }
    }

    async fn what_a_server_that_died_left_of_a_job_goes_at_the_next_start(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let over = world.queued(2).await;
        // Work is offered in the order of the proposals, which must not share a millisecond.
        app.clock.advance(Duration::seconds(1));
        let running = world.queued(2).await;
        let lease = world.lease(1).await;
        world.submit(&over, 1, &lease, 1, &[1.0]).await.unwrap();
        job::cancel(&app.ctx, &world.sites[0].steward, over.summary.id).await.unwrap();
        let place = |job: &undertone_api::job::Job| app.data_dir().join("objects/averages").join(job.summary.id.to_string());
        for job in [&over, &running] {
            std::fs::create_dir_all(place(job)).unwrap();
            std::fs::write(place(job).join("1-left"), [0; 4]).unwrap();
        }
        let again = app.restarted().await;
        assert_eq!((walk(&place(&over)).len(), walk(&place(&running)).len()), (0, 1));
        again.shutdown.cancel();
        again.db.clone().close().await.unwrap();
    }

    async fn the_same_vector_again_counts_once_and_another_is_refused(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.queued(1).await;
        let lease = world.lease(1).await;
        let receipt = world.sites[1].receipt(&job, 1, 1);
        assert!(!world.submit_with(1, &lease, 1, &[1.0, 2.0], vec![receipt.clone()]).await.unwrap());
        let spent = world.account(1).await.spent;
        assert!(world.submit_with(1, &lease, 1, &[1.0, 2.0], vec![receipt]).await.unwrap(), "repeated");
        assert!(world.submit_with(1, &lease, 1, &[1.0, 2.0], vec![]).await.unwrap(), "repeated");
        let other = world.submit_with(1, &lease, 1, &[1.0, 2.5], vec![]).await.unwrap_err();
        assert_eq!(other.code(), Code::AlreadyExists);
        assert_eq!(world.account(1).await.spent, spent);
        assert_eq!(world.job(job.summary.id).await.participants[1].releases, 1);
    }

    /// All other writes wait during these statements.
    async fn a_vector_and_the_close_of_a_round_are_written_in_as_many_statements_however_many_take_part(app: &TestApp) {
        let timings = app.ctx.db.timings();
        let mut written = Vec::new();
        for private in [2, 6] {
            let mut world = TestConsortium::new(&app.ctx, private, 50.0).await;
            let job = world.queued(2).await;
            let mut leases = Vec::new();
            for site in 0..=private {
                leases.push(world.lease(site).await);
            }
            let (mut vectors, closes) = (Vec::new(), timings.statements("close round"));
            for (site, lease) in leases.iter().enumerate() {
                let before = timings.statements("accept submission");
                world.submit(&job, site, lease, 1, &[1.0]).await.unwrap();
                vectors.push(timings.statements("accept submission") - before);
            }
            assert_eq!(world.job(job.summary.id).await.summary.rounds_done, 1);
            let (paid, close) = (vectors[2], timings.statements("close round") - closes);
            assert!(vectors[2..].iter().all(|statements| *statements == paid), "{vectors:?}");
            assert!((1..=20).contains(&paid) && (1..=20).contains(&close), "{paid}, {close}");
            written.push((paid, close));
        }
        assert_eq!(written[0], written[1]);
    }

    async fn who_does_not_send_the_last_vector_waits_for_no_mean_of_others(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.queued(1).await;
        let leases = [world.lease(0).await, world.lease(1).await, world.lease(2).await];
        let others = AT_WORK.lock().await;
        for (site, lease) in leases[..2].iter().enumerate() {
            let submission = tokio::time::timeout(PATIENCE, world.submit(&job, site, lease, 1, &[4.0])).await;
            assert!(!submission.expect("it does not wait").unwrap());
            let average = tokio::time::timeout(PATIENCE, world.average(site, lease, 1)).await;
            assert_eq!(average.expect("nor does who asks for the mean"), None);
        }
        drop(others);
        world.submit(&job, 2, &leases[2], 1, &[1.0]).await.unwrap();
        assert_eq!(world.average(0, &leases[0], 1).await, Some(vec![3.0]));
    }

    async fn a_round_whose_deadline_passed_closes_with_its_quorum_and_not_without(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.queued(2).await;
        let leases = [world.lease(0).await, world.lease(1).await, world.lease(2).await];
        world.submit(&job, 1, &leases[1], 1, &[1.0]).await.unwrap();
        app.clock.advance(Duration::seconds(61));
        assert_eq!(world.average(1, &leases[1], 1).await, None, "the quorum is 2");
        let progress = job::progress(&app.ctx, &world.sites[0].steward, job.summary.id).await.unwrap();
        let late: Vec<_> = progress.rounds[0].submissions.iter().map(|submission| submission.late).collect();
        assert_eq!(late, [true, false, true]);
        assert!(progress.now.contains("past its deadline"), "{}", progress.now);

        world.submit(&job, 0, &leases[0], 1, &[3.0]).await.unwrap();
        assert_eq!(world.average(1, &leases[1], 1).await, Some(vec![2.0]));
        let before = world.account(2).await.spent;
        let late = world.submit(&job, 2, &leases[2], 1, &[9.0]).await.unwrap_err();
        assert_eq!(late.code(), Code::RoundClosed);
        assert!(world.account(2).await.spent > before, "what was paid is counted, though it came too late");
        assert_eq!(world.average(2, &leases[2], 1).await, Some(vec![2.0]), "and the mean stays what it was");
    }

    async fn a_round_that_is_not_open_and_a_vector_of_another_length_are_refused(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.queued(2).await;
        let leases = [world.lease(0).await, world.lease(1).await];
        let early = world.submit_with(0, &leases[0], 2, &[1.0], vec![]).await.unwrap_err();
        assert_eq!(early.code(), Code::NotReady);
        world.submit(&job, 1, &leases[1], 1, &[1.0, 2.0]).await.unwrap();
        let longer = world.submit_with(0, &leases[0], 1, &[1.0, 2.0, 3.0], vec![]).await.unwrap_err();
        assert_eq!(longer.code(), Code::ValidationFailed);
        let beyond = world.submit_with(0, &leases[0], 3, &[1.0], vec![]).await.unwrap_err();
        assert_eq!(beyond.code(), Code::ValidationFailed);
        let infinite = world.submit_with(0, &leases[0], 1, &[1.0, f32::INFINITY], vec![]).await.unwrap_err();
        assert_eq!(infinite.code(), Code::ValidationFailed);
    }

    async fn a_vector_that_no_receipt_pays_for_is_refused(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        world.queued(1).await;
        let lease = world.lease(1).await;
        let unpaid = world.submit_with(1, &lease, 1, &[1.0], vec![]).await.unwrap_err();
        assert_eq!(unpaid.code(), Code::BadSignature);
        assert_eq!(world.account(1).await.spent, 0.0);
    }

    async fn a_forged_a_foreign_and_an_unchained_receipt_are_refused_and_count_nothing(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.queued(2).await;
        let lease = world.lease(1).await;
        let honest = world.sites[1].key.clone();
        let (sequence, head) = (world.sites[1].sequence, world.sites[1].head.clone());

        world.sites[1].key = SigningKey::from_bytes(&[9; 32]);
        let forged = world.sites[1].receipt(&job, 1, 1);
        world.sites[1].key = honest;
        (world.sites[1].sequence, world.sites[1].head) = (sequence, head.clone());
        let foreign = world.sites[2].receipt(&job, 1, 1);
        let _skipped = world.sites[1].receipt(&job, 1, 1);
        let unchained = world.sites[1].receipt(&job, 1, 2);
        (world.sites[1].sequence, world.sites[1].head) = (sequence, head);
        let beyond = world.sites[1].receipt(&job, 3, 1);
        for (name, receipt) in [("forged", forged), ("foreign", foreign), ("unchained", unchained), ("beyond", beyond)] {
            let refused = world.submit_with(1, &lease, 1, &[1.0], vec![receipt]).await.unwrap_err();
            assert_eq!(refused.code(), Code::BadSignature, "{name}");
        }
        assert_eq!(world.account(1).await.spent, 0.0);
        assert_eq!(world.average(1, &lease, 1).await, None);
    }

    async fn a_second_receipt_of_one_number_betrays_a_forked_ledger(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.queued(2).await;
        let lease = world.lease(1).await;
        let (sequence, head) = (world.sites[1].sequence, world.sites[1].head.clone());
        world.submit(&job, 1, &lease, 1, &[1.0]).await.unwrap();
        (world.sites[1].sequence, world.sites[1].head) = (sequence, head);
        let fork = world.sites[1].receipt(&job, 2, 1);
        let refused = world.submit_with(1, &lease, 1, &[1.0], vec![fork]).await.unwrap_err();
        assert_eq!(refused.code(), Code::BadSignature);
    }

    async fn an_attempt_whose_vector_another_attempt_has_brought_in_is_told_to_ask_again(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.queued(1).await;
        let lease = world.lease(1).await;
        let receipt = world.sites[1].receipt(&job, 1, 1);
        let (worker, data) = (world.sites[1].worker, 1.0_f32.to_le_bytes());
        let header = |offset, receipts| VectorHeader {
            lease: lease.clone(),
            series: "private".to_owned(),
            round: 1,
            receipts,
            length: 1,
            digest: digest(&data),
            size: 4,
            offset,
        };
        // The connection breaks, the worker returns, and the upload of the first connection continues to its end.
        let mut first = begin(&app.ctx, worker, header(0, vec![receipt])).await.unwrap();
        first.write(&data[..3]).await.unwrap();
        first.keep().await.unwrap();
        let mut second = begin(&app.ctx, worker, header(3, vec![])).await.unwrap();
        first.write(&data[3..]).await.unwrap();
        assert!(!first.accept(&app.ctx).await.unwrap().repeated);
        second.write(&data[3..]).await.unwrap();
        // A worker treats this as temporary.
        assert_eq!(second.accept(&app.ctx).await.expect_err("it is gone").code(), Code::Unavailable);
        assert_eq!(received(&app.ctx, worker, &lease, "private", 1, &digest(&data)).await.unwrap(), u64::MAX);
        let third = begin(&app.ctx, worker, header(4, vec![])).await.unwrap();
        assert!(third.accept(&app.ctx).await.unwrap().repeated);
    }

    async fn a_new_lease_ends_the_one_before_it(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.queued(1).await;
        let old = world.lease(1).await;
        let new = world.lease(1).await;
        let worker = world.sites[1].worker;
        assert_eq!(lease::renew(&app.ctx, worker, &old).await.unwrap_err().code(), Code::LeaseLost);
        let fenced = world.submit(&job, 1, &old, 1, &[1.0]).await.unwrap_err();
        assert_eq!(fenced.code(), Code::LeaseLost);
        assert!(lease::renew(&app.ctx, worker, &new).await.unwrap().go_on);
        assert_eq!(lease::renew(&app.ctx, world.sites[2].worker, &new).await.unwrap_err().code(), Code::LeaseLost);
        world.submit_with(1, &new, 1, &[1.0], vec![]).await.expect_err("the first receipt was not kept");
    }

    async fn a_participant_that_gave_up_is_not_waited_for_while_the_quorum_stands(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.queued(1).await;
        let leases = [world.lease(0).await, world.lease(1).await, world.lease(2).await];
        let gave_up = Outcome::GaveUp("the disk is full".to_owned());
        finish(&app.ctx, world.sites[2].worker, &leases[2], &gave_up, &[]).await.unwrap();
        world.submit(&job, 0, &leases[0], 1, &[1.0]).await.unwrap();
        world.submit(&job, 1, &leases[1], 1, &[3.0]).await.unwrap();
        assert_eq!(world.average(0, &leases[0], 1).await, Some(vec![2.0]));
        finish(&app.ctx, world.sites[1].worker, &leases[1], &gave_up, &[]).await.unwrap();
        assert_eq!(world.job(job.summary.id).await.summary.state, JobState::Failed);
    }

    async fn a_server_that_starts_again_in_the_middle_of_a_round_goes_on(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.queued(2).await;
        let leases = [world.lease(0).await, world.lease(1).await, world.lease(2).await];
        world.submit(&job, 0, &leases[0], 1, &[0.0]).await.unwrap();
        world.submit(&job, 1, &leases[1], 1, &[3.0]).await.unwrap();
        let again = app.restarted().await;
        world.ctx = again.clone();
        let account = world.account(1).await;
        world.submit(&job, 2, &leases[2], 1, &[6.0]).await.unwrap();
        assert_eq!(world.average(1, &leases[1], 1).await, Some(vec![3.0]));
        assert_eq!(world.account(1).await, account);
        assert!(lease::renew(&again, world.sites[1].worker, &leases[1]).await.unwrap().go_on);
        again.shutdown.cancel();
        again.db.clone().close().await.unwrap();
    }
}

/// Returns all files under a folder.
fn walk(path: &std::path::Path) -> Vec<std::path::PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    std::fs::read_dir(path).into_iter().flatten().flat_map(|entry| walk(&entry.unwrap().path())).collect()
}
