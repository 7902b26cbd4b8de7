//! Limits of the workers' interface, each at its value and one beyond.

use time::Duration;
use tonic::Code as GrpcCode;
use undertone_api::id::WorkerId;
use undertone_api::job::ParticipantState;
use undertone_api::problem::Code;
use undertone_proto::{to_problem, v1};

use super::{Client, serve, sign_in, with};
use crate::grpc::{LARGEST_MESSAGE, SESSION};
use crate::testing::on_both;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::exchange::artifact::MAX_SIZE;
use undertone_server_core::service::world::TestConsortium;
use undertone_server_core::service::{challenge, lease, model};

/// Returns the code that refuses a registration of this length: it is invalid at any size.
async fn registered(client: &mut Client, session: &str, characters: usize) -> GrpcCode {
    let message = v1::RegisterDatasetRequest { registration: "x".repeat(characters) };
    client.register_dataset(with(session, message)).await.unwrap_err().code()
}

/// Returns the code that refuses a challenge, if any.
async fn spent(ctx: &Ctx, worker: WorkerId, text: &str) -> Option<Code> {
    let spent = ctx.db.write("test", async |tx| challenge::spend(ctx, tx, worker, text).await).await;
    spent.err().map(|error| error.code())
}

async fn renewed(client: &mut Client, session: &str) -> Code {
    let asked = with(session, v1::RenewRequest { lease: "none".to_owned() });
    to_problem(&client.renew(asked).await.unwrap_err()).code
}

on_both! {
    async fn a_session_holds_for_twelve_hours_and_not_a_second_longer(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let mut client = serve(&app.ctx).await;
        let session = sign_in(&mut client, &world.sites[1]).await.unwrap();
        app.clock.advance(SESSION - Duration::SECOND);
        assert_ne!(renewed(&mut client, &session).await, Code::Unauthenticated);
        app.clock.advance(Duration::SECOND);
        assert_eq!(renewed(&mut client, &session).await, Code::Unauthenticated);
    }

    async fn a_lease_holds_for_a_minute_without_a_word_and_no_longer(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let job = world.queued(1).await.summary.id;
        world.lease(1).await;
        app.clock.advance(Duration::seconds(i64::from(lease::SECONDS) - 1));
        assert_eq!(world.job(job).await.participants[1].state, ParticipantState::Running);
        app.clock.advance(Duration::SECOND);
        assert_eq!(world.job(job).await.participants[1].state, ParticipantState::Silent);
    }

    async fn a_challenge_is_answered_within_a_minute_and_once(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let worker = world.sites[1].worker;
        let asked = challenge::ask(&app.ctx, worker).await.unwrap();
        app.clock.advance(challenge::PATIENCE - Duration::SECOND);
        assert_eq!(spent(&app.ctx, worker, &asked).await, None);
        assert_eq!(spent(&app.ctx, worker, &asked).await, Some(Code::Unauthenticated));
        let asked = challenge::ask(&app.ctx, worker).await.unwrap();
        app.clock.advance(challenge::PATIENCE);
        assert_eq!(spent(&app.ctx, worker, &asked).await, Some(Code::Unauthenticated));
    }

    async fn a_message_of_sixteen_mebibytes_is_read_and_one_byte_more_is_not(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let mut client = serve(&app.ctx).await;
        let session = sign_in(&mut client, &world.sites[1]).await.unwrap();
        // A tag, four bytes of length, the text.
        let most = LARGEST_MESSAGE - 5;
        assert_eq!(registered(&mut client, &session, most).await, GrpcCode::InvalidArgument);
        assert_eq!(registered(&mut client, &session, most + 1).await, GrpcCode::OutOfRange);
    }

    async fn a_file_has_two_gibibytes_and_no_more(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let worker = world.sites[0].worker;
        let begin = async |size: u64| {
            let (name, digest) = ("model.safetensors".to_owned(), "ab".repeat(32));
            let header = model::ArtifactHeader { lease: "none".to_owned(), name, size, digest };
            model::begin(&app.ctx, worker, header).await.err().expect("nobody has this lease").code()
        };
        assert_ne!(begin(MAX_SIZE).await, Code::TooLarge);
        assert_eq!(begin(MAX_SIZE + 1).await, Code::TooLarge);
    }
}
