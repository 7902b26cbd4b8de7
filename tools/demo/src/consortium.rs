//! Founds the consortium by the same operations that the browser uses.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use ed25519_dalek::SigningKey;
use undertone_api::consortium::NewConsortium;
use undertone_api::id::{ConsortiumId, OrganizationId};
use undertone_api::member::{NewMember, RoleScope};
use undertone_api::organization::{InvitationPurpose, NewInvitation};
use undertone_api::session::Session;
use undertone_api::signed::ApprovalKey;
use undertone_server::OfferedAccount;
use undertone_server_core::auth::Actor;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::{consortium, invitation, session, setup};

use crate::recipe::{DemoRecipe, PartyRecipe};
use crate::{DemoError, explain_refusal, print_banner};

/// The address from which the demo's people sign in.
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A consortium and its people.
pub(super) struct DemoConsortium {
    pub(super) id: ConsortiumId,
    /// In the order of the recipe; the first is also the operator and the consortium's admin.
    pub(super) people: Vec<PartyMember>,
}

/// The first member of an organization: its admin, steward and researcher.
pub(super) struct PartyMember {
    pub(super) name: String,
    pub(super) email: String,
    password: String,
    pub(super) actor: Actor,
    pub(super) organization: OrganizationId,
    /// The key with which the person approves jobs; the person's site pins its public half.
    pub(super) approval_key: SigningKey,
}

impl PartyMember {
    /// Returns the public half of the key.
    pub(super) fn public_approval_key(&self) -> ApprovalKey {
        ApprovalKey::Ed25519 { public_key: hex::encode(self.approval_key.verifying_key().to_bytes()) }
    }
}

impl DemoConsortium {
    /// Founds the organizations and the consortium of the recipe.
    pub(super) async fn establish(ctx: &Ctx, recipe: &DemoRecipe) -> Result<Self, DemoError> {
        let link = setup::operator_link(ctx).await.map_err(explain_refusal("making the operator's link"))?;
        let link = link.ok_or_else(|| DemoError::Rule {
            what: "beginning a demo",
            reason: "the folder holds a server that has an operator: choose an empty --dir".to_owned(),
        })?;
        let [first, others @ ..] = &recipe.parties[..] else { return Err(DemoError::Job("has no parties".to_owned())) };
        let (operator, password) = join(ctx, &link, first, false).await?;
        let actor = actor(ctx, &operator).await?;
        let new = NewConsortium {
            name: "Demo consortium".to_owned(),
            description: "Three organizations with private speech and one with public speech train one model."
                .to_owned(),
            organization: None,
            organization_name: Some(first.name.to_owned()),
        };
        let created =
            consortium::create(ctx, &actor, &new).await.map_err(explain_refusal("founding the consortium"))?;
        let mut people = vec![person(ctx, first, &operator, password).await?];
        for party in others {
            let new = NewInvitation {
                purpose: InvitationPurpose::Organization { consortium: created.id },
                label: party.name.to_owned(),
            };
            let invited = invitation::create(ctx, &people[0].actor, &new).await.map_err(explain_refusal("inviting"))?;
            let (member, password) = join(ctx, &invited.link.unwrap_or_default(), party, true).await?;
            people.push(person(ctx, party, &member, password).await?);
        }
        Ok(Self { id: created.id, people })
    }

    /// Prints the address and the accounts.
    pub(super) fn print(&self, ctx: &Ctx, dir: &Path) {
        print_banner(&format!("Undertone is at {}", ctx.addresses.http));
        let width = self.people.iter().map(|person| person.name.len()).max().unwrap_or(0);
        for person in &self.people {
            println!("  {:width$}  {}  {}", person.name, person.email, person.password);
        }
        println!("\n  Everything is under {}\n", dir.display());
    }

    /// Offers the accounts on the sign-in page, if this server listens on loopback alone.
    pub(super) fn offer_accounts(&self, ctx: &Ctx) {
        if !ctx.config.http.ip().is_loopback() {
            return;
        }
        let offered = self.people.iter().enumerate().map(|(place, person)| OfferedAccount {
            label: format!("Enter as {}", person.name),
            roles: if place == 0 {
                "Consortium admin, with public data: plans jobs and sees each account.".to_owned()
            } else {
                "Data steward with private data: approves jobs and sets budgets.".to_owned()
            },
            email: person.email.clone(),
            password: person.password.clone(),
        });
        undertone_server::offer_accounts(offered.collect());
    }
}

async fn join(ctx: &Ctx, link: &str, party: &PartyRecipe, founds: bool) -> Result<(Session, String), DemoError> {
    let secret = link.rsplit('/').next().unwrap_or_default();
    let password = format!("demo-{}", hex::encode(ctx.random.bytes::<6>()));
    let new = NewMember {
        name: format!("Steward of {}", party.name),
        email: party.email.to_owned(),
        password: password.clone(),
        organization: founds.then(|| party.name.to_owned()),
    };
    let joined = invitation::accept(ctx, HERE, secret, &new).await.map_err(explain_refusal("accepting a link"))?;
    Ok((joined, password))
}

/// Returns the member in the current state: roles may have been added since the sign-in.
async fn actor(ctx: &Ctx, signed_in: &Session) -> Result<Actor, DemoError> {
    session::authenticate(ctx, &signed_in.tokens.access_token).await.map_err(explain_refusal("signing in"))
}

async fn person(
    ctx: &Ctx,
    party: &PartyRecipe,
    signed_in: &Session,
    password: String,
) -> Result<PartyMember, DemoError> {
    let actor = actor(ctx, signed_in).await?;
    let organization = actor
        .member
        .grants
        .iter()
        .find_map(|grant| match grant.scope {
            RoleScope::Organization(id) => Some(id),
            RoleScope::Consortium(_) => None,
        })
        .ok_or_else(|| DemoError::Job("'s people have no organization".to_owned()))?;
    let approval_key = SigningKey::from_bytes(&ctx.random.bytes());
    let (name, email) = (party.name.to_owned(), party.email.to_owned());
    Ok(PartyMember { name, email, password, actor, organization, approval_key })
}
