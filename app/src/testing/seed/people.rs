//! The people and the workers of the consortium, invited by links like real ones.

use undertone_api::consortium::NewConsortium;
use undertone_api::id::{ConsortiumId, OrganizationId};
use undertone_api::member::{NewConsortiumMember, NewMember, Role, RoleAssignment, RoleScope};
use undertone_api::organization::{InvitationPurpose, NewInvitation};
use undertone_api::retirement::StatedReason;
use undertone_server_core::auth::{Actor, Place};
use undertone_server_core::service::{consortium, invitation, retirement, role};
use undertone_server_core::testing::{PASSWORD, Person, TestApp, TestWorker};

use super::Seeding;

/// The names of the three organizations.
const ORGANIZATIONS: [&str; 3] = ["Public speech archive", "North clinic", "South clinic"];

/// The people of the consortium, as callers.
pub(super) struct People {
    pub(super) consortium: ConsortiumId,
    pub(super) organizations: [OrganizationId; 3],
    /// The steward of the second organization, who also administers it and the consortium.
    pub(super) steward: Actor,
    /// Another member of the second organization.
    pub(super) colleague: Actor,
    /// The steward of the third organization.
    pub(super) other_steward: Actor,
    /// The researcher of the third organization.
    pub(super) researcher: Actor,
    /// Two annotators of the consortium.
    pub(super) annotators: [Actor; 2],
}

/// Founds the consortium, invites everyone, and enrols a worker of each organization.
pub(super) async fn invite(app: &TestApp) -> (People, [TestWorker; 3]) {
    let operator = app.operator().await;
    let new = NewConsortium {
        name: "Speech without borders".to_owned(),
        description: "Clinics that learn to understand their patients together.".to_owned(),
        organization: None,
        organization_name: None,
    };
    let founder = operator.actor(app).await;
    let consortium = consortium::create(&app.ctx, &founder, &new).await.expect("an operator may found").id;
    let mut organizations = Vec::new();
    let mut admins = Vec::new();
    for (name, admin) in
        ORGANIZATIONS.into_iter().zip(["Keeper of the archive", "Steward of North", "Steward of South"])
    {
        let link = app.link(&operator, InvitationPurpose::Organization { consortium }).await;
        let person = app.accept(&link, new_member(admin, Some(name))).await;
        let organization = own_organization(&person);
        let roles = vec![Role::OrganizationAdmin, Role::DataSteward, Role::Researcher];
        let id = person.session.member.id;
        let assigned =
            role::assign(&app.ctx, &person.actor(app).await, organization, id, &RoleAssignment { roles }).await;
        assigned.expect("an admin may change roles");
        organizations.push(organization);
        admins.push(person);
    }
    let founder = operator.actor(app).await;
    let [keeper, steward, other_steward] = <[Person; 3]>::try_from(admins).ok().expect("three admins");
    let steward_id = steward.session.member.id;
    let confirmed = role::confirm_address(&app.ctx, &founder, organizations[1], steward_id).await;
    confirmed.expect("an operator may confirm an address");
    let new = NewConsortiumMember { email: email_of("Steward of North"), roles: vec![Role::ConsortiumAdmin] };
    role::add_consortium_member(&app.ctx, &founder, consortium, &new).await.expect("an admin may add another");
    let organizations = <[OrganizationId; 3]>::try_from(organizations).expect("three organizations");

    let researcher = join(app, &other_steward, organizations[2], "Researcher of South", &[Role::Researcher]).await;
    let colleague = join(app, &steward, organizations[1], "Deputy of North", &[Role::Auditor]).await;
    let colleague_id = colleague.session.member.id;
    let confirmed = role::confirm_address(&app.ctx, &steward.actor(app).await, organizations[1], colleague_id).await;
    confirmed.expect("an admin may confirm an address");
    let former = join(app, &steward, organizations[1], "Former Researcher", &[Role::Researcher]).await;
    let admin = steward.actor(app).await;
    let reason = || StatedReason { reason: "left the clinic".to_owned() };
    let former_id = former.session.member.id;
    let retired = retirement::retire_member(&app.ctx, &admin, organizations[1], former_id, &reason()).await;
    retired.expect("an admin may retire a member");
    retirement::retire_account(&app.ctx, &founder, former_id, &reason()).await.expect("an operator may retire it");
    let mut annotators = Vec::new();
    for name in ["First annotator", "Second annotator"] {
        let link = app.link(&steward, InvitationPurpose::Annotator { consortium }).await;
        annotators.push(app.accept(&link, new_member(name, None)).await.actor(app).await);
    }
    let workers = [
        TestWorker::enrol(&app.ctx, &keeper.actor(app).await, organizations[0], "worker-0").await,
        TestWorker::enrol(&app.ctx, &admin, organizations[1], "worker-1").await,
        TestWorker::enrol(&app.ctx, &other_steward.actor(app).await, organizations[2], "worker-2").await,
    ];
    let old = TestWorker::enrol(&app.ctx, &admin, organizations[1], "old-worker").await;
    let retired = retirement::retire_worker(&app.ctx, &admin, organizations[1], old.id, &reason()).await;
    retired.expect("an admin may retire a worker");
    let people = People {
        consortium,
        organizations,
        steward: steward.actor(app).await,
        colleague: colleague.actor(app).await,
        other_steward: other_steward.actor(app).await,
        researcher: researcher.actor(app).await,
        annotators: <[Actor; 2]>::try_from(annotators).expect("two annotators"),
    };
    (people, workers)
}

impl Seeding {
    /// Makes a link for a member that stays open, one that is withdrawn, and a link for an organization.
    pub(super) async fn leave_links(&self) {
        let (ctx, admin, own) = (self.ctx(), &self.people.steward, self.people.organizations[1]);
        let member = || InvitationPurpose::Member { organization: own, roles: vec![Role::Researcher] };
        let organization = InvitationPurpose::Organization { consortium: self.people.consortium };
        let mut links = Vec::new();
        for (label, purpose) in [("ward 7", member()), ("ward 9", member()), ("East clinic", organization)] {
            let new = NewInvitation { purpose, label: label.to_owned() };
            links.push(invitation::create(ctx, admin, &new).await.expect("an admin may invite"));
        }
        let withdrawn = invitation::withdraw(ctx, admin, Place::Organization(own), links[0].id).await;
        withdrawn.expect("an admin may withdraw a link");
    }
}

/// Adds a member to an organization.
async fn join(app: &TestApp, by: &Person, organization: OrganizationId, name: &str, roles: &[Role]) -> Person {
    let link = app.link(by, InvitationPurpose::Member { organization, roles: roles.to_vec() }).await;
    app.accept(&link, new_member(name, None)).await
}

fn new_member(name: &str, organization: Option<&str>) -> NewMember {
    NewMember {
        name: name.to_owned(),
        email: email_of(name),
        password: PASSWORD.to_owned(),
        organization: organization.map(str::to_owned),
    }
}

/// Returns the e-mail address of a person.
pub(super) fn email_of(name: &str) -> String {
    format!("{}@example.org", name.to_lowercase().replace(' ', "-"))
}

fn own_organization(person: &Person) -> OrganizationId {
    let own = person.session.member.grants.iter().find_map(|grant| match grant.scope {
        RoleScope::Organization(id) => Some(id),
        RoleScope::Consortium(_) => None,
    });
    own.expect("the first member has roles")
}
