//! People and organizations for tests, created by invitation links like real ones.

use std::net::{IpAddr, Ipv4Addr};

use undertone_api::consortium::NewConsortium;
use undertone_api::id::{ConsortiumId, OrganizationId};
use undertone_api::member::{NewMember, Role, RoleScope};
use undertone_api::organization::{InvitationPurpose, NewInvitation};
use undertone_api::session::Session;

use super::TestApp;
use crate::auth::Actor;
use crate::service::{consortium, invitation, session, setup};

/// The address of test requests.
pub const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// The password of all test people.
pub const PASSWORD: &str = "a long enough password";

/// A signed-in person.
pub struct Person {
    /// The person's session.
    pub session: Session,
}

impl Person {
    /// Returns the person's current identity for the policy.
    pub async fn actor(&self, app: &TestApp) -> Actor {
        session::authenticate(&app.ctx, &self.session.tokens.access_token).await.expect("signed in")
    }

    /// Returns the value of the person's `Authorization` header.
    pub fn bearer(&self) -> String {
        format!("Bearer {}", self.session.tokens.access_token)
    }
}

/// A consortium of two organizations.
pub struct FoundedConsortium {
    /// The operator of the server and admin of the consortium; belongs to neither organization.
    pub operator: Person,
    /// The consortium.
    pub consortium: ConsortiumId,
    /// The first organization and its first member.
    pub north: (OrganizationId, Person),
    /// The second organization and its first member.
    pub south: (OrganizationId, Person),
}

/// Returns the data of a person who accepts a link.
pub fn newcomer(name: &str, organization: Option<&str>) -> NewMember {
    NewMember {
        name: name.to_owned(),
        email: format!("{}@example.org", name.to_lowercase()),
        password: PASSWORD.to_owned(),
        organization: organization.map(str::to_owned),
    }
}

impl TestApp {
    /// Accepts the link printed at the first start.
    pub async fn operator(&self) -> Person {
        let link = setup::operator_link(&self.ctx).await.expect("asked").expect("there is no operator yet");
        self.accept(&link, newcomer("Operator", None)).await
    }

    /// Accepts a link.
    pub async fn accept(&self, link: &str, new: NewMember) -> Person {
        let secret = link.rsplit('/').next().expect("a link has parts");
        Person { session: invitation::accept(&self.ctx, HERE, secret, &new).await.expect("the link works") }
    }

    /// Creates a link.
    pub async fn link(&self, by: &Person, purpose: InvitationPurpose) -> String {
        let new = NewInvitation { purpose, label: "for a test".to_owned() };
        let answer = invitation::create(&self.ctx, &by.actor(self).await, &new).await.expect("may invite");
        answer.link.expect("the answer that made it holds it")
    }

    /// Adds a new member to an organization.
    pub async fn joins(&self, by: &Person, organization: OrganizationId, name: &str, roles: &[Role]) -> Person {
        let link = self.link(by, InvitationPurpose::Member { organization, roles: roles.to_vec() }).await;
        self.accept(&link, newcomer(name, None)).await
    }

    /// Revokes every role of a person.
    pub async fn loses_every_role(&self, person: &Person) {
        crate::service::world::loses_every_role(&self.ctx, person.session.member.id).await;
    }

    /// Founds a consortium of two organizations.
    pub async fn founded(&self) -> FoundedConsortium {
        let operator = self.operator().await;
        let new = NewConsortium {
            name: "Speech".to_owned(),
            description: String::new(),
            organization: None,
            organization_name: None,
        };
        let actor = operator.actor(self).await;
        let consortium = consortium::found(&self.ctx, &actor, &new).await.expect("may found").id;
        let north = self.organization(&operator, consortium, "North").await;
        let south = self.organization(&operator, consortium, "South").await;
        FoundedConsortium { operator, consortium, north, south }
    }

    /// Adds a new organization to a consortium, with its first member.
    pub async fn organization(&self, by: &Person, consortium: ConsortiumId, name: &str) -> (OrganizationId, Person) {
        let link = self.link(by, InvitationPurpose::Organization { consortium }).await;
        let person = self.accept(&link, newcomer(&format!("{name}Admin"), Some(name))).await;
        let organization = person.session.member.grants.iter().find_map(|grant| match grant.scope {
            RoleScope::Organization(id) => Some(id),
            RoleScope::Consortium(_) => None,
        });
        (organization.expect("the first member has roles"), person)
    }
}
