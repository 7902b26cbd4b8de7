#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

mod access;
mod parts;
mod worker;

use undertone_api::id::OrganizationId;
use undertone_api::member::{Role, RoleGrant, RoleScope};
use undertone_api::problem::Code;
use undertone_api::retirement::StatedReason;

use crate::auth::Actor;
use crate::error::Error;
use crate::service::world::{TestConsortium, TestSite};

fn reason() -> StatedReason {
    StatedReason { reason: "the machine was stolen".to_owned() }
}

fn code<T: std::fmt::Debug>(answer: Result<T, Error>) -> Code {
    answer.unwrap_err().code()
}

/// Returns the organization of a site.
fn owner(site: &TestSite) -> OrganizationId {
    site.steward.organizations()[0]
}

/// Returns an admin of the world's consortium.
fn consortium_admin(world: &TestConsortium) -> Actor {
    let mut actor = world.sites[0].steward.clone();
    actor.member.grants =
        vec![RoleGrant { scope: RoleScope::Consortium(world.consortium), role: Role::ConsortiumAdmin }];
    actor
}
