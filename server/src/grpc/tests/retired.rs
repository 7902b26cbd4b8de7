//! A retired worker over gRPC.

use tonic::Code as GrpcCode;
use undertone_api::problem::Code;
use undertone_api::retirement::StatedReason;
use undertone_proto::v1::access_subject::Subject;
use undertone_proto::v1::control_client::ControlClient;
use undertone_proto::{to_problem, v1};

use super::{listen, serve, sign_in, with};
use crate::testing::on_both;
use undertone_server_core::service::retirement::{restore_worker, retire_worker};
use undertone_server_core::service::world::TestConsortium;

on_both! {
    async fn retired_worker_is_refused_at_each_call(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let mut client = serve(&app.ctx).await;
        let site = &world.sites[1];
        let owner = site.steward.organizations()[0];
        let session = sign_in(&mut client, site).await.unwrap();
        client.next_offer(with(&session, v1::NextOfferRequest::default())).await.expect("it holds until the retirement");
        let reason = StatedReason { reason: "the machine was stolen".to_owned() };
        retire_worker(&app.ctx, &site.steward, owner, site.worker, &reason).await.unwrap();
        let offer = client.next_offer(with(&session, v1::NextOfferRequest::default())).await.map(drop);
        let renewal = client.renew(with(&session, v1::RenewRequest { lease: "none".to_owned() })).await.map(drop);
        let receipts = client.receipts(with(&session, v1::ReceiptsRequest::default())).await.map(drop);
        let sent = client.submit(with(&session, futures::stream::iter(Vec::<v1::SubmitChunk>::new()))).await.map(drop);
        for refused in [offer, renewal, receipts, sent] {
            assert_eq!(to_problem(&refused.unwrap_err()).code, Code::Unauthenticated);
        }
        assert_eq!(sign_in(&mut client, site).await, Err(Code::Unauthenticated));
        restore_worker(&app.ctx, &site.steward, owner, site.worker, &reason).await.unwrap();
        sign_in(&mut client, site).await.expect("restored");
        client.next_offer(with(&session, v1::NextOfferRequest::default())).await.expect("its key is the same");
    }

    async fn program_retires_and_restores_an_account(app: &TestApp) {
        let founded = app.founded().await;
        let address = listen(&app.ctx);
        let mut client = ControlClient::connect(format!("http://{address}")).await.unwrap();
        let account = founded.north.1.session.member.id.to_string();
        let subject = Some(v1::AccessSubject { subject: Some(Subject::Account(account)) });
        let token = &founded.operator.session.tokens.access_token;
        let retire = v1::RetireRequest { subject: subject.clone(), reason: "left".to_owned() };
        let reply = client.retire(with(token, retire)).await.unwrap().into_inner();
        assert!(reply.document.unwrap().fields.contains_key("retirement"));
        let restore = v1::RestoreRequest { subject, reason: "back".to_owned() };
        let reply = client.restore(with(token, restore)).await.unwrap().into_inner();
        assert!(!reply.document.unwrap().fields.contains_key("retirement"));
        let nothing = v1::RetireRequest { subject: None, reason: "left".to_owned() };
        assert_eq!(client.retire(with(token, nothing)).await.unwrap_err().code(), GrpcCode::InvalidArgument);
    }
}
