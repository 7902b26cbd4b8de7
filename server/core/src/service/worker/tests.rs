use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::SigningKey;
use undertone_api::problem::Code;
use undertone_api::worker::{Enrolment, EnrolmentToken, NewEnrolment};

use super::{ONLINE, TOKEN_LIFETIME, enrol, invite, list};
use crate::testing::{FoundedConsortium, TestApp, on_both};

fn key(seed: u8) -> String {
    hex::encode(SigningKey::from_bytes(&[seed; 32]).verifying_key().to_bytes())
}

async fn token(app: &TestApp, founded: &FoundedConsortium) -> EnrolmentToken {
    let new = NewEnrolment { name: "beside the data".to_owned() };
    let actor = founded.north.1.actor(app).await;
    opened(&invite(&app.ctx, &actor, founded.north.0, &new).await.expect("may enrol"))
}

/// Returns the content of a token.
pub(in crate::service) fn opened(made: &Enrolment) -> EnrolmentToken {
    let json = URL_SAFE_NO_PAD.decode(made.token.strip_prefix("ute1.").expect("the prefix")).expect("base64url");
    serde_json::from_slice(&json).expect("JSON")
}

on_both! {
    async fn a_token_says_where_the_server_is_and_with_what_key_it_signs(app: &TestApp) {
        let founded = app.founded().await;
        let token = token(app, &founded).await;
        assert_eq!(token.server, app.ctx.addresses.grpc);
        assert_eq!(token.certificate, None, "there is no TLS on loopback");
        assert_eq!(token.server_key, hex::encode(app.ctx.signer.verifying_key().to_bytes()));
    }

    async fn a_worker_enrols_once_and_may_lose_the_answer(app: &TestApp) {
        let founded = app.founded().await;
        let token = token(app, &founded).await;
        let worker = enrol(&app.ctx, &token.secret, &key(1), "0.1.0", &[]).await.expect("enrolled");
        assert_eq!((worker.organization, worker.name.as_str()), (founded.north.0, "beside the data"));
        let again = enrol(&app.ctx, &token.secret, &key(1), "0.1.0", &[]).await.expect("the same answer");
        assert_eq!(again.id, worker.id);
        let other = enrol(&app.ctx, &token.secret, &key(2), "0.1.0", &[]).await;
        assert_eq!(other.expect_err("spent").code(), Code::LinkSpent);
        let list = list(&app.ctx, &founded.south.1.actor(app).await, founded.north.0).await.expect("peers see it");
        assert_eq!(list.len(), 1);
        assert!(!list[0].online && ONLINE.is_positive());
    }

    async fn a_key_is_one_workers(app: &TestApp) {
        let founded = app.founded().await;
        let (first, second) = (token(app, &founded).await, token(app, &founded).await);
        enrol(&app.ctx, &first.secret, &key(1), "0.1.0", &[]).await.expect("enrolled");
        let refusal = enrol(&app.ctx, &second.secret, &key(1).to_uppercase(), "0.1.0", &[]).await;
        assert_eq!(refusal.expect_err("taken").code(), Code::AlreadyExists);
    }

    async fn a_token_is_over_after_a_day(app: &TestApp) {
        let founded = app.founded().await;
        let token = token(app, &founded).await;
        app.clock.advance(TOKEN_LIFETIME);
        let late = enrol(&app.ctx, &token.secret, &key(1), "0.1.0", &[]).await;
        assert_eq!(late.expect_err("over").code(), Code::LinkSpent);
    }

    async fn whoever_bears_no_token_opens_no_transaction(app: &TestApp) {
        let founded = app.founded().await;
        let opened = async || {
            let text = crate::metrics_text::render(&app.ctx).await.expect("text");
            text.contains("name=\"enrol worker\"")
        };
        let refused = enrol(&app.ctx, "invented", &key(1), "0.1.0", &[]).await;
        assert_eq!(refused.expect_err("nobody made it").code(), Code::LinkSpent);
        assert!(!opened().await, "it was looked up and nothing more");
        let token = token(app, &founded).await;
        enrol(&app.ctx, &token.secret, &key(1), "0.1.0", &[]).await.expect("enrolled");
        assert!(opened().await, "whoever bears one does");
    }

    async fn only_an_organizations_admin_enrols_its_workers(app: &TestApp) {
        let founded = app.founded().await;
        let new = NewEnrolment { name: "x".to_owned() };
        let refused = invite(&app.ctx, &founded.south.1.actor(app).await, founded.north.0, &new).await.map(drop);
        assert_eq!(refused.expect_err("a peer").code(), Code::Forbidden);
    }

    async fn what_is_no_key_is_refused(app: &TestApp) {
        let founded = app.founded().await;
        let token = token(app, &founded).await;
        let refused = enrol(&app.ctx, &token.secret, "00ff", "0.1.0", &[]).await;
        assert_eq!(refused.expect_err("no key").code(), Code::ValidationFailed);
    }
}
