//! The people and the workers of the consortium, invited by links like real ones.

use undertone_api::consortium::NewConsortium;
use undertone_api::id::{ConsortiumId, OrganizationId, SessionId};
use undertone_api::member::{NewConsortiumMember, NewMember, Role, RoleAssignment, RoleScope};
use undertone_api::organization::InvitationPurpose;
use undertone_api::retirement::StatedReason;
use undertone_api::session::SignIn;
use undertone_server_core::auth::{Actor, Origin};
use undertone_server_core::service::session::SignInResult;
use undertone_server_core::service::{consortium, invitation, retirement, role, session};
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
    let new = NewConsortiumMember { email: email_of("Steward of North"), roles: vec![Role::ConsortiumAdmin] };
    role::add_consortium_member(&app.ctx, &founder, consortium, &new).await.expect("an admin may add another");
    let organizations = <[OrganizationId; 3]>::try_from(organizations).expect("three organizations");

    let researcher = join(app, &other_steward, organizations[2], "Researcher of South", &[Role::Researcher]).await;
    let colleague = join(app, &steward, organizations[1], "Deputy of North", &[Role::Auditor]).await;
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
    leave_links(app, &steward, consortium, organizations[1]).await;

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

/// Makes a member link that stays open, one that is withdrawn, and a link for an organization.
async fn leave_links(app: &TestApp, steward: &Person, consortium: ConsortiumId, own: OrganizationId) {
    app.link(steward, InvitationPurpose::Organization { consortium }).await;
    let purpose = InvitationPurpose::Member { organization: own, roles: vec![Role::Researcher] };
    app.link(steward, purpose.clone()).await;
    let admin = steward.actor(app).await;
    let open = invitation::list(&app.ctx, &admin, &purpose).await.expect("an admin sees the links");
    let place = undertone_server_core::auth::Place::Organization(own);
    let first = open.iter().find(|link| !link.used).expect("one link is open");
    invitation::withdraw(&app.ctx, &admin, place, first.id).await.expect("an admin may withdraw a link");
}

impl Seeding {
    /// Signs in the steward twice and the operator once, and returns the sessions.
    pub(super) async fn sign_in(&self) -> [SessionId; 3] {
        let agents = [
            ("Steward of North", "2001:db8:1::7", "Mozilla/5.0 (iPhone) Version/26.0 Safari/605.1"),
            ("Steward of North", "192.0.2.7", "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0"),
            ("Operator", "192.0.2.8", "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0"),
        ];
        let ctx = self.ctx();
        let mut sessions = Vec::new();
        for (name, address, agent) in agents {
            let origin = Origin::new(address.parse().expect("an address"), agent);
            let credentials = SignIn { email: email_of(name), password: PASSWORD.to_owned() };
            let entered = session::sign_in(ctx, origin, &credentials).await.expect("the password is right");
            let SignInResult::Whole(entered) = entered else { panic!("{name} has no second factor") };
            let actor = session::authenticate(ctx, &entered.tokens.access_token).await.expect("signed in");
            sessions.push(actor.session().expect("it is a session"));
        }
        <[SessionId; 3]>::try_from(sessions).expect("three sessions")
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
