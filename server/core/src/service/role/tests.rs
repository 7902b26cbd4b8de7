use undertone_api::member::{JoinRequest, NewConsortiumMember, Role, RoleAssignment, RoleScope};
use undertone_api::organization::{InvitationPurpose, NewInvitation};
use undertone_api::problem::Code;

use super::{add_consortium_member, assign, assign_consortium_roles, confirm_address, list_consortium_members, remove};
use crate::auth::Place;
use crate::service::{consortium, invitation, member, organization};
use crate::testing::{HERE, newcomer, on_both};

fn roles(roles: &[Role]) -> RoleAssignment {
    RoleAssignment { roles: roles.to_vec() }
}

fn secret(link: &str) -> &str {
    link.rsplit('/').next().expect("a link has parts")
}

on_both! {
    async fn roles_are_given_and_taken_at_once(app: &TestApp) {
        let founded = app.founded().await;
        let (north, admin) = &founded.north;
        let person = app.joins(admin, *north, "Ann", &[Role::Auditor]).await;
        let id = person.session.member.id;
        let by = admin.actor(app).await;
        let member = assign(&app.ctx, &by, *north, id, &roles(&[Role::Researcher, Role::DataSteward, Role::Researcher]))
            .await
            .expect("changed");
        let current: Vec<_> = member.grants.iter().map(|grant| grant.role).collect();
        assert_eq!(current.len(), 2);
        let now = person.actor(app).await;
        let mut here: Vec<_> = now.roles_in(*north).collect();
        here.sort_unstable();
        assert_eq!(here, [Role::DataSteward, Role::Researcher], "the same session, with other roles");
    }

    async fn the_last_admin_stays_and_goes_when_there_is_another(app: &TestApp) {
        let founded = app.founded().await;
        let (north, admin) = &founded.north;
        let by = admin.actor(app).await;
        for refused in [
            assign(&app.ctx, &by, *north, by.id(), &roles(&[Role::Researcher])).await.map(|_| ()),
            remove(&app.ctx, &by, *north, by.id()).await,
        ] {
            assert_eq!(refused.expect_err("the last").code(), Code::WrongState);
        }
        assert_eq!(admin.actor(app).await.roles_in(*north).count(), 3, "a refusal changes nothing");
        let other = app.joins(admin, *north, "Ann", &[Role::OrganizationAdmin]).await;
        remove(&app.ctx, &by, *north, by.id()).await.expect("there is another");
        let former = admin.actor(app).await;
        assert_eq!(former.roles_in(*north).count(), 0);
        let listed = member::list(&app.ctx, &other.actor(app).await, *north).await.expect("listed");
        assert_eq!(listed.iter().map(|member| member.name.as_str()).collect::<Vec<_>>(), ["Ann"]);
        let refusal = member::list(&app.ctx, &former, *north).await;
        assert_eq!(refusal.expect_err("no longer theirs").code(), Code::NotFound);
    }

    async fn of_two_admins_who_remove_each_other_at_once_one_stays(app: &TestApp) {
        let founded = app.founded().await;
        let (north, admin) = &founded.north;
        let other = app.joins(admin, *north, "Ann", &[Role::OrganizationAdmin]).await;
        let (one, two) = (admin.actor(app).await, other.actor(app).await);
        let (first, second) = tokio::join!(
            remove(&app.ctx, &one, *north, two.id()),
            remove(&app.ctx, &two, *north, one.id()),
        );
        assert!(first.is_ok() != second.is_ok(), "one of the two is the last");
    }

    async fn only_an_admin_of_the_place_changes_roles_there(app: &TestApp) {
        let founded = app.founded().await;
        let (north, admin) = &founded.north;
        let ann = app.joins(admin, *north, "Ann", &[Role::DataSteward, Role::Researcher]).await;
        let target = ann.session.member.id;
        let refused = assign(&app.ctx, &ann.actor(app).await, *north, target, &roles(&[Role::OrganizationAdmin])).await;
        assert_eq!(refused.expect_err("not an admin").code(), Code::Forbidden);
        let peer = assign(&app.ctx, &founded.south.1.actor(app).await, *north, target, &roles(&[Role::Auditor])).await;
        assert_eq!(peer.expect_err("another organization's").code(), Code::Forbidden);
        let operator = founded.operator.actor(app).await;
        assert_eq!(remove(&app.ctx, &operator, *north, target).await.expect_err("not theirs").code(), Code::Forbidden);
        let outsider = founded.south.1.session.member.id;
        let stranger = assign(&app.ctx, &admin.actor(app).await, *north, outsider, &roles(&[Role::Auditor])).await;
        assert_eq!(stranger.expect_err("people join by a link").code(), Code::NotFound);
    }

    async fn an_organization_gives_no_role_over_the_consortium(app: &TestApp) {
        let founded = app.founded().await;
        let (north, admin) = &founded.north;
        let by = admin.actor(app).await;
        let new_roles = roles(&[Role::OrganizationAdmin, Role::ConsortiumAdmin]);
        let problem = assign(&app.ctx, &by, *north, by.id(), &new_roles).await.expect_err("no").into_problem();
        assert_eq!(problem.violations[0].field, "roles.1");
        let none = assign(&app.ctx, &by, *north, by.id(), &roles(&[])).await.expect_err("none").into_problem();
        assert_eq!(none.violations[0].field, "roles");
    }

    async fn a_consortium_s_admin_gives_roles_over_it_and_the_last_stays(app: &TestApp) {
        let founded = app.founded().await;
        let by = founded.operator.actor(app).await;
        let id = founded.consortium;
        let new = |email: &str, roles: &[Role]| NewConsortiumMember { email: email.to_owned(), roles: roles.to_vec() };
        let alone = assign_consortium_roles(&app.ctx, &by, id, by.id(), &roles(&[])).await;
        assert_eq!(alone.expect_err("the last").code(), Code::WrongState);
        let (north, admin) = &founded.north;
        confirm_address(&app.ctx, &by, *north, admin.session.member.id).await.expect("an operator may");
        add_consortium_member(&app.ctx, &by, id, &new("NorthAdmin@example.org", &[Role::ConsortiumAdmin])).await.expect("given");
        let names: Vec<_> = list_consortium_members(&app.ctx, &by, id).await.expect("listed").into_iter().map(|one| one.name).collect();
        assert_eq!(names, ["NorthAdmin", "Operator"]);
        let wrong = add_consortium_member(&app.ctx, &by, id, &new("northadmin@example.org", &[Role::Researcher])).await;
        assert_eq!(wrong.expect_err("not a consortium's").into_problem().violations[0].field, "roles.0");
        let unknown = add_consortium_member(&app.ctx, &by, id, &new("nobody@example.org", &[Role::Auditor])).await;
        assert_eq!(unknown.expect_err("nobody").code(), Code::NotFound);
        assign_consortium_roles(&app.ctx, &by, id, by.id(), &roles(&[])).await.expect("there is another");
        let after = list_consortium_members(&app.ctx, &founded.operator.actor(app).await, id).await;
        assert_eq!(after.expect_err("no longer an admin").code(), Code::Forbidden);
    }

    async fn role_over_a_consortium_needs_a_confirmed_address(app: &TestApp) {
        let founded = app.founded().await;
        let by = founded.operator.actor(app).await;
        let purpose = InvitationPurpose::Annotator { consortium: founded.consortium };
        let link = app.link(&founded.operator, purpose).await;
        // An annotator with another person's address.
        let mut typed = newcomer("Mallory", None);
        typed.email = "auditor@south.example.org".to_owned();
        app.accept(&link, typed).await;
        let new = NewConsortiumMember { email: "auditor@south.example.org".to_owned(), roles: vec![Role::Auditor] };
        let refused = add_consortium_member(&app.ctx, &by, founded.consortium, &new).await;
        assert_eq!(refused.expect_err("nobody confirmed it").code(), Code::WrongState);
        let (south, admin) = &founded.south;
        let ann = app.joins(admin, *south, "Ann", &[Role::Auditor]).await;
        let own = confirm_address(&app.ctx, &ann.actor(app).await, *south, ann.session.member.id).await;
        assert_eq!(own.expect_err("no admin").code(), Code::Forbidden);
        let admin = admin.actor(app).await;
        let own = confirm_address(&app.ctx, &admin, *south, admin.id()).await;
        assert_eq!(own.expect_err("their own").code(), Code::WrongState);
        confirm_address(&app.ctx, &admin, *south, ann.session.member.id).await.expect("an admin of theirs may");
        let new = NewConsortiumMember { email: "ann@example.org".to_owned(), roles: vec![Role::Auditor] };
        add_consortium_member(&app.ctx, &by, founded.consortium, &new).await.expect("confirmed");
    }

    async fn a_withdrawn_link_lets_nobody_in_and_a_used_one_is_not_withdrawn(app: &TestApp) {
        let founded = app.founded().await;
        let (north, admin) = &founded.north;
        let by = admin.actor(app).await;
        let purpose = InvitationPurpose::Member { organization: *north, roles: vec![Role::Auditor] };
        let new = NewInvitation { purpose: purpose.clone(), label: "Ann".to_owned() };
        let invitation = invitation::create(&app.ctx, &by, &new).await.expect("made");
        let link = invitation.link.expect("shown once");
        let elsewhere = invitation::withdraw(&app.ctx, &by, Place::Organization(founded.south.0), invitation.id).await;
        assert_eq!(elsewhere.expect_err("of another place").code(), Code::NotFound);
        let peer = founded.south.1.actor(app).await;
        let theirs = invitation::withdraw(&app.ctx, &peer, Place::Organization(*north), invitation.id).await;
        assert_eq!(theirs.expect_err("not theirs").code(), Code::Forbidden);
        invitation::withdraw(&app.ctx, &by, Place::Organization(*north), invitation.id).await.expect("withdrawn");
        let refused = invitation::accept(&app.ctx, HERE, secret(&link), &newcomer("Ann", None)).await;
        assert_eq!(refused.expect_err("withdrawn").code(), Code::LinkSpent);
        let all = invitation::list(&app.ctx, &by, &purpose).await.expect("listed");
        assert!(all.iter().any(|one| one.id == invitation.id && one.withdrawn && !one.used));
        let used = invitation::create(&app.ctx, &by, &new).await.expect("made");
        app.accept(&used.link.expect("shown once"), newcomer("Ann", None)).await;
        let late = invitation::withdraw(&app.ctx, &by, Place::Organization(*north), used.id).await;
        assert_eq!(late.expect_err("used").code(), Code::WrongState);
    }

    async fn one_account_stands_in_several_organizations_and_one_organization_in_several_consortia(app: &TestApp) {
        let founded = app.founded().await;
        let (north, admin) = &founded.north;
        let second = undertone_api::consortium::NewConsortium {
            name: "Second".to_owned(),
            description: String::new(),
            organization: None,
            organization_name: None,
        };
        let operator = founded.operator.actor(app).await;
        let second = consortium::create(&app.ctx, &operator, &second).await.expect("founded").id;

        // The organization joins the second consortium, by its admin's account.
        let link = app.link(&founded.operator, InvitationPurpose::Organization { consortium: second }).await;
        let by = admin.actor(app).await;
        let both = JoinRequest { organization: Some(*north), organization_name: Some("West".to_owned()) };
        let refused = invitation::join(&app.ctx, &by, secret(&link), &both).await.expect_err("one of the two");
        assert_eq!(refused.into_problem().violations[0].field, "organization");
        let theirs = JoinRequest { organization: Some(founded.south.0), organization_name: None };
        let refused = invitation::join(&app.ctx, &by, secret(&link), &theirs).await.expect_err("not an admin there");
        assert_eq!(refused.into_problem().violations[0].field, "organization");
        let own = JoinRequest { organization: Some(*north), organization_name: None };
        invitation::join(&app.ctx, &by, secret(&link), &own).await.expect("joined");
        let spent = invitation::join(&app.ctx, &by, secret(&link), &own).await;
        assert_eq!(spent.expect_err("a link works once").code(), Code::LinkSpent);
        let now = admin.actor(app).await;
        assert_eq!(now.consortia.len(), 2);
        assert!([founded.consortium, second].iter().all(|id| now.consortia.contains_key(id)));
        let there = organization::in_consortium(&app.ctx, &now, second).await.expect("seen");
        assert_eq!(there.iter().map(|one| one.id).collect::<Vec<_>>(), [*north]);
        let again = app.link(&founded.operator, InvitationPurpose::Organization { consortium: second }).await;
        let twice = invitation::join(&app.ctx, &now, secret(&again), &own).await;
        assert_eq!(twice.expect_err("it is in").code(), Code::AlreadyExists);

        // The person joins another organization, and brings none.
        let member = InvitationPurpose::Member { organization: founded.south.0, roles: vec![Role::Auditor] };
        let link = app.link(&founded.south.1, member).await;
        let brings = invitation::join(&app.ctx, &now, secret(&link), &own).await.expect_err("brings none");
        assert_eq!(brings.into_problem().violations[0].field, "organization");
        let joined = invitation::join(&app.ctx, &now, secret(&link), &JoinRequest::default()).await.expect("joined");
        assert_eq!(joined.id, now.id(), "no second account");
        let south = RoleScope::Organization(founded.south.0);
        assert!(joined.grants.iter().any(|grant| grant.scope == south && grant.role == Role::Auditor));
        assert_eq!(joined.grants.len(), 4);
    }

    async fn who_has_a_second_factor_joins_after_signing_in_and_not_by_the_password_alone(app: &TestApp) {
        let founded = app.founded().await;
        let north = &founded.north.1;
        app.two_factor(north).await;
        let purpose = InvitationPurpose::Member { organization: founded.south.0, roles: vec![Role::Auditor] };
        let link = app.link(&founded.south.1, purpose).await;
        let refused = invitation::accept(&app.ctx, HERE, secret(&link), &newcomer("NorthAdmin", None)).await;
        assert_eq!(refused.expect_err("a code is missing").code(), Code::WrongState);
        let actor = north.actor(app).await;
        invitation::join(&app.ctx, &actor, secret(&link), &JoinRequest::default()).await.expect("the link was not spent");
    }
}
