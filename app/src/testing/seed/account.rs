//! What the steward's account has: API keys in every state, an identity, an approval key, notification switches; and the
//! sessions at the end, one of them by a passkey.

use undertone_api::api_key::{KeyScope, NewApiKey};
use undertone_api::approval_key::NewApprovalKey;
use undertone_api::id::{JobId, SessionId};
use undertone_api::notification::{NotificationKind, NotificationQuery, NotificationSwitches};
use undertone_api::passkey::PasskeySignIn;
use undertone_api::session::SignIn;
use undertone_api::signed::ApprovalKey;
use undertone_server_core::auth::provider::Identity;
use undertone_server_core::auth::{Actor, Origin};
use undertone_server_core::service::session::SignInResult;
use undertone_server_core::service::{api_key, approval_key, notification, oidc, session, sessions};
use undertone_server_core::testing::{PASSWORD, SoftwarePasskey};

use super::Seeding;
use super::people::email_of;

/// The seed of the steward's passkey.
pub(crate) const PASSKEY_SEED: u8 = 7;

impl Seeding {
    /// Prepares the account, a week before the present.
    pub(super) async fn prepare_account(&self) {
        let (ctx, steward) = (self.ctx(), &self.people.steward);
        for (name, days) in [("nightly export", 60), ("last year's export", 1), ("laptop", 60)] {
            let new = NewApiKey { name: name.to_owned(), scopes: vec![KeyScope::Read, KeyScope::Ledger], days };
            let key = api_key::create(ctx, steward, &new).await.expect("a member may make keys");
            match name {
                "nightly export" => {
                    let secret = key.secret.expect("the answer that made it holds it");
                    api_key::authenticate(ctx, &secret).await.expect("the key works");
                }
                "laptop" => api_key::revoke(ctx, steward, key.id).await.expect("one's own"),
                _ => {}
            }
        }
        let identity = Identity {
            issuer: "https://login.clinic.example".to_owned(),
            subject: "steward-of-north".to_owned(),
            email: None,
            name: None,
        };
        let linked = oidc::link(ctx, steward, &identity).await.expect("the identity is free");
        linked.expect("no domain is required");
        let key = ApprovalKey::Ed25519 {
            public_key: "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a".to_owned(),
        };
        let new = NewApprovalKey { label: "the key in the safe".to_owned(), key };
        approval_key::create(ctx, steward, &new).await.expect("a member may add keys");
        let switches = NotificationSwitches { off: vec![NotificationKind::InvitationAccepted] };
        notification::set_switches(ctx, steward, &switches).await.expect("one's own");
    }

    /// Signs in the operator, and the steward twice: by the password, and by a passkey that is registered in between.
    /// Returns the sessions of the steward, by the passkey first, and of the operator.
    pub(super) async fn sign_in(&self) -> [SessionId; 3] {
        let ctx = self.ctx();
        let firefox = "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0";
        let operator = self.sign_in_by_password("Operator", "192.0.2.8", firefox).await;
        let steward = self.sign_in_by_password("Steward of North", "192.0.2.7", firefox).await;
        let session = steward.session().expect("it is a session");
        for other in sessions::list(ctx, &steward).await.expect("one's own").iter().filter(|other| !other.current) {
            sessions::end(ctx, &steward, other.id).await.expect("one's own");
        }
        let mut passkey = SoftwarePasskey::of_member(ctx, steward.id(), PASSKEY_SEED);
        passkey.register_for(ctx, &steward, "the laptop").await.expect("the passkey is new");
        let challenge = session::sign_in_challenge(ctx, "").await.expect("anyone may ask");
        let given = PasskeySignIn { half_token: String::new(), passkey: passkey.sign(&challenge) };
        let safari = "Mozilla/5.0 (iPhone) Version/26.0 Safari/605.1";
        let origin = Origin::new("2001:db8:1::7".parse().expect("an address"), safari);
        let entered = session::passkey_sign_in(ctx, origin, &given).await.expect("the passkey signs");
        let by_passkey = session::signed_in(ctx, &entered.tokens.access_token).await.expect("signed in");
        [&by_passkey, &steward, &operator].map(|actor| actor.session().unwrap_or(session))
    }

    /// Marks the steward's notifications as read, except those of silent workers and of a job that waits.
    pub(super) async fn read_notifications(&self, waiting: JobId) {
        let (ctx, steward) = (self.ctx(), &self.people.steward);
        let unread = NotificationQuery { unread: Some(true), limit: Some(100), ..NotificationQuery::default() };
        for one in notification::list(ctx, steward, &unread).await.expect("one's own").items {
            let is_kept = match one.kind {
                NotificationKind::JobWaits => one.job == Some(waiting),
                NotificationKind::WorkerSilent => true,
                _ => false,
            };
            if !is_kept {
                notification::read(ctx, steward, one.id).await.expect("one's own");
            }
        }
    }

    async fn sign_in_by_password(&self, name: &str, address: &str, agent: &str) -> Actor {
        let origin = Origin::new(address.parse().expect("an address"), agent);
        let credentials = SignIn { email: email_of(name), password: PASSWORD.to_owned() };
        let entered = session::sign_in(self.ctx(), origin, &credentials).await.expect("the password is right");
        let SignInResult::Whole(entered) = entered else { panic!("{name} has no second factor") };
        session::signed_in(self.ctx(), &entered.tokens.access_token).await.expect("signed in")
    }
}
