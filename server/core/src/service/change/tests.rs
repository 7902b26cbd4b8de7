#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use std::time::Duration;

use undertone_api::id::JobId;
use uuid::Uuid;

use super::ChangeExchange;
use crate::ctx::{Ctx, DisplaySubscription, JobChannels};
use crate::testing::on_both;

/// Returns whether a change that concerns `job` has been displayed since the subscription.
async fn is_notified(mut changes: DisplaySubscription, job: JobId) -> bool {
    let jobs: JobChannels = [job].into_iter().collect();
    let wait = changes.wait(jobs, Duration::from_mins(1));
    // A change that was announced before ends the wait without waiting.
    tokio::time::timeout(Duration::from_millis(50), wait).await.is_ok()
}

on_both! {
    async fn change_of_a_replica_is_displayed_by_the_other_once(app: &TestApp) {
        let (one, other) = (JobId(Uuid::from_u128(1)), JobId(Uuid::from_u128(2)));
        let second = app.restarted().await;
        let (mut here, mut there) = (ChangeExchange::default(), ChangeExchange::default());
        here.run(&app.ctx).await.unwrap();
        there.run(&second).await.unwrap();
        let subscribe = |ctx: &Ctx| ctx.changes().subscribe_to_display();

        app.ctx.changes().notify_job(one);
        let changes = [subscribe(&app.ctx), subscribe(&second), subscribe(&second)];
        here.run(&app.ctx).await.unwrap();
        there.run(&second).await.unwrap();
        let [own, of_one, of_other] = changes;
        assert!(!is_notified(own, one).await, "it was displayed here before");
        assert!(is_notified(of_one, one).await);
        assert!(!is_notified(of_other, other).await);

        let again = subscribe(&second);
        there.run(&second).await.unwrap();
        assert!(!is_notified(again, one).await, "once");
        // Both change the same job at a time.
        app.ctx.changes().notify_job_display(one);
        second.changes().notify_job_display(one);
        here.run(&app.ctx).await.unwrap();
        let changes = [subscribe(&app.ctx), subscribe(&second)];
        there.run(&second).await.unwrap();
        here.run(&app.ctx).await.unwrap();
        for changes in changes {
            assert!(is_notified(changes, one).await, "each learns of the other's");
        }
        second.shutdown.cancel();
        second.db.clone().close().await.unwrap();
    }
}
