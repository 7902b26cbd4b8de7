//! Members, organizations and accounts: sessions, keys, roles and streams end at once.

use std::time::Duration;

use sea_orm::EntityTrait as _;
use undertone_api::api_key::{KeyScope, NewApiKey};
use undertone_api::id::OrganizationId;
use undertone_api::member::{NewConsortiumMember, Role};
use undertone_api::organization::InvitationPurpose;
use undertone_api::problem::Code;
use undertone_api::session::SignIn;

use super::{code, reason};
use crate::auth::{Operation, Place, policy};
use crate::ctx::StreamSubject;
use crate::service::retirement::{
    list_accounts, list_retired_members, restore_account, restore_member, restore_organization, retire_account,
    retire_member, retire_organization,
};
use crate::service::session::{SignInResult, authenticate, sign_in};
use crate::service::{api_key, event, invitation, organization, role};
use crate::testing::{FoundedConsortium, HERE, PASSWORD, Person, TestApp, newcomer, on_both};

fn credentials(person: &Person) -> SignIn {
    SignIn { email: person.session.member.email.clone(), password: PASSWORD.to_owned() }
}

async fn key_of(app: &TestApp, person: &Person) -> String {
    let new = NewApiKey { name: "a program".to_owned(), scopes: vec![KeyScope::Read], days: 30 };
    api_key::create(&app.ctx, &person.actor(app).await, &new).await.unwrap().secret.unwrap()
}

/// Adds a researcher to an organization.
async fn researcher(app: &TestApp, at: &(OrganizationId, Person), name: &str) -> Person {
    app.joins(&at.1, at.0, name, &[Role::Researcher]).await
}

/// Has an operator confirm a person's address.
async fn confirm(app: &TestApp, at: &(OrganizationId, Person), person: &Person) {
    let operators = crate::model::member::Entity::find().all(app.ctx.db.read()).await.unwrap();
    let operator = operators.iter().find(|row| row.operator).unwrap().id.into();
    let token = crate::service::world::people::token(&app.ctx, operator).await;
    let by = authenticate(&app.ctx, &token).await.unwrap();
    role::confirm_address(&app.ctx, &by, at.0, person.session.member.id).await.unwrap();
}

async fn retires(app: &TestApp, founded: &FoundedConsortium, person: &Person) {
    let (north, admin) = &founded.north;
    let by = admin.actor(app).await;
    retire_member(&app.ctx, &by, *north, person.session.member.id, &reason()).await.unwrap();
}

on_both! {
    async fn retired_member_loses_session_and_key_and_gets_roles_back(app: &TestApp) {
        let founded = app.founded().await;
        let ann = researcher(app, &founded.north, "Ann").await;
        let key = key_of(app, &ann).await;
        retires(app, &founded, &ann).await;
        assert_eq!(code(authenticate(&app.ctx, &ann.session.tokens.access_token).await), Code::Unauthenticated);
        assert_eq!(code(authenticate(&app.ctx, &key).await), Code::Unauthenticated);
        let SignInResult::Whole(again) = sign_in(&app.ctx, HERE, &credentials(&ann)).await.unwrap() else { panic!("no code") };
        assert!(again.member.grants.is_empty(), "the account stays, without the roles");
        let (north, admin) = &founded.north;
        let by = admin.actor(app).await;
        let listed = list_retired_members(&app.ctx, &by, *north).await.unwrap();
        assert_eq!((listed.len(), &listed[0].roles[..]), (1, &[Role::Researcher][..]));
        let id = ann.session.member.id;
        let back = restore_member(&app.ctx, &by, *north, id, &reason()).await.unwrap();
        assert_eq!(back.grants.len(), 1);
        assert_eq!(code(restore_member(&app.ctx, &by, *north, id, &reason()).await), Code::NotFound);
    }

    async fn retired_member_keeps_the_key_for_another_organization(app: &TestApp) {
        let founded = app.founded().await;
        researcher(app, &founded.north, "Ann").await;
        let (south, admin) = &founded.south;
        let link = app.link(admin, InvitationPurpose::Member { organization: *south, roles: vec![Role::Auditor] }).await;
        let ann = app.accept(&link, newcomer("Ann", None)).await;
        let key = key_of(app, &ann).await;
        retires(app, &founded, &ann).await;
        let actor = authenticate(&app.ctx, &key).await.unwrap();
        assert_eq!(actor.organizations(), [*south]);
    }

    async fn retired_member_has_open_streams_ended_at_once(app: &TestApp) {
        let founded = app.founded().await;
        let ann = researcher(app, &founded.north, "Ann").await;
        let subject = StreamSubject::Consortium(founded.consortium);
        let actor = ann.actor(app).await;
        let mut stream = event::watch(&app.ctx, &actor, HERE, subject, Operation::ReadJob, None).await.unwrap();
        assert!(stream.next().await.is_some());
        retires(app, &founded, &ann).await;
        // Without the notification it would end only after five seconds.
        let ended = tokio::time::timeout(Duration::from_secs(3), stream.next()).await.expect("it ends at once");
        assert!(ended.is_none());
    }

    async fn retired_member_cannot_return_by_a_link(app: &TestApp) {
        let founded = app.founded().await;
        let (north, admin) = &founded.north;
        let ann = app.joins(admin, *north, "Ann", &[Role::OrganizationAdmin]).await;
        let purpose = InvitationPurpose::Member { organization: *north, roles: vec![Role::OrganizationAdmin] };
        let own = app.link(&ann, purpose.clone()).await;
        let old = app.link(admin, purpose).await;
        retires(app, &founded, &ann).await;
        let secret = |link: &str| link.rsplit('/').next().unwrap().to_owned();
        assert_eq!(code(invitation::preview(&app.ctx, &secret(&own)).await), Code::LinkSpent);
        let back = invitation::accept(&app.ctx, HERE, &secret(&old), &newcomer("Ann", None)).await;
        assert_eq!(code(back), Code::WrongState);
    }

    async fn last_admin_is_not_retired(app: &TestApp) {
        let founded = app.founded().await;
        let (north, admin) = &founded.north;
        let by = admin.actor(app).await;
        assert_eq!(code(retire_member(&app.ctx, &by, *north, by.id(), &reason()).await), Code::WrongState);
        assert_eq!(admin.actor(app).await.roles_in(*north).count(), 3, "a refusal changes nothing");
    }

    async fn retired_organization_loses_the_consortium_and_gets_it_back(app: &TestApp) {
        let founded = app.founded().await;
        let ann = researcher(app, &founded.south, "Ann").await;
        let (south, consortium) = (founded.south.0, founded.consortium);
        let by = founded.operator.actor(app).await;
        let new = NewConsortiumMember { email: ann.session.member.email.clone(), roles: vec![Role::Auditor] };
        confirm(app, &founded.south, &ann).await;
        role::add_consortium_member(&app.ctx, &by, consortium, &new).await.unwrap();
        let view = retire_organization(&app.ctx, &by, consortium, south, &reason()).await.unwrap();
        assert_eq!(view.retirement.unwrap().reason, "the machine was stolen");
        let now = ann.actor(app).await;
        for operation in [Operation::ReadJob, Operation::TakeModel, Operation::ReadQuestions] {
            assert_eq!(code(policy::check(&now, operation, Place::Consortium(consortium))), Code::NotFound);
        }
        assert_eq!(code(policy::check(&now, Operation::ReadDataset, Place::Organization(founded.north.0))), Code::NotFound);
        organization::get(&app.ctx, &founded.south.1.actor(app).await, south).await.expect("it stays their own");
        let listed = organization::in_consortium(&app.ctx, &by, consortium).await.unwrap();
        let retired: Vec<_> = listed.iter().filter(|one| one.retirement.is_some()).map(|one| one.id).collect();
        assert_eq!(retired, [south], "the others still see it");
        restore_organization(&app.ctx, &by, consortium, south, &reason()).await.unwrap();
        let back = ann.actor(app).await;
        policy::check(&back, Operation::TakeModel, Place::Consortium(consortium)).unwrap();
        assert_eq!(back.roles_over(consortium).collect::<Vec<_>>(), [Role::Auditor]);
    }

    async fn organization_with_the_last_consortium_admin_stays(app: &TestApp) {
        let founded = app.founded().await;
        let (south, admin) = &founded.south;
        let by = founded.operator.actor(app).await;
        confirm(app, &founded.south, admin).await;
        let email = admin.session.member.email.clone();
        let new = NewConsortiumMember { email, roles: vec![Role::ConsortiumAdmin] };
        role::add_consortium_member(&app.ctx, &by, founded.consortium, &new).await.unwrap();
        let none = undertone_api::member::RoleAssignment { roles: Vec::new() };
        role::assign_consortium_roles(&app.ctx, &by, founded.consortium, by.id(), &none).await.unwrap();
        let by = founded.operator.actor(app).await;
        let refused = retire_organization(&app.ctx, &by, founded.consortium, *south, &reason()).await;
        assert_eq!(code(refused), Code::WrongState);
    }

    async fn retired_account_signs_in_nowhere_and_comes_back_with_roles(app: &TestApp) {
        let founded = app.founded().await;
        let (north, admin) = &founded.north;
        let key = key_of(app, admin).await;
        let by = founded.operator.actor(app).await;
        let id = admin.session.member.id;
        retire_account(&app.ctx, &by, id, &reason()).await.unwrap();
        assert_eq!(code(authenticate(&app.ctx, &admin.session.tokens.access_token).await), Code::Unauthenticated);
        assert_eq!(code(authenticate(&app.ctx, &key).await), Code::Unauthenticated);
        assert_eq!(code(sign_in(&app.ctx, HERE, &credentials(admin)).await), Code::Unauthenticated);
        let listed = list_accounts(&app.ctx, &by).await.unwrap();
        assert_eq!(listed.iter().filter(|account| account.retirement.is_some()).count(), 1);
        let back = restore_account(&app.ctx, &by, id, &reason()).await.unwrap();
        assert_eq!((back.member.grants.len(), back.retirement), (3, None));
        let SignInResult::Whole(again) = sign_in(&app.ctx, HERE, &credentials(admin)).await.unwrap() else { panic!("no code") };
        let actor = authenticate(&app.ctx, &again.tokens.access_token).await.unwrap();
        assert_eq!(actor.roles_in(*north).count(), 3);
    }

    async fn last_operator_is_not_retired(app: &TestApp) {
        let founded = app.founded().await;
        let by = founded.operator.actor(app).await;
        assert_eq!(code(retire_account(&app.ctx, &by, by.id(), &reason()).await), Code::WrongState);
        let member = founded.north.1.actor(app).await;
        assert_eq!(code(retire_account(&app.ctx, &member, by.id(), &reason()).await), Code::Forbidden);
    }
}
