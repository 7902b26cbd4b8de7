//! That every operation that makes credentials or changes access asks for a proof of identity that is not older than ten minutes.

use undertone_api::account::NewReset;
use undertone_api::api_key::{KeyScope, NewApiKey};
use undertone_api::approval_key::NewApprovalKey;
use undertone_api::id::{ApprovalKeyId, IdentityId, PasskeyId, WorkerId};
use undertone_api::member::{NewConsortiumMember, Role, RoleAssignment};
use undertone_api::organization::{InvitationPurpose, NewInvitation};
use undertone_api::passkey::{NewPasskey, PasskeyRegistration, PasskeyUse};
use undertone_api::problem::Code;
use undertone_api::retirement::StatedReason;
use undertone_api::signed::ApprovalKey;
use undertone_api::worker::NewEnrolment;
use uuid::Uuid;

use crate::auth::Actor;
use crate::auth::provider::Identity;
use crate::error::Error;
use crate::service::{
    api_key, approval_key, factor, invitation, oidc, passkey, reset, retirement, role, session, worker,
};
use crate::testing::{Person, TestApp, on_both};

/// Returns a person's session as it is when the last proof of identity is too old.
async fn stale(app: &TestApp, person: &Person) -> Actor {
    Actor { is_fresh: false, ..person.actor(app).await }
}

fn code<T>(result: Result<T, Error>) -> Option<Code> {
    result.err().map(|error| error.code())
}

on_both! {
    async fn stale_session_makes_no_credential_and_changes_no_access(app: &TestApp) {
        let founded = app.founded().await;
        let (ctx, consortium, north) = (&app.ctx, founded.consortium, founded.north.0);
        let operator = stale(app, &founded.operator).await;
        let admin = stale(app, &founded.north.1).await;
        let member = admin.id();
        let worker_id = WorkerId(Uuid::nil());
        let roles = RoleAssignment { roles: vec![Role::Researcher] };
        let none = RoleAssignment { roles: Vec::new() };
        let auditor = RoleAssignment { roles: vec![Role::Auditor] };
        let by_email = NewConsortiumMember { email: admin.member.email.clone(), roles: vec![Role::Auditor] };
        let reason = StatedReason { reason: "the machine was stolen".to_owned() };
        let key = NewApiKey { name: "export".to_owned(), scopes: vec![KeyScope::Read], days: 30 };
        let public_key = hex::encode(ed25519_dalek::SigningKey::from_bytes(&[1; 32]).verifying_key().to_bytes());
        let steward_key = NewApprovalKey { label: "safe".to_owned(), key: ApprovalKey::Ed25519 { public_key } };
        let registration = PasskeyRegistration {
            ticket: String::new(),
            client_data: String::new(),
            authenticator_data: String::new(),
        };
        let new_passkey = NewPasskey { label: "laptop".to_owned(), registration };
        let identity = Identity {
            issuer: "https://login.example".to_owned(),
            subject: "a".to_owned(),
            email: None,
            name: None,
        };
        let invitation = |purpose| NewInvitation { purpose, label: "link".to_owned() };
        let enrolment = NewEnrolment { name: "site".to_owned() };
        let new_reset = NewReset { email: admin.member.email.clone(), clear_second_factor: false };
        let answers = [
            ("make an API key", code(api_key::create(ctx, &admin, &key).await)),
            ("list an approval key", code(approval_key::create(ctx, &admin, &steward_key).await)),
            ("remove an approval key", code(approval_key::remove(ctx, &admin, ApprovalKeyId(Uuid::nil())).await)),
            ("be sent to the provider to link", code(oidc::check_may_link(&admin))),
            ("link an identity", code(oidc::link(ctx, &admin, &identity).await)),
            ("unlink an identity", code(oidc::unlink(ctx, &admin, IdentityId(Uuid::nil())).await)),
            ("begin a passkey", code(passkey::challenge(ctx, &admin, PasskeyUse::Register).await)),
            ("register a passkey", code(passkey::create(ctx, &admin, &new_passkey).await)),
            ("remove a passkey", code(passkey::remove(ctx, &admin, PasskeyId(Uuid::nil())).await)),
            ("begin a second factor", code(factor::offer(ctx, &admin).await)),
            ("invite an operator", code(invitation::create(ctx, &operator, &invitation(InvitationPurpose::Operator)).await)),
            (
                "invite an organization",
                code(invitation::create(ctx, &operator, &invitation(InvitationPurpose::Organization { consortium })).await),
            ),
            (
                "invite an annotator",
                code(invitation::create(ctx, &operator, &invitation(InvitationPurpose::Annotator { consortium })).await),
            ),
            (
                "invite a member",
                code(
                    invitation::create(
                        ctx,
                        &admin,
                        &invitation(InvitationPurpose::Member { organization: north, roles: vec![Role::Auditor] }),
                    )
                    .await,
                ),
            ),
            ("enrol a worker", code(worker::invite(ctx, &admin, north, &enrolment).await)),
            ("replace a worker", code(worker::invite_replacement(ctx, &admin, north, worker_id).await)),
            ("reset a password", code(reset::create(ctx, &operator, &new_reset).await)),
            ("give roles in an organization", code(role::assign(ctx, &admin, north, member, &roles).await)),
            ("remove a member", code(role::remove(ctx, &admin, north, member).await)),
            ("confirm an address", code(role::confirm_address(ctx, &admin, north, member).await)),
            ("add a role over a consortium", code(role::add_consortium_member(ctx, &operator, consortium, &by_email).await)),
            (
                "give roles over a consortium",
                code(role::assign_consortium_roles(ctx, &operator, consortium, member, &auditor).await),
            ),
            ("take roles over a consortium", code(role::assign_consortium_roles(ctx, &operator, consortium, member, &none).await)),
            ("retire an account", code(retirement::retire_account(ctx, &operator, member, &reason).await)),
            ("restore an account", code(retirement::restore_account(ctx, &operator, member, &reason).await)),
            ("retire a member", code(retirement::retire_member(ctx, &admin, north, member, &reason).await)),
            ("restore a member", code(retirement::restore_member(ctx, &admin, north, member, &reason).await)),
            (
                "retire an organization",
                code(retirement::retire_organization(ctx, &operator, consortium, north, &reason).await),
            ),
            (
                "restore an organization",
                code(retirement::restore_organization(ctx, &operator, consortium, north, &reason).await),
            ),
            ("retire a worker", code(retirement::retire_worker(ctx, &admin, north, worker_id, &reason).await)),
            ("restore a worker", code(retirement::restore_worker(ctx, &admin, north, worker_id, &reason).await)),
            ("write a worker off", code(retirement::write_off_worker(ctx, &admin, north, worker_id, &reason).await)),
        ];
        for (operation, answer) in answers {
            assert_eq!(answer, Some(Code::ProofStale), "{operation}");
        }
        session::actor_of(ctx, admin.session().expect("signed in")).await.expect("the session goes on");
    }
}
