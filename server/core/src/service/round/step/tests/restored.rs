//! Rounds of a server that was restored from an older state: steps are repeated, refused, or the round is lost.

use time::Duration;
use undertone_api::job::JobState;
use undertone_api::job::log::{LogEvent, LogQuery, StepConflict};
use undertone_api::problem::Code;
use undertone_secure_aggregation::site_set::SiteSet;

use super::count_rows;
use super::group::TestGroup;
use crate::service::finish::{PartOutcome, finish};
use crate::service::job_log;
use crate::service::round::MaskedMessage;
use crate::testing::on_both;

/// Takes the steps of a round until the sum is only to be opened.
async fn submit_all(group: &mut TestGroup, sites: &[usize]) {
    group.submit_plain().await;
    group.advertise(sites).await;
    group.share(sites).await;
    group.submit(sites).await;
}

async fn state(group: &TestGroup) -> JobState {
    group.world.job(group.job.summary.id).await.summary.state
}

on_both! {
    async fn second_set_of_survivors_ends_the_job_with_a_reason(app: &TestApp) {
        let mut group = TestGroup::new(&app.ctx, 3, 2, 0, 2).await;
        submit_all(&mut group, &[0, 1, 2]).await;
        group.send_signatures(&[0, 1]).await;
        group.restore_before_survivors(&[2]).await;
        app.clock.advance(Duration::seconds(16));
        let survivors = group.survivors(0).await.unwrap();
        assert_eq!(survivors, SiteSet::from_bits(0b011));
        let refusal = group.site(0).sign(survivors).unwrap_err().to_string();
        assert!(refusal.contains("signed the survivors {0, 1, 2} and signs no other set"), "{refusal}");
        let spent = group.world.account(1).await.spent;
        group.refuse(0, StepConflict::Survivors).await;

        let id = group.job.summary.id;
        let job = group.world.job(id).await;
        let reason = job.reason.unwrap();
        assert_eq!(job.summary.state, JobState::Failed);
        assert!(reason.contains("round 1 of `private` is lost: 1 of its 3 sites"), "{reason}");
        assert!(reason.contains("What was paid stays paid"), "{reason}");
        let lines = job_log::list(&app.ctx, &group.world.sites[0].steward, id, &LogQuery::default()).await.unwrap().items;
        let event = LogEvent::Refused { series: 0, round: 1, conflict: StepConflict::Survivors };
        let line = lines.iter().find(|line| line.event == event).unwrap();
        assert_eq!(line.dataset, Some(group.world.sites[1].dataset));
        assert!(lines.iter().any(|line| line.event == LogEvent::State { state: JobState::Failed }));
        assert_eq!(count_rows(&app.ctx).await, (0, 0), "the messages of an ended job go");
        // The site accounts for its releases: what was paid stays paid, and the rest returns.
        let outcome = PartOutcome::GaveUp("the job is failed".to_owned());
        finish(&app.ctx, group.world.sites[1].worker, &group.lease(0), &outcome, &[]).await.unwrap();
        let account = group.world.account(1).await;
        assert_eq!((account.spent, account.committed), (spent, spent));
    }

    async fn refusals_leave_a_round_of_enough_sites(app: &TestApp) {
        let mut group = TestGroup::new(&app.ctx, 5, 3, 0, 1).await;
        submit_all(&mut group, &[0, 1, 2, 3, 4]).await;
        group.send_signatures(&[4]).await;
        group.restore_before_survivors(&[3]).await;
        app.clock.advance(Duration::seconds(16));
        assert_eq!(group.survivors(4).await, Some(SiteSet::from_bits(0b10111)));
        for _ in 0..2 {
            group.refuse(4, StepConflict::Survivors).await;
        }
        assert_eq!(state(&group).await, JobState::Running, "three sites are a group");
        group.sign(&[0, 1, 2]).await;
        group.reveal(&[0]).await;
        group.refuse(0, StepConflict::Survivors).await;
        assert_eq!(state(&group).await, JobState::Running, "its shares are there");
        group.reveal(&[1, 2]).await;
        assert_eq!(group.average().await, Some(group.plain_mean(&[0, 1, 2, 4])));
        group.refuse(1, StepConflict::Ended).await;
        assert_eq!(state(&group).await, JobState::Running, "the round is closed");
    }

    /// A site that refuses after 1, 2 or 3 of its messages has the effect of a dropout.
    async fn hostile_refusal_ends_no_round_that_others_complete(app: &TestApp) {
        for messages in 1..=3 {
            let mut group = TestGroup::new(&app.ctx, 3, 2, 0, 1).await;
            let with = |step: usize| if messages >= step { vec![0, 1, 2] } else { vec![0, 1] };
            group.submit_plain().await;
            for step in 1..=3 {
                match step {
                    1 => group.advertise(&with(1)).await,
                    2 => group.share(&with(2)).await,
                    _ => group.send_vectors(&with(3)).await,
                }
                if step == messages {
                    group.refuse(2, StepConflict::Advertisements).await;
                }
            }
            // No time passes: the others do not wait for it.
            group.sign(&[0, 1]).await;
            group.reveal(&[0, 1]).await;
            assert_eq!(group.average().await, Some(group.plain_mean(&with(3))), "{messages}");
            assert_eq!(state(&group).await, JobState::Running, "{messages}");
        }
    }

    async fn missing_vector_is_asked_for_and_costs_nothing(app: &TestApp) {
        let mut group = TestGroup::new(&app.ctx, 3, 2, 0, 1).await;
        submit_all(&mut group, &[0, 1, 2]).await;
        group.restore_before_survivors(&[2]).await;
        let refusal = group.step(2, &MaskedMessage::Survivors).await.unwrap_err();
        assert_eq!(refusal.code(), Code::NotReady);
        let spent = group.world.account(3).await.spent;
        let bytes = group.masked_vector(2, &group.vector(2));
        assert!(!group.submit_paid(2, &bytes, vec![]).await.unwrap(), "its receipt is there, and pays for these bytes");
        assert_eq!(group.survivors(2).await, Some(SiteSet::from_bits(0b111)));
        group.sign(&[0, 1, 2]).await;
        group.reveal(&[0, 1, 2]).await;
        assert_eq!(group.average().await, Some(group.plain_mean(&[0, 1, 2])));
        assert_eq!(group.world.account(3).await.spent, spent);
    }

    async fn round_that_its_sites_have_ended_is_lost(app: &TestApp) {
        for finishes in [false, true] {
            let mut group = TestGroup::new(&app.ctx, 3, 2, 0, 1).await;
            submit_all(&mut group, &[0, 1, 2]).await;
            group.sign(&[0, 1, 2]).await;
            for site in [0, 1] {
                assert_eq!(state(&group).await, JobState::Running, "{finishes} {site}");
                if finishes {
                    let worker = group.world.sites[site + 1].worker;
                    finish(&app.ctx, worker, &group.lease(site), &PartOutcome::Done(None), &[]).await.unwrap();
                } else {
                    group.refuse(site, StepConflict::Ended).await;
                }
            }
            let job = group.world.job(group.job.summary.id).await;
            assert_eq!(job.summary.state, JobState::Failed, "{finishes}");
            assert!(job.reason.unwrap().contains("round 1 of `private` is lost"), "{finishes}");
        }
    }

    async fn refusal_before_the_round_is_open_is_too_early(app: &TestApp) {
        let mut group = TestGroup::new(&app.ctx, 3, 2, 0, 2).await;
        let refusal = group.step(0, &MaskedMessage::Refuse(StepConflict::Ended)).await.unwrap_err();
        assert_eq!(refusal.code(), Code::NotReady);
        group.submit_plain().await;
        // The rows of the restored round are lost as well.
        group.refuse(0, StepConflict::Ended).await;
        assert_eq!((count_rows(&app.ctx).await, state(&group).await), ((0, 1), JobState::Running));
        group.begin_round(2);
        let refusal = group.step(0, &MaskedMessage::Refuse(StepConflict::Ended)).await.unwrap_err();
        assert_eq!(refusal.code(), Code::NotReady);
    }
}
