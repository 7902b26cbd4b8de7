//! Questions over the network, in more than one message.

use sha2::{Digest as _, Sha256};
use tokio_stream::StreamExt as _;
use undertone_api::problem::Code;
use undertone_proto::question::{QuestionLine, id, read, read_answers, write};
use undertone_proto::v1::{self, answers_chunk, ask_chunk, asked_chunk};
use undertone_proto::{CHUNK, to_problem};

use super::{Client, serve, sign_in, with};
use crate::testing::on_both;
use undertone_server_core::service::world::poll::{QuestionJob, read_answer};

/// Returns incompressible texts: about half a megabyte is transmitted.
fn texts(of: &str) -> Vec<String> {
    (0..10_000).map(|number| hex::encode(Sha256::digest(format!("{of} {number}")))).collect()
}

fn pool(texts: &[String]) -> Vec<u8> {
    write(texts.iter().map(|text| QuestionLine { text: text.clone(), count: Some(7) }).collect()).unwrap()
}

fn sent(lease: &str, bytes: &[u8], receipts: Vec<v1::Signed>) -> Vec<v1::AskChunk> {
    let header = v1::AskHeader {
        lease: lease.to_owned(),
        series: "pool".to_owned(),
        round: 1,
        receipts,
        size: bytes.len() as u64,
        digest: hex::encode(Sha256::digest(bytes)),
    };
    let pieces = bytes.chunks(CHUNK).map(|piece| ask_chunk::Part::Data(piece.to_vec()));
    std::iter::once(ask_chunk::Part::Header(header))
        .chain(pieces)
        .map(|part| v1::AskChunk { part: Some(part) })
        .collect()
}

async fn asked(client: &mut Client, session: &str, lease: &str, offset: u64) -> (v1::AskedHeader, Vec<u8>) {
    let ask = v1::AskedRequest { lease: lease.to_owned(), wait_seconds: 0, offset };
    let mut answer = client.asked(with(session, ask)).await.unwrap().into_inner();
    let (mut header, mut data) = (None, Vec::new());
    while let Some(chunk) = answer.next().await {
        match chunk.unwrap().part {
            Some(asked_chunk::Part::Header(first)) => header = Some(first),
            Some(asked_chunk::Part::Data(piece)) => data.extend(piece),
            None => panic!("an empty message"),
        }
    }
    (header.expect("a header comes first"), data)
}

on_both! {
    async fn pools_go_to_the_lead_as_they_came_and_answers_come_back(app: &TestApp) {
        let mut poll = QuestionJob::new(&app.ctx, 1).await;
        let mut client = serve(&app.ctx).await;
        let mut sessions = Vec::new();
        for site in &poll.world.sites {
            sessions.push(sign_in(&mut client, site).await.unwrap());
        }
        let lead = poll.leases[0].clone();
        assert_eq!(asked(&mut client, &sessions[0], &lead, 0).await, (v1::AskedHeader::default(), vec![]));
        let pools = [pool(&texts("north")), pool(&texts("south"))];
        assert!(pools.iter().all(|bytes| bytes.len() > CHUNK), "of more than one message");
        for (site, bytes) in [(1, &pools[0]), (2, &pools[1])] {
            let receipt: v1::Signed = poll.receipt(site).into();
            for repeated in [false, true] {
                let chunks = sent(&poll.leases[site], bytes, vec![receipt.clone()]);
                let reply = client.ask(with(&sessions[site], futures::stream::iter(chunks))).await.unwrap().into_inner();
                assert_eq!((reply.repeated, reply.countersignatures.len()), (repeated, 1));
            }
        }
        let (header, data) = asked(&mut client, &sessions[0], &lead, 0).await;
        assert!(header.ready && data == pools.concat() && header.missing.is_empty());
        let told: Vec<_> = header.pools.iter().map(|pool| (pool.questions, pool.size, pool.digest.clone())).collect();
        let own = |bytes: &Vec<u8>| (10_000, bytes.len() as u64, hex::encode(Sha256::digest(bytes)));
        assert_eq!(told, pools.iter().map(own).collect::<Vec<_>>());
        for offset in [1, pools[0].len(), pools[0].len() + CHUNK + 1, data.len()] {
            let (again, rest) = asked(&mut client, &sessions[0], &lead, offset as u64).await;
            assert!(again == header && rest == data[offset..], "from {offset}");
        }
        let second: Vec<QuestionLine> = read(&data[pools[0].len()..]).unwrap().collect::<Result<_, _>>().unwrap();
        let question = id(poll.job.summary.id, header.pools[1].dataset_id.parse().unwrap(), &second[9_999].text);

        let choose = |question: String, round| v1::ChooseRequest {
            lease: lead.clone(), round, chosen: vec![v1::Chosen { question, uncertainty: 0.5 }],
        };
        let none = client.choose(with(&sessions[0], choose("x".to_owned(), 1))).await.unwrap_err();
        assert_eq!(to_problem(&none).code, Code::Malformed);
        for repeated in [false, true] {
            let reply = client.choose(with(&sessions[0], choose(question.to_string(), 1))).await.unwrap();
            assert_eq!(reply.into_inner().repeated, repeated);
        }
        let answers = v1::AnswersRequest { lease: lead.clone(), round: 1, wait_seconds: 0 };
        let mut open = client.answers(with(&sessions[0], answers.clone())).await.unwrap().into_inner();
        let Some(answers_chunk::Part::Header(header)) = open.next().await.unwrap().unwrap().part else { panic!("no header") };
        assert_eq!((header.closed, header.asked, header.answered), (false, 1, 0));
        assert!(open.next().await.is_none());
        poll.says(&poll.annotator(), question, "where").await.unwrap();
        let mut closed = client.answers(with(&sessions[0], answers)).await.unwrap().into_inner();
        let Some(answers_chunk::Part::Header(header)) = closed.next().await.unwrap().unwrap().part else { panic!("no header") };
        let Some(answers_chunk::Part::Data(data)) = closed.next().await.unwrap().unwrap().part else { panic!("no data") };
        assert_eq!((header.closed, header.answered, header.size), (true, 1, data.len() as u64));
        let given = read_answers(&data).unwrap();
        assert_eq!((given.len(), given[0].question, read_answer(&given[0])), (1, question, (1, "where")));
    }

    async fn a_pool_that_breaks_off_leaves_nothing(app: &TestApp) {
        let mut poll = QuestionJob::new(&app.ctx, 1).await;
        let mut client = serve(&app.ctx).await;
        let session = sign_in(&mut client, &poll.world.sites[1]).await.unwrap();
        let bytes = pool(&texts("north"));
        let receipt = poll.receipt(1).into();
        let mut chunks = sent(&poll.leases[1], &bytes, vec![receipt]);
        let last = chunks.pop().unwrap();
        let broken = client.ask(with(&session, futures::stream::iter(chunks.clone()))).await.unwrap_err();
        assert_eq!(to_problem(&broken).code, Code::BadSignature);
        assert!(poll.world.account(1).await.spent <= 0.0);
        let pools = app.data_dir().join("objects/pools").join(poll.job.summary.id.to_string());
        assert_eq!(std::fs::read_dir(&pools).into_iter().flatten().count(), 0);
        chunks.push(last);
        client.ask(with(&session, futures::stream::iter(chunks))).await.expect("the whole is taken");
    }
}
