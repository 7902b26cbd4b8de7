use std::collections::BTreeSet;

use undertone_api::api_key::KeyScope;
use undertone_api::id::{ApiKeyId, ConsortiumId, MemberId, OrganizationId, SessionId};
use undertone_api::member::{Member, Role, RoleGrant, RoleScope};
use undertone_api::problem::Code;
use uuid::Uuid;

use super::{Operation, Place, Standing, check, check_fresh};
use crate::auth::{Actor, Means};

/// The complete policy, as a readable table.
#[test]
fn the_matrix_is_what_was_agreed() {
    let line = |first: String, cells: Vec<String>| {
        let cells: Vec<String> = [first].into_iter().chain(cells).map(|cell| format!("{cell:<18}")).collect();
        cells.join(" ").trim_end().to_owned()
    };
    let titles = Standing::ALL.iter().map(|standing| format!("{standing:?}")).chain(["Key".to_owned()]);
    let mut table = vec![line(String::new(), titles.collect())];
    for operation in Operation::ALL {
        let cell = |standing| if operation.allowed().contains(standing) { "yes" } else { "-" }.to_owned();
        let scope = operation.scope().map_or("-", |scope| scope.word()).to_owned();
        table.push(line(format!("{operation:?}"), Standing::ALL.iter().map(cell).chain([scope]).collect()));
    }
    insta::assert_snapshot!(table.join("\n"));
}

#[test]
fn what_a_place_hides_is_a_404_and_what_a_role_lacks_a_403() {
    let (here, there) = (ConsortiumId(Uuid::from_u128(1)), ConsortiumId(Uuid::from_u128(2)));
    let organization = OrganizationId(Uuid::from_u128(3));
    let actor = Actor {
        member: Member {
            id: MemberId(Uuid::nil()),
            name: String::new(),
            email: String::new(),
            operator: false,
            grants: vec![RoleGrant { scope: RoleScope::Organization(organization), role: Role::Researcher }],
            created_at: time::OffsetDateTime::UNIX_EPOCH,
        },
        means: Means::Session(SessionId(Uuid::nil())),
        consortia: [(here, vec![organization])].into(),
        retired: BTreeSet::new(),
        is_fresh: true,
    };
    let code = |operation, place| check(&actor, operation, place).err().map(|error| error.code());
    assert_eq!(code(Operation::ProposeJob, Place::Consortium(here)), None);
    assert_eq!(code(Operation::InviteOrganization, Place::Consortium(here)), Some(Code::Forbidden));
    assert_eq!(code(Operation::ProposeJob, Place::Consortium(there)), Some(Code::NotFound));
    assert_eq!(code(Operation::SetBudget, Place::Organization(organization)), Some(Code::Forbidden));
    assert_eq!(code(Operation::FoundConsortium, Place::Server), Some(Code::Forbidden));
}

#[test]
fn a_key_reaches_reading_and_its_own_scopes_and_nothing_else() {
    let key = |scopes: &[KeyScope]| Actor {
        member: Member {
            id: MemberId(Uuid::nil()),
            name: String::new(),
            email: String::new(),
            operator: true,
            grants: Vec::new(),
            created_at: time::OffsetDateTime::UNIX_EPOCH,
        },
        means: Means::Key(ApiKeyId(Uuid::nil()), scopes.to_vec()),
        consortia: std::collections::BTreeMap::new(),
        retired: BTreeSet::new(),
        is_fresh: true,
    };
    for key_scope in KeyScope::ALL {
        let actor = key(&[*key_scope]);
        for operation in Operation::ALL {
            let within = operation.scope().is_some_and(|scope| scope == KeyScope::Read || scope == *key_scope);
            assert_eq!(actor.reaches(operation.scope()), within, "{operation:?} by a key for {key_scope:?}");
        }
    }
    let refused = check(&key(&[KeyScope::Jobs]), Operation::FoundConsortium, Place::Server).expect_err("out of reach");
    assert_eq!(refused.code(), Code::Forbidden);
    assert!(refused.to_string().contains("`consortia`"), "it says which scope is missing: {refused}");
    check(&key(&[KeyScope::Consortia]), Operation::FoundConsortium, Place::Server).expect("within reach");
}

/// Operations that change accounts, roles, invitations, keys or second factors require a signed-in member.
#[test]
fn no_key_reaches_accounts() {
    for operation in Operation::ALL {
        let name = format!("{operation:?}");
        let accounts = [
            "Invite", "Manage", "Assign", "Remove", "Password", "Session", "Join", "Mark", "Enrol", "Retire", "Prove",
            "Confirm",
        ];
        if accounts.iter().any(|word| name.contains(word)) {
            assert_eq!(operation.scope(), None, "{name}");
        }
    }
}

fn member_with(operator: bool, grants: Vec<RoleGrant>) -> Member {
    Member {
        id: MemberId(Uuid::nil()),
        name: String::new(),
        email: String::new(),
        operator,
        grants,
        created_at: time::OffsetDateTime::UNIX_EPOCH,
    }
}

#[test]
fn retired_organization_gives_no_standing() {
    let consortium = ConsortiumId(Uuid::from_u128(1));
    let organization = OrganizationId(Uuid::from_u128(3));
    let other = OrganizationId(Uuid::from_u128(4));
    let grants = vec![
        RoleGrant { scope: RoleScope::Organization(organization), role: Role::Researcher },
        RoleGrant { scope: RoleScope::Consortium(consortium), role: Role::Annotator },
    ];
    let mut actor = Actor {
        member: member_with(false, grants),
        means: Means::Session(SessionId(Uuid::nil())),
        consortia: [(consortium, vec![organization, other])].into(),
        retired: BTreeSet::new(),
        is_fresh: true,
    };
    let here = Place::Consortium(consortium);
    check(&actor, Operation::TakeModel, here).expect("a researcher may");
    check(&actor, Operation::ReadDataset, Place::Organization(other)).expect("a peer may");
    actor.retired.insert((consortium, organization));
    for operation in [Operation::TakeModel, Operation::ReadJob] {
        assert_eq!(check(&actor, operation, here).expect_err("retired").code(), Code::Forbidden);
    }
    let peer = check(&actor, Operation::ReadDataset, Place::Organization(other));
    assert_eq!(peer.expect_err("no peer").code(), Code::NotFound);
    check(&actor, Operation::ReadOrganization, Place::Organization(organization)).expect("it stays their own");
}

#[test]
fn stale_session_is_asked_for_a_proof() {
    let actor = |is_fresh| Actor {
        member: member_with(true, Vec::new()),
        means: Means::Session(SessionId(Uuid::nil())),
        consortia: std::collections::BTreeMap::new(),
        retired: BTreeSet::new(),
        is_fresh,
    };
    check_fresh(&actor(true)).expect("a proof of a moment ago");
    assert_eq!(check_fresh(&actor(false)).expect_err("stale").code(), Code::ProofStale);
}
