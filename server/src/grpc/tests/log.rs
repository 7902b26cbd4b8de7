use undertone_api::job::log::{LogQuery, Phase, SiteEvent};
use undertone_api::problem::Code;
use undertone_proto::{to_problem, v1};

use super::{serve, sign_in, with, work};
use crate::testing::on_both;
use undertone_server_core::service::job_log;
use undertone_server_core::service::world::TestConsortium;

on_both! {
    async fn what_a_site_says_over_the_wire_stands_in_the_jobs_log(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let job = world.queued(2).await;
        let mut client = serve(&app.ctx).await;
        let session = sign_in(&mut client, &world.sites[1]).await.unwrap();
        let lease = work(&mut client, &session).await.lease;
        let event = |sequence, event: Option<v1::log_event::Event>| v1::LogEvent { sequence, at_unix: 0, event };
        let request = |events| v1::LogRequest { lease: lease.clone(), sent_at_unix: 0, events };
        let begun = SiteEvent::Phase { phase: Phase::Begun };
        client.log(with(&session, request(vec![event(1, Some(begun.into()))]))).await.unwrap();
        let lines = job_log::list(&app.ctx, &world.sites[1].steward, job.summary.id, &LogQuery::default()).await.unwrap();
        assert_eq!(lines.items[0].text, "began its part");

        let unknown = client.log(with(&session, request(vec![event(2, Some(v1::log_event::Event::Phase(99)))]))).await;
        assert_eq!(to_problem(&unknown.unwrap_err()).code, Code::Malformed);
        assert_eq!(to_problem(&client.log(with(&session, request(vec![event(2, None)]))).await.unwrap_err()).code, Code::Malformed);
        assert_eq!(to_problem(&client.log(request(vec![event(2, Some(begun.into()))])).await.unwrap_err()).code, Code::Unauthenticated);
    }
}
