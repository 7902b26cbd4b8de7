//! U+0000, which only one of the databases accepts: it is refused before either is used.

use undertone_api::job::{NewJob, Spec};
use undertone_api::problem::Code;
use undertone_proto::{document, v1};

use super::{problem, request_as, scene};
use crate::testing::on_both;

on_both! {
    async fn no_text_and_no_document_of_a_program_holds_a_zero_byte(app: &TestApp) {
        let (world, researcher, mut client) = scene(app).await;
        let consortium = world.consortium.to_string();
        let ask = v1::ListJobsRequest { consortium: consortium.clone(), text: "a\0".to_owned(), ..Default::default() };
        problem(client.list_jobs(request_as(&researcher, ask)).await, Code::Malformed);
        let ask = v1::ListDatasetsRequest { consortium: consortium.clone(), text: "\0".to_owned(), ..Default::default() };
        problem(client.list_datasets(request_as(&researcher, ask)).await, Code::Malformed);
        let propose = |title: &str| {
            let new = NewJob { title: title.to_owned(), spec: Spec::DpSgd(world.spec(1)) };
            v1::ProposeJobRequest { consortium: consortium.clone(), job: document::to_struct(&new) }
        };
        problem(client.propose_job(request_as(&researcher, propose("a\0b"))).await, Code::Malformed);
        let job = client.propose_job(request_as(&researcher, propose("a\\u0000b"))).await.unwrap().into_inner().id;
        let dataset = world.sites[1].dataset.to_string();
        let refuse = v1::RefuseJobRequest { job: job.clone(), dataset, reason: "no\0".to_owned() };
        problem(client.refuse_job(request_as(&researcher, refuse)).await, Code::Malformed);
        let labels = "{\"text\":\"\\u0000\",\"label\":\"a\"}".to_owned();
        let import = v1::ImportAnswersRequest { job, labels, ..Default::default() };
        problem(client.import_answers(request_as(&researcher, import)).await, Code::Malformed);
    }
}
