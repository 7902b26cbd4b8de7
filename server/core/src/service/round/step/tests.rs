//! Masked rounds with real sites of the protocol: dropouts at each step, restarts, hostile messages and limits.
#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]
#![expect(clippy::float_cmp, reason = "the expected means are computed in the same steps")]

mod group;
mod hostile;
mod restored;

use sea_orm::{EntityTrait as _, PaginatorTrait as _};
use time::Duration;
use undertone_api::job::JobState;
use undertone_api::problem::Code;
use undertone_secure_aggregation::message::SurvivorSignature;
use undertone_secure_aggregation::site_set::SiteSet;

use super::super::{MaskedInput, MaskedMessage};
use crate::ctx::Ctx;
use crate::model::{masked_message, masked_round};
use crate::service::finish::{PartOutcome, finish};
use crate::service::job;
use crate::testing::on_both;

use group::TestGroup;

/// Returns the number of stored messages and open masked rounds.
async fn count_rows(ctx: &Ctx) -> (u64, u64) {
    let messages = masked_message::Entity::find().count(ctx.db.read()).await.unwrap();
    (messages, masked_round::Entity::find().count(ctx.db.read()).await.unwrap())
}

on_both! {
    async fn opened_mean_is_that_of_the_plain_integers(app: &TestApp) {
        for (sites, smallest_group, colluding) in [(3, 3, 1), (4, 3, 0)] {
            let mut group = TestGroup::new(&app.ctx, sites, smallest_group, colluding, 2).await;
            for round in 1..=2 {
                group.begin_round(round);
                let all: Vec<usize> = (0..sites).collect();
                group.submit_plain().await;
                group.advertise(&all).await;
                group.share(&all).await;
                group.submit(&all).await;
                assert_eq!(group.average().await, None, "nothing is opened yet");
                group.sign(&all).await;
                group.reveal(&all).await;
                assert_eq!(group.average().await, Some(group.plain_mean(&all)), "{sites} sites, round {round}");
                assert_eq!(count_rows(&app.ctx).await, (0, 0), "its messages go with the round");
            }
            let charged = group.world.account(1).await;
            assert!(charged.spent > 0.0, "each round is charged");
        }
    }

    /// The third of three sites stops after 0, 1, 2, 3 or 4 of its messages.
    async fn site_may_drop_out_at_each_step(app: &TestApp) {
        for messages in 0..5 {
            let mut group = TestGroup::new(&app.ctx, 3, 2, 0, 1).await;
            let with = |step: usize| if messages >= step { vec![0, 1, 2] } else { vec![0, 1] };
            group.submit_plain().await;
            group.send_advertisements(&with(1)).await;
            if messages == 0 {
                assert_eq!(group.poll_advertisement(0).await, None, "it is waited for");
            }
            // A phase with all answers closes at once; the time of the incomplete one has to pass.
            let wait = |step: usize, seconds| if messages == step { Duration::seconds(seconds) } else { Duration::ZERO };
            app.clock.advance(wait(0, 31));
            group.advertise(&with(1)).await;
            group.send_shares(&with(2)).await;
            app.clock.advance(wait(1, 16));
            group.share(&with(2)).await;
            group.send_vectors(&with(3)).await;
            app.clock.advance(wait(2, 16));
            let survivors = group.survivors(0).await;
            assert_eq!(survivors, Some(with(3).iter().map(|site| *site as u8).collect()), "{messages}");
            group.sign(&with(4)).await;
            group.reveal(&[0, 1]).await;
            assert_eq!(group.average().await, Some(group.plain_mean(&with(3))), "{messages}");
        }
    }

    async fn fewer_vectors_than_the_smallest_group_stay_closed(app: &TestApp) {
        let mut group = TestGroup::new(&app.ctx, 4, 3, 0, 1).await;
        group.submit_plain().await;
        group.advertise(&[0, 1, 2, 3]).await;
        group.share(&[0, 1, 2, 3]).await;
        group.send_vectors(&[0, 1]).await;
        app.clock.advance(Duration::hours(1));
        assert_eq!(group.survivors(0).await, None);
        let early = MaskedMessage::Sign(SurvivorSignature { site: 0, signature: vec![0; 64] });
        assert_eq!(group.step(0, &early).await.unwrap_err().code(), Code::NotReady);
        assert_eq!(group.average().await, None);
        // A third vector makes it a group, however late.
        group.send_vectors(&[2]).await;
        assert_eq!(group.survivors(1).await, Some(SiteSet::from_bits(0b0111)));
        group.send_signatures(&[0, 1]).await;
        let two = group.poll_signatures(0).await;
        assert_eq!(two, None, "two signatures are not enough");
        group.sign(&[0, 1, 2]).await;
        group.reveal(&[0, 1]).await;
        assert_eq!(group.average().await, None, "two sites have revealed");
        group.reveal(&[2]).await;
        assert_eq!(group.average().await, Some(group.plain_mean(&[0, 1, 2])));
    }

    async fn restarted_server_continues_the_round(app: &TestApp) {
        let mut group = TestGroup::new(&app.ctx, 3, 2, 0, 1).await;
        group.submit_plain().await;
        group.advertise(&[0, 1, 2]).await;
        group.send_shares(&[0, 1]).await;
        let again = app.restarted().await;
        group.continue_on(&again);
        group.share(&[0, 1, 2]).await;
        group.submit(&[0, 1, 2]).await;
        group.sign(&[0, 1, 2]).await;
        group.reveal(&[1, 2]).await;
        assert_eq!(group.average().await, Some(group.plain_mean(&[0, 1, 2])));
        again.shutdown.cancel();
        again.db.clone().close().await.unwrap();
    }

    async fn departed_site_is_not_waited_for(app: &TestApp) {
        let mut group = TestGroup::new(&app.ctx, 3, 2, 0, 1).await;
        group.submit_plain().await;
        group.advertise(&[0, 1, 2]).await;
        group.send_shares(&[0, 1]).await;
        let gave_up = PartOutcome::GaveUp("the disk is full".to_owned());
        let (worker, lease) = (group.world.sites[3].worker, group.lease(2));
        finish(&app.ctx, worker, &lease, &gave_up, &[]).await.unwrap();
        group.share(&[0, 1]).await;
        group.submit(&[0, 1]).await;
        group.sign(&[0, 1]).await;
        group.reveal(&[0, 1]).await;
        assert_eq!(group.average().await, Some(group.plain_mean(&[0, 1])));
    }

    async fn job_without_enough_sites_fails(app: &TestApp) {
        let gave_up = PartOutcome::GaveUp("the disk is full".to_owned());
        // Two of three sites are left, and a sum needs three.
        let mut group = TestGroup::new(&app.ctx, 3, 3, 1, 1).await;
        group.advertise(&[0, 1, 2]).await;
        finish(&app.ctx, group.world.sites[3].worker, &group.lease(2), &gave_up, &[]).await.unwrap();
        assert_eq!(group.world.job(group.job.summary.id).await.summary.state, JobState::Failed);
        // The third of three sites missed the list, and one of the others leaves: the round cannot begin again.
        let mut late = TestGroup::new(&app.ctx, 3, 2, 0, 1).await;
        late.send_advertisements(&[0, 1]).await;
        app.clock.advance(Duration::seconds(31));
        late.advertise(&[0, 1]).await;
        finish(&app.ctx, late.world.sites[2].worker, &late.lease(1), &gave_up, &[]).await.unwrap();
        assert_eq!(late.world.job(late.job.summary.id).await.summary.state, JobState::Failed);
        assert_eq!(count_rows(&app.ctx).await, (0, 0), "the messages of an ended job go");
    }

    async fn cancelled_job_leaves_no_message(app: &TestApp) {
        let group = TestGroup::new(&app.ctx, 3, 2, 0, 1).await;
        group.send_advertisements(&[0, 1]).await;
        assert_eq!(count_rows(&app.ctx).await, (2, 1));
        job::cancel(&app.ctx, &group.world.sites[0].steward, group.job.summary.id).await.unwrap();
        assert_eq!(count_rows(&app.ctx).await, (0, 0));
    }

    async fn quorum_beyond_the_group_keeps_phases_open(app: &TestApp) {
        let mut group = Box::pin(TestGroup::with(&app.ctx, 3, (2, 0), 1, |spec| {
            spec.private.as_mut().unwrap().quorum = 4;
        })).await;
        group.submit_plain().await;
        group.send_advertisements(&[0, 1]).await;
        app.clock.advance(Duration::hours(1));
        assert_eq!(group.poll_advertisement(0).await, None, "the quorum needs all three sites");
        group.send_advertisements(&[2]).await;
        let Some(MaskedInput::Advertisements(list)) = group.poll_advertisement(0).await else { panic!("closed") };
        assert_eq!(list.len(), 3);
    }
}
