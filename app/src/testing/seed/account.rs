//! What the steward's account has: API keys in every state, an identity, a passkey, an approval key, notification switches.

use time::Duration;
use undertone_api::api_key::{KeyScope, NewApiKey};
use undertone_api::approval_key::NewApprovalKey;
use undertone_api::notification::{NotificationKind, NotificationSwitches};
use undertone_api::signed::ApprovalKey;
use undertone_server_core::auth::provider::Identity;
use undertone_server_core::service::{api_key, approval_key, notification, oidc};
use undertone_server_core::testing::insert_passkey;

use super::Seeding;

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
        insert_passkey(ctx, steward.id(), "the laptop", Some(ctx.now() + Duration::days(6))).await;
        let key = ApprovalKey::Ed25519 {
            public_key: "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a".to_owned(),
        };
        let new = NewApprovalKey { label: "the key in the safe".to_owned(), key };
        approval_key::create(ctx, steward, &new).await.expect("a member may add keys");
        let switches = NotificationSwitches { off: vec![NotificationKind::InvitationAccepted] };
        notification::set_switches(ctx, steward, &switches).await.expect("one's own");
    }
}
