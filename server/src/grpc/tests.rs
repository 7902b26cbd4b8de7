#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

mod alive;
mod limits;
mod log;
mod nul;
mod questions;
mod rate;
mod retired;
mod strangers;

use std::net::SocketAddr;

use sha2::{Digest as _, Sha256};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_stream::StreamExt as _;
use tonic::Request;
use tonic::transport::Channel;
use undertone_api::job::dp_sgd::Precision;
use undertone_api::problem::Code;
use undertone_api::signed::{KeyChange, PresenceProof, Signed};
use undertone_proto::v1::worker_gateway_client::WorkerGatewayClient;
use undertone_proto::v1::{self, average_chunk, get_artifact_chunk, put_artifact_chunk, submit_chunk};
use undertone_proto::vector::{VectorForm, read};
use undertone_proto::{CHUNK, to_problem};

use crate::testing::on_both;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::exchange::upload::LONGEST_HELD;
use undertone_server_core::service::world::{TestConsortium, TestSite};

type Client = WorkerGatewayClient<Channel>;

/// Returns a client of a gateway on loopback, which runs until the server stops.
async fn serve(ctx: &Ctx) -> Client {
    connect(listen(ctx)).await
}

fn listen(ctx: &Ctx) -> SocketAddr {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let ctx = ctx.clone();
    tokio::spawn(async move { super::serve(&ctx, listener).await });
    address
}

async fn connect(address: SocketAddr) -> Client {
    WorkerGatewayClient::connect(format!("http://{address}")).await.unwrap()
}

/// Returns an address that forwards one connection to a server, and the task whose end breaks that connection.
async fn frail(server: SocketAddr) -> (SocketAddr, JoinHandle<std::io::Result<(u64, u64)>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let connection = tokio::spawn(async move {
        let (mut sender, _) = listener.accept().await?;
        drop(listener);
        let mut server = TcpStream::connect(server).await?;
        tokio::io::copy_bidirectional(&mut sender, &mut server).await
    });
    (address, connection)
}

async fn sign_in(client: &mut Client, site: &TestSite) -> Result<String, Code> {
    let ask = v1::ChallengeRequest { worker_id: site.worker.to_string() };
    let challenge = client.challenge(ask).await.unwrap().into_inner().challenge;
    let presence = Signed::new(&PresenceProof { worker: site.worker, challenge }, &site.key).unwrap();
    let answer = v1::SignInRequest {
        presence: Some(presence.into()),
        version: "1.0".to_owned(),
        kinds: vec!["dp_sgd".to_owned()],
    };
    match client.sign_in(answer).await {
        Ok(reply) => Ok(reply.into_inner().session),
        Err(status) => Err(to_problem(&status).code),
    }
}

fn with<T>(session: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {session}").parse().unwrap());
    request
}

async fn work(client: &mut Client, session: &str) -> v1::Work {
    let reply = client.next_offer(with(session, v1::NextOfferRequest::default())).await.unwrap().into_inner();
    match reply.offer {
        Some(v1::next_offer_reply::Offer::Work(work)) => work,
        other => panic!("no work: {other:?}"),
    }
}

fn submission(lease: &str, vector: &[f32], receipts: Vec<v1::Signed>) -> Vec<v1::SubmitChunk> {
    let data: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
    submission_from(0, lease, &data, receipts)
}

fn submission_from(offset: usize, lease: &str, data: &[u8], receipts: Vec<v1::Signed>) -> Vec<v1::SubmitChunk> {
    let header = v1::SubmitHeader {
        lease: lease.to_owned(),
        series: "private".to_owned(),
        round: 1,
        receipts,
        length: data.len() as u64 / 4,
        digest: hex::encode(Sha256::digest(data)),
        size: data.len() as u64,
        offset: offset as u64,
    };
    let pieces = data[offset..].chunks(CHUNK).map(|piece| submit_chunk::Part::Data(piece.to_vec()));
    std::iter::once(submit_chunk::Part::Header(header))
        .chain(pieces)
        .map(|part| v1::SubmitChunk { part: Some(part) })
        .collect()
}

/// Returns the average of round 1, from an offset.
async fn average(client: &mut Client, session: &str, lease: &str, offset: u64) -> (v1::AverageHeader, Vec<u8>) {
    let lease = lease.to_owned();
    let series = "private".to_owned();
    let ask = v1::AverageRequest { lease, series, round: 1, wait_seconds: 0, offset };
    let mut answer = client.average(with(session, ask)).await.unwrap().into_inner();
    let mut header = None;
    let mut data = Vec::new();
    while let Some(chunk) = answer.next().await {
        match chunk.unwrap().part {
            Some(average_chunk::Part::Header(first)) => header = Some(first),
            Some(average_chunk::Part::Data(piece)) => data.extend(piece),
            None => panic!("an empty message"),
        }
    }
    (header.expect("a header comes first"), data)
}

on_both! {
    async fn a_session_needs_the_sites_key_and_holds_through_a_restart(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let mut client = serve(&app.ctx).await;
        let session = sign_in(&mut client, &world.sites[1]).await.unwrap();
        let key = std::mem::replace(&mut world.sites[1].key, ed25519_dalek::SigningKey::from_bytes(&[3; 32]));
        assert_eq!(sign_in(&mut client, &world.sites[1]).await, Err(Code::Unauthenticated));
        world.sites[1].key = key;

        let again = app.restarted().await;
        let mut restarted = serve(&again.ctx).await;
        restarted.next_offer(with(&session, v1::NextOfferRequest::default())).await.expect("the session holds");
        app.clock.advance(time::Duration::hours(13));
        let over = restarted.next_offer(with(&session, v1::NextOfferRequest::default())).await.unwrap_err();
        assert_eq!(to_problem(&over).code, Code::Unauthenticated);
        again.ctx.shutdown.cancel();
        again.ctx.db.clone().close().await.unwrap();
    }

    async fn a_session_ends_with_the_key_that_it_was_given_for(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let mut client = serve(&app.ctx).await;
        let stolen = sign_in(&mut client, &world.sites[1]).await.unwrap();
        client.next_offer(with(&stolen, v1::NextOfferRequest::default())).await.expect("it holds until the change");
        let site = &mut world.sites[1];
        let new = ed25519_dalek::SigningKey::from_bytes(&[77; 32]);
        let change = KeyChange {
            worker: site.worker,
            number: 1,
            old: hex::encode(site.key.verifying_key().to_bytes()),
            new: hex::encode(new.verifying_key().to_bytes()),
            receipts: site.sequence,
            last: site.head.clone(),
            at: time::OffsetDateTime::UNIX_EPOCH,
        };
        let rotate = v1::RotateKeyRequest {
            by_old: Some(Signed::new(&change, &site.key).unwrap().into()),
            by_new: Some(Signed::new(&change, &new).unwrap().into()),
        };
        client.rotate_key(rotate).await.unwrap();
        let offer = client.next_offer(with(&stolen, v1::NextOfferRequest::default())).await.map(drop);
        let renewal = client.renew(with(&stolen, v1::RenewRequest { lease: "none".to_owned() })).await.map(drop);
        let submission = client.submit(with(&stolen, futures::stream::iter(Vec::<v1::SubmitChunk>::new()))).await.map(drop);
        for refused in [offer, renewal, submission] {
            assert_eq!(to_problem(&refused.unwrap_err()).code, Code::Unauthenticated);
        }
        assert_eq!(sign_in(&mut client, site).await, Err(Code::Unauthenticated), "nor does the old key open another");
        site.key = new;
        let session = sign_in(&mut client, site).await.unwrap();
        client.next_offer(with(&session, v1::NextOfferRequest::default())).await.expect("the new key's session holds");
    }

    async fn a_challenge_is_answered_once(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let mut client = serve(&app.ctx).await;
        let site = &world.sites[1];
        let ask = v1::ChallengeRequest { worker_id: site.worker.to_string() };
        let challenge = client.challenge(ask).await.unwrap().into_inner().challenge;
        let presence = Signed::new(&PresenceProof { worker: site.worker, challenge }, &site.key).unwrap();
        let answer = v1::SignInRequest { presence: Some(presence.into()), version: String::new(), kinds: vec![] };
        client.sign_in(answer.clone()).await.unwrap();
        assert_eq!(to_problem(&client.sign_in(answer).await.unwrap_err()).code, Code::Unauthenticated);
    }

    async fn nothing_is_answered_without_a_session(app: &TestApp) {
        let mut client = serve(&app.ctx).await;
        let nothing = || futures::stream::iter(Vec::new());
        let refused = [
            client.register_dataset(v1::RegisterDatasetRequest::default()).await.err(),
            client.next_offer(v1::NextOfferRequest::default()).await.err(),
            client.decide(v1::DecideRequest::default()).await.err(),
            client.renew(v1::RenewRequest::default()).await.err(),
            client.submit(nothing()).await.err(),
            client.received(v1::ReceivedRequest::default()).await.err(),
            client.ask(futures::stream::iter(Vec::new())).await.err(),
            client.asked(v1::AskedRequest::default()).await.err(),
            client.choose(v1::ChooseRequest::default()).await.err(),
            client.answers(v1::AnswersRequest::default()).await.err(),
            client.average(v1::AverageRequest::default()).await.err(),
            client.put_artifact(futures::stream::iter(Vec::new())).await.err(),
            client.get_artifact(v1::GetArtifactRequest::default()).await.err(),
            client.measure(v1::MeasureRequest::default()).await.err(),
            client.finish(v1::FinishRequest::default()).await.err(),
        ];
        for (call, status) in refused.into_iter().enumerate() {
            assert_eq!(to_problem(&status.expect("refused")).code, Code::Unauthenticated, "{call}");
        }
    }

    async fn a_round_travels_over_the_wire_bit_for_bit(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let job = world.queued(1).await;
        let mut client = serve(&app.ctx).await;
        let vector: Vec<f32> = (0..CHUNK / 4 + 3).map(|index| index as f32 / 7.0).collect();
        let mut leases = Vec::new();
        for site in 0..2 {
            let session = sign_in(&mut client, &world.sites[site]).await.unwrap();
            let lease = work(&mut client, &session).await.lease;
            let receipts = if site == 0 { vec![] } else { vec![world.sites[1].receipt(&job, 1, 1).into()] };
            let chunks = futures::stream::iter(submission(&lease, &vector, receipts));
            assert!(!client.submit(with(&session, chunks)).await.unwrap().into_inner().repeated);
            leases.push((session, lease));
        }
        let (session, lease) = &leases[1];
        let (header, data) = average(&mut client, session, lease, 0).await;
        assert_eq!((header.ready, header.contributors, header.length), (true, 2, vector.len() as u64));
        assert_eq!((header.digest, header.size), (hex::encode(Sha256::digest(&data)), data.len() as u64));
        let form = VectorForm::new(Precision::F32, header.length).unwrap();
        assert!(header.size < form.bytes(), "packed");
        assert_eq!(read(&data, form).unwrap(), vector, "the mean of two equal vectors");
        let (_, rest) = average(&mut client, session, lease, 1000).await;
        assert_eq!(rest, data[1000..], "what the worker has need not come again");
    }

    async fn a_submission_whose_connection_breaks_goes_on_where_it_was(app: &TestApp) {
        const PIECE: usize = 100_003;
        let mut world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let job = world.queued(1).await;
        let address = listen(&app.ctx);
        let mut client = connect(address).await;
        let session = sign_in(&mut client, &world.sites[1]).await.unwrap();
        let lease = work(&mut client, &session).await.lease;
        let vector: Vec<f32> = (0..2 * CHUNK).map(|index| (index as f32).sin()).collect();
        let data: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
        let digest = hex::encode(Sha256::digest(&data));
        let received = async |client: &mut Client| {
            let lease = lease.clone();
            let series = "private".to_owned();
            let digest = digest.clone();
            let ask = v1::ReceivedRequest { lease, series, round: 1, digest };
            client.received(with(&session, ask)).await.unwrap().into_inner().bytes
        };
        assert_eq!(received(&mut client).await, 0);

        // The connection breaks in the middle of the stream. It carries more than a connection buffers unread (1 MiB):
        // when more is requested, the server has read some pieces.
        let header = submission(&lease, &vector, vec![]).swap_remove(0);
        let pieces = data[..16 * PIECE].chunks(PIECE).map(|piece| submit_chunk::Part::Data(piece.to_vec()));
        let pieces: Vec<_> = pieces.map(|part| v1::SubmitChunk { part: Some(part) }).collect();
        let (asking, asked) = tokio::sync::oneshot::channel();
        let more = async move {
            asking.send(()).unwrap();
            std::future::pending::<v1::SubmitChunk>().await
        };
        let chunks = futures::stream::iter(std::iter::once(header).chain(pieces)).chain(futures::stream::once(more));
        let (breaking, connection) = frail(address).await;
        let mut sender = connect(breaking).await;
        let before = tokio::time::Instant::now();
        let request = with(&session, chunks);
        let sending = tokio::spawn(async move { sender.submit(request).await });
        asked.await.expect("the server takes all of it");
        connection.abort();
        sending.await.unwrap().unwrap_err();
        // Bytes in memory are stored when the server notices the end, before they are due.
        let mut offset = 0;
        while offset == 0 {
            let reply = tokio::time::timeout_at(before + LONGEST_HELD, received(&mut client)).await;
            offset = reply.expect("kept at the break") as usize;
        }
        assert!(offset >= CHUNK && offset.is_multiple_of(PIECE), "{offset}: all that has come whole");

        // The next connection stops after a whole segment, which is stored in time.
        let mut some = submission_from(offset, &lease, &data, vec![]);
        some.truncate(2);
        let request = with(&session, futures::stream::iter(some).chain(futures::stream::pending()));
        let mut sender = client.clone();
        let silent = tokio::spawn(async move { sender.submit(request).await });
        let offset = offset + CHUNK;
        while received(&mut client).await < offset as u64 {
            tokio::task::yield_now().await;
        }
        silent.abort();

        let ahead = submission_from(offset + 1, &lease, &data, vec![]);
        let refused = client.submit(with(&session, futures::stream::iter(ahead))).await.unwrap_err();
        assert_eq!(to_problem(&refused).code, Code::Unavailable, "nobody goes on beyond what is there");
        let receipt = world.sites[1].receipt(&job, 1, 1);
        let rest = submission_from(offset, &lease, &data, vec![receipt.into()]);
        let reply = client.submit(with(&session, futures::stream::iter(rest))).await.unwrap().into_inner();
        assert!(!reply.repeated);
        assert_eq!(received(&mut client).await, u64::MAX, "it stands");
        let again = submission_from(data.len(), &lease, &data, vec![]);
        let reply = client.submit(with(&session, futures::stream::iter(again))).await.unwrap().into_inner();
        assert!(reply.repeated, "without a byte of it");
    }

    async fn vector_that_differs_from_the_manifest_is_refused_early(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        world.queued(1).await;
        let mut client = serve(&app.ctx).await;
        let session = sign_in(&mut client, &world.sites[1]).await.unwrap();
        let lease = work(&mut client, &session).await.lease;
        let header = |length, size| v1::SubmitHeader {
            lease: lease.clone(),
            series: "private".to_owned(),
            round: 1,
            digest: "0".repeat(64),
            length,
            size,
            ..Default::default()
        };
        for (length, size) in [(1, 5), (50_000_000, 4), (u64::MAX, 4)] {
            let part = Some(submit_chunk::Part::Header(header(length, size)));
            let chunks = futures::stream::iter([v1::SubmitChunk { part }]).chain(futures::stream::pending());
            let refused = client.submit(with(&session, chunks)).await.unwrap_err();
            assert_eq!(to_problem(&refused).code, Code::TooLarge, "{length} numbers in {size} bytes");
        }
    }

    async fn files_come_from_the_lead_alone_and_reach_the_others(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        world.queued(1).await;
        let mut client = serve(&app.ctx).await;
        let content = vec![7_u8; CHUNK + 5];
        let put = |lease: &str| {
            let header = v1::PutArtifactHeader {
                lease: lease.to_owned(),
                name: "warm.safetensors".to_owned(),
                size: content.len() as u64,
                digest: hex::encode(Sha256::digest(&content)),
            };
            let parts = [put_artifact_chunk::Part::Header(header), put_artifact_chunk::Part::Data(content.clone())];
            futures::stream::iter(parts.map(|part| v1::PutArtifactChunk { part: Some(part) }))
        };
        let lead = sign_in(&mut client, &world.sites[0]).await.unwrap();
        let other = sign_in(&mut client, &world.sites[1]).await.unwrap();
        let lead_lease = work(&mut client, &lead).await.lease;
        let other_lease = work(&mut client, &other).await.lease;
        let refused = client.put_artifact(with(&other, put(&other_lease))).await.unwrap_err();
        assert_eq!(to_problem(&refused).code, Code::Forbidden);
        client.put_artifact(with(&lead, put(&lead_lease))).await.unwrap();
        let ask = v1::GetArtifactRequest { lease: other_lease, name: "warm.safetensors".to_owned(), wait_seconds: 0, offset: 7 };
        let mut answer = client.get_artifact(with(&other, ask)).await.unwrap().into_inner();
        let mut data = Vec::new();
        while let Some(chunk) = answer.next().await {
            if let Some(get_artifact_chunk::Part::Data(piece)) = chunk.unwrap().part {
                data.extend(piece);
            }
        }
        assert_eq!(data, content[7..], "what the other has need not come again");
    }
}
