//! Models over gRPC: the record, the card, the archive and the deletion, by the rules of REST.

use tokio_stream::StreamExt as _;
use undertone_api::problem::Code;
use undertone_proto::v1;
use undertone_proto::v1::control_client::ControlClient;

use super::{problem, request_as, serve};
use crate::rest::member_of;
use crate::testing::on_both;
use undertone_server_core::service::world::TestConsortium;
use undertone_server_core::service::world::finished::finished;

on_both! {
    async fn a_program_reads_takes_and_deletes_a_model(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = finished(&mut world, 1).await.summary.id.to_string();
        let owner = member_of(app, &world, 0).await;
        let other = member_of(app, &world, 1).await;
        let mut client = ControlClient::new(serve(&app.ctx).await);
        let reply = client.list_artifacts(request_as(&owner, v1::ListArtifactsRequest { job })).await.unwrap();
        let artifact = reply.into_inner().artifacts[0].id.clone();
        let ask = v1::GetModelRequest { artifact: artifact.clone() };
        let model = client.get_model(request_as(&owner, ask.clone())).await.unwrap().into_inner();
        assert_eq!((model.version, &model.artifact.unwrap().id), (1, &artifact));
        assert!(model.document.unwrap().fields.contains_key("privacy"));
        let card = v1::GetModelCardRequest { artifact: artifact.clone() };
        let card = client.get_model_card(request_as(&owner, card)).await.unwrap().into_inner().card;
        assert!(card.starts_with("# a job (model.safetensors)"), "{card}");
        let same = v1::CompareModelsRequest { artifact: artifact.clone(), with: artifact.clone() };
        problem(client.compare_models(request_as(&owner, same)).await, Code::ValidationFailed);
        // The file of the test is no safetensors file.
        let archive = v1::DownloadModelArchiveRequest { artifact: artifact.clone() };
        let archive = client.download_model_archive(request_as(&owner, archive)).await.map(|_| ());
        assert!(problem(archive, Code::WrongState).detail.contains("safetensors"));

        let deletion = v1::DeleteArtifactRequest { artifact: artifact.clone(), reason: "a speaker withdrew".to_owned() };
        problem(client.delete_artifact(request_as(&other, deletion.clone())).await, Code::Forbidden);
        let deleted = client.delete_artifact(request_as(&owner, deletion)).await.unwrap().into_inner();
        let deletion = deleted.deletion.unwrap();
        assert_eq!((&*deletion.reason, &deletion.by), ("a speaker withdrew", &owner.session.member.id.to_string()));
        let ask = v1::DownloadArtifactRequest { artifact, offset: 0 };
        let content = match client.download_artifact(request_as(&owner, ask)).await {
            Ok(stream) => stream.into_inner().next().await.unwrap().map(|_| ()),
            Err(status) => Err(status),
        };
        assert!(problem(content, Code::NotFound).detail.contains("a speaker withdrew"));
        let ask = v1::GetModelRequest { artifact: deleted.id };
        let model = client.get_model(request_as(&owner, ask)).await.unwrap().into_inner();
        assert!(model.artifact.unwrap().deletion.is_some(), "the record stays");
    }
}
