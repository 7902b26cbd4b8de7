//! Rate limits, over a real connection.

use std::time::{Duration, Instant};

use tonic::transport::{Channel, Endpoint};
use tonic::{Code as GrpcCode, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use undertone_api::problem::Code;
use undertone_proto::v1::worker_gateway_client::WorkerGatewayClient;
use undertone_proto::{retry_delay, to_problem, v1};

use super::{Client, sign_in, with};
use crate::testing::TestApp;
use undertone_server_core::config::RateConfig;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::world::TestConsortium;

/// The capacity of a minute's bucket in these tests.
const HOLDS: u32 = 60;

/// Connects to a gateway on loopback, which runs until the server stops.
async fn connect(ctx: &Ctx) -> Channel {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let ctx = ctx.clone();
    tokio::spawn(async move { crate::grpc::serve(&ctx, listener).await });
    Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap()
}

/// Returns the refusal of a worker's call by the rate limit, if any; other errors are ignored.
async fn renew(client: &mut Client, session: &str) -> Option<Status> {
    let answer = client.renew(with(session, v1::RenewRequest { lease: "none".to_owned() })).await;
    answer.err().filter(|status| status.code() == GrpcCode::ResourceExhausted)
}

/// Returns the refusal of an unauthenticated call by the rate limit, if any.
async fn knock(client: &mut Client, name: &str) -> Option<Status> {
    let answer = client.next_offer(with(name, v1::NextOfferRequest::default())).await;
    answer.err().filter(|status| status.code() == GrpcCode::ResourceExhausted)
}

/// Whether a write of a worker is turned away; it decides nothing.
async fn decide(client: &mut Client, session: &str) -> Option<Status> {
    let answer = client.decide(with(session, v1::DecideRequest::default())).await;
    answer.err().filter(|status| status.code() == GrpcCode::ResourceExhausted)
}

/// Whether somebody is turned away who has not signed in, and for whom a proxy would name an address of their own.
async fn knock_from(client: &mut Client, last: u8) -> Option<Status> {
    let mut request = Request::new(v1::NextOfferRequest::default());
    request.metadata_mut().insert("x-forwarded-for", format!("203.0.113.{last}").parse().unwrap());
    let answer = client.next_offer(request).await;
    answer.err().filter(|status| status.code() == GrpcCode::ResourceExhausted)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_of_an_organization_beyond_its_rate_are_refused() {
    let rates = RateConfig { by_organization: HOLDS, ..RateConfig::default() };
    let app = TestApp::sqlite_with(|config| config.rates = rates).await;
    let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
    let mut client = WorkerGatewayClient::new(connect(&app.ctx).await);
    let first = sign_in(&mut client, &world.sites[0]).await.unwrap();
    let second = sign_in(&mut client, &world.sites[1]).await.unwrap();
    let start = Instant::now();
    let mut answers = 0;
    let refused = loop {
        if let Some(refused) = decide(&mut client, &first).await {
            break refused;
        }
        answers += 1;
    };
    assert!((u64::from(HOLDS)..=u64::from(HOLDS) + 1 + start.elapsed().as_secs()).contains(&answers), "{answers}");
    let problem = to_problem(&refused);
    assert!(problem.code == Code::RateLimited && problem.detail.contains("rates.by_organization"), "{problem:?}");
    assert!(retry_delay(&refused).is_some_and(|wait| !wait.is_zero() && wait <= Duration::from_secs(1)), "{refused:?}");
    assert!(decide(&mut client, &second).await.is_none(), "another organization has its own bucket");
    assert!(renew(&mut client, &first).await.is_none(), "a sign of life is no write");
    app.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proxy_before_the_other_face_names_no_address_here() {
    for is_behind_proxy in [false, true] {
        let app = TestApp::sqlite_with(|config| {
            config.rates = RateConfig { by_caller: HOLDS, by_address: HOLDS, ..RateConfig::default() };
            config.grpc_behind_proxy = is_behind_proxy;
            config.http_behind_proxy = !is_behind_proxy;
        })
        .await;
        let mut client = WorkerGatewayClient::new(connect(&app.ctx).await);
        let mut refused = 0;
        for last in 0..=u8::MAX {
            refused += u32::from(knock_from(&mut client, last).await.is_some());
        }
        assert_eq!(refused == 0, is_behind_proxy, "{refused} of 256 calls were turned away");
        app.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_beyond_the_rate_are_refused_with_a_retry_time() {
    let rates = RateConfig { by_caller: 2 * HOLDS, by_address: 2 * HOLDS, by_worker: HOLDS, ..RateConfig::default() };
    let app = TestApp::sqlite_with(|config| config.rates = rates).await;
    let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
    let channel = connect(&app.ctx).await;
    let mut client = WorkerGatewayClient::new(channel.clone());
    let first = sign_in(&mut client, &world.sites[0]).await.unwrap();
    let second = sign_in(&mut client, &world.sites[1]).await.unwrap();

    // The bucket refills during the test: one call a second.
    let start = Instant::now();
    let mut answers = 0;
    let refused = loop {
        if let Some(refused) = renew(&mut client, &first).await {
            break refused;
        }
        answers += 1;
    };
    assert!((u64::from(HOLDS)..=u64::from(HOLDS) + 1 + start.elapsed().as_secs()).contains(&answers), "{answers}");
    assert_eq!(to_problem(&refused).code, Code::RateLimited);
    let wait = retry_delay(&refused).expect("it is told when to come again");
    assert!(!wait.is_zero() && wait <= Duration::from_secs(1), "{wait:?}");
    assert!(renew(&mut client, &second).await.is_none(), "another worker at the same address has its own bucket");

    // A caller without a session is limited by address, whatever token it sends.
    let mut names = 0;
    while knock(&mut client, &format!("invented-{names}")).await.is_none() {
        names += 1;
        assert!(names < 1000, "an address has more than its share by inventing sessions");
    }
    assert!(names + 4 >= 2 * HOLDS, "the calls to sign in and {names} more were answered");
    assert!(
        renew(&mut client, &second).await.is_none(),
        "a worker that has signed in does not wait for its neighbours"
    );
    let healthy = HealthClient::new(channel).check(HealthCheckRequest::default()).await;
    assert!(healthy.is_ok(), "health is not counted: {healthy:?}");
    let metrics = undertone_server_core::metrics_text::render(&app.ctx).await.expect("text");
    let turned_away = metrics.lines().find_map(|line| line.strip_prefix("undertone_requests_turned_away_total "));
    assert!(turned_away.is_some_and(|count| count.parse::<u32>().is_ok_and(|count| count >= 2)), "{turned_away:?}");
    assert!(metrics.contains("code=\"ResourceExhausted\""), "{metrics}");
    app.close().await;
}
