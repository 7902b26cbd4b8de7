//! U+0000, which only one of the databases accepts: it is refused before either is used.

use undertone_api::problem::Code;
use undertone_proto::v1::finish_request::Outcome;
use undertone_proto::{to_problem, v1};

use super::{serve, sign_in, with, work};
use crate::testing::on_both;
use undertone_server_core::service::world::TestConsortium;

on_both! {
    async fn no_text_of_a_worker_holds_a_zero_byte(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        world.queued(1).await;
        let mut client = serve(&app.ctx).await;
        let session = sign_in(&mut client, &world.sites[1]).await.unwrap();
        let lease = work(&mut client, &session).await.lease;
        let renew = v1::RenewRequest { lease: format!("{lease}\0") };
        assert_eq!(to_problem(&client.renew(with(&session, renew)).await.unwrap_err()).code, Code::Malformed);
        let gave_up = v1::GaveUp { reason: "the disk is full\0".to_owned() };
        let finish =
            v1::FinishRequest { lease: lease.clone(), outcome: Some(Outcome::GaveUp(gave_up)), ..Default::default() };
        assert_eq!(to_problem(&client.finish(with(&session, finish)).await.unwrap_err()).code, Code::Malformed);
        let registration = "{\"name\":\"\\u0000\"}".to_owned();
        let register = v1::RegisterDatasetRequest { registration };
        assert_eq!(
            to_problem(&client.register_dataset(with(&session, register)).await.unwrap_err()).code,
            Code::Malformed
        );
        let renew = v1::RenewRequest { lease };
        assert!(client.renew(with(&session, renew)).await.unwrap().into_inner().go_on, "the lease holds");
        let enroll = v1::EnrollRequest { secret: "\0".to_owned(), ..Default::default() };
        assert_eq!(to_problem(&client.enroll(enroll).await.unwrap_err()).code, Code::Malformed);
    }
}
