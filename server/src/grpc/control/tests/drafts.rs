//! Drafts and reports over gRPC: the same as over REST, by the same rules.

use undertone_api::job::{NewDraft, Spec};
use undertone_api::problem::Code;
use undertone_proto::{document, v1};

use super::{by, problem, proposal, scene};
use crate::rest::member_of;
use crate::testing::on_both;
use undertone_server_core::service::world::TestConsortium;

fn content(world: &TestConsortium, title: &str, rounds: u32) -> Option<prost_types::Struct> {
    document::to_struct(&NewDraft::from_spec(title, &Spec::DpSgd(world.spec(rounds))).unwrap())
}

fn create(world: &TestConsortium, title: &str) -> v1::CreateDraftRequest {
    v1::CreateDraftRequest { consortium: world.consortium.to_string(), content: content(world, title, 1) }
}

on_both! {
    async fn a_draft_is_begun_written_and_becomes_the_job(app: &TestApp) {
        let (world, researcher, mut client) = scene(app).await;
        let begun = client.create_draft(by(&researcher, create(&world, "a draft"))).await.unwrap().into_inner();
        assert_eq!((begun.version, begun.ready, begun.kind.as_str()), (1, true, "dp_sgd"));
        let write = |version| v1::UpdateDraftRequest {
            draft: begun.id.clone(),
            content: content(&world, "another title", 2),
            version,
        };
        let written = client.update_draft(by(&researcher, write(1))).await.unwrap().into_inner();
        assert_eq!((written.version, written.title.as_str()), (2, "another title"));
        problem(client.update_draft(by(&researcher, write(1))).await, Code::PreconditionFailed);
        assert_eq!(client.update_draft(by(&researcher, write(0))).await.unwrap().into_inner().version, 3);
        let got = client.get_draft(by(&researcher, v1::GetDraftRequest { draft: begun.id.clone() })).await.unwrap().into_inner();
        assert!(got.version == 3 && got.document.unwrap().fields.contains_key("violations"));
        let ask = v1::ListDraftsRequest { consortium: world.consortium.to_string(), page: None };
        let drafts = client.list_drafts(by(&researcher, ask.clone())).await.unwrap().into_inner().drafts;
        assert_eq!(drafts.iter().map(|draft| draft.id.as_str()).collect::<Vec<_>>(), [begun.id.as_str()]);
        let propose = v1::ProposeDraftRequest { draft: begun.id.clone() };
        let job = client.propose_draft(by(&researcher, propose.clone())).await.unwrap().into_inner();
        assert_eq!((job.state.as_str(), job.title.as_str(), job.rounds), ("proposed", "another title", 2));
        problem(client.propose_draft(by(&researcher, propose)).await, Code::NotFound);
        assert!(client.list_drafts(by(&researcher, ask)).await.unwrap().into_inner().drafts.is_empty());
    }

    async fn a_draft_is_nobody_elses_and_bad_input_is_named(app: &TestApp) {
        let (world, researcher, mut client) = scene(app).await;
        let stranger = member_of(app, &world, 1).await;
        let begun = client.create_draft(by(&researcher, create(&world, "ours"))).await.unwrap().into_inner();
        let get = v1::GetDraftRequest { draft: begun.id.clone() };
        problem(client.get_draft(by(&stranger, get)).await, Code::NotFound);
        let delete = v1::DeleteDraftRequest { draft: begun.id.clone() };
        problem(client.delete_draft(by(&stranger, delete.clone())).await, Code::NotFound);
        let empty = v1::CreateDraftRequest { consortium: world.consortium.to_string(), content: None };
        let refused = problem(client.create_draft(by(&researcher, empty)).await, Code::ValidationFailed);
        assert_eq!(refused.violations[0].field, "content");
        client.delete_draft(by(&researcher, delete.clone())).await.unwrap();
        problem(client.delete_draft(by(&researcher, delete)).await, Code::NotFound);
    }

    async fn a_draft_with_a_key_is_begun_once(app: &TestApp) {
        let (world, researcher, mut client) = scene(app).await;
        let keyed = || {
            let mut request = by(&researcher, create(&world, "once"));
            request.metadata_mut().insert("idempotency-key", "k1".parse().unwrap());
            request
        };
        let first = client.create_draft(keyed()).await.unwrap().into_inner();
        assert_eq!(client.create_draft(keyed()).await.unwrap().into_inner(), first);
        let ask = v1::ListDraftsRequest { consortium: world.consortium.to_string(), page: None };
        assert_eq!(client.list_drafts(by(&researcher, ask)).await.unwrap().into_inner().drafts.len(), 1);
    }

    async fn a_job_is_cloned_reported_and_proposed_again_from_its_report(app: &TestApp) {
        let (world, researcher, mut client) = scene(app).await;
        let job = client.propose_job(by(&researcher, proposal(&world, 2))).await.unwrap().into_inner();
        let clone = client.clone_job(by(&researcher, v1::CloneJobRequest { job: job.id.clone() })).await.unwrap().into_inner();
        assert_eq!((clone.title.as_str(), clone.version), ("by a program", 1));
        client.cancel_job(by(&researcher, v1::CancelJobRequest { job: job.id.clone() })).await.unwrap();
        let report = client.get_report(by(&researcher, v1::GetReportRequest { job: job.id.clone() })).await.unwrap().into_inner();
        let consortium = world.consortium.to_string();
        let again = v1::ProposeJobAgainRequest { consortium: consortium.clone(), file: report.file };
        let again = client.propose_job_again(by(&researcher, again)).await.unwrap().into_inner();
        assert!(again.id != job.id && again.rounds == 2 && again.state == "proposed");
        let strange = v1::ProposeJobAgainRequest { consortium, file: b"{".to_vec() };
        let refused = problem(client.propose_job_again(by(&researcher, strange)).await, Code::ValidationFailed);
        assert_eq!(refused.violations[0].field, "file");
    }
}
