//! The standing of a member at a place, derived from the member's roles.

use undertone_api::id::{ConsortiumId, OrganizationId};
use undertone_api::member::Role;

use super::Place;
use crate::auth::Actor;

/// The standing of a member at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Standing {
    /// Any signed-in member.
    SignedIn,
    /// Operator of the server.
    Operator,
    /// Admin of the consortium, or of a consortium of the organization.
    ConsortiumAdmin,
    /// Admin of the organization, or of one in the consortium.
    OrganizationAdmin,
    /// Steward of the organization, or of one in the consortium.
    DataSteward,
    /// Researcher of the organization, or of one in the consortium.
    Researcher,
    /// Auditor of the organization, of one in the consortium, or of the consortium itself.
    Auditor,
    /// Annotator of the consortium, or of an organization in it.
    Annotator,
    /// Member with a role in another organization of the same consortium.
    Peer,
}

impl Standing {
    /// All standings, in the order of the matrix.
    pub const ALL: &'static [Self] = &[
        Self::SignedIn,
        Self::Operator,
        Self::ConsortiumAdmin,
        Self::OrganizationAdmin,
        Self::DataSteward,
        Self::Researcher,
        Self::Auditor,
        Self::Annotator,
        Self::Peer,
    ];

    /// Returns whether the standing reveals the existence of the place.
    pub const fn sees(self) -> bool {
        !matches!(self, Self::SignedIn)
    }

    /// Returns the standing in words.
    pub const fn label(self) -> &'static str {
        match self {
            Self::SignedIn => "signed-in member",
            Self::Operator => "operator",
            Self::ConsortiumAdmin => "consortium admin",
            Self::OrganizationAdmin => "organization admin",
            Self::DataSteward => "data steward",
            Self::Researcher => "researcher",
            Self::Auditor => "auditor",
            Self::Annotator => "annotator",
            Self::Peer => "member of another organization",
        }
    }

    /// Returns every standing of `actor` at `place`.
    pub fn list_for(actor: &Actor, place: Place) -> Vec<Self> {
        let mut standings = vec![Self::SignedIn];
        if actor.member.operator {
            standings.push(Self::Operator);
        }
        match place {
            Place::Server => {}
            Place::Consortium(id) => in_consortium(actor, id, &mut standings),
            Place::Organization(id) => in_organization(actor, id, &mut standings),
        }
        standings
    }
}

const fn role_standing(role: Role) -> Standing {
    match role {
        Role::ConsortiumAdmin => Standing::ConsortiumAdmin,
        Role::OrganizationAdmin => Standing::OrganizationAdmin,
        Role::DataSteward => Standing::DataSteward,
        Role::Researcher => Standing::Researcher,
        Role::Auditor => Standing::Auditor,
        Role::Annotator => Standing::Annotator,
    }
}

/// Returns whether a role over a consortium extends to its organizations. A role in an organization never extends to
/// others.
const fn reaches(role: Role) -> bool {
    matches!(role, Role::ConsortiumAdmin | Role::Auditor)
}

fn in_consortium(actor: &Actor, id: ConsortiumId, standings: &mut Vec<Standing>) {
    standings.extend(actor.roles_over(id).map(role_standing));
    for organization in actor.consortia.get(&id).into_iter().flatten() {
        // Only a role in the consortium itself makes a consortium admin.
        standings.extend(
            actor.roles_within(id, *organization).filter(|role| *role != Role::ConsortiumAdmin).map(role_standing),
        );
    }
}

fn in_organization(actor: &Actor, id: OrganizationId, standings: &mut Vec<Standing>) {
    standings.extend(actor.roles_in(id).filter(|role| *role != Role::ConsortiumAdmin).map(role_standing));
    for (consortium, organizations) in &actor.consortia {
        if organizations.contains(&id) {
            // A member who is only an annotator is not a peer: organizations and their data are hidden from annotators.
            let within = organizations.iter().flat_map(|organization| actor.roles_within(*consortium, *organization));
            if within.chain(actor.roles_over(*consortium)).any(|role| role != Role::Annotator) {
                standings.push(Standing::Peer);
            }
            standings.extend(actor.roles_over(*consortium).filter(|role| reaches(*role)).map(role_standing));
        }
    }
}
