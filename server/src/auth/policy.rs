//! The one policy table: what may be done, where, and by whom. Every operation of the service layer has a row; the first
//! line of the operation asks [`check`].
//!
//! To add an operation: a row below, then `policy::check(actor, Operation::X, place)?` in the service. A test fails when a
//! row is used nowhere, and a snapshot shows every change of the table for what it is.

mod standing;
#[cfg(test)]
mod tests;

use undertone_api::id::{ConsortiumId, OrganizationId};

pub use standing::Standing;

use super::actor::Actor;
use crate::error::Error;

/// Where an operation is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// On the server as such.
    Server,
    /// In a consortium.
    Consortium(ConsortiumId),
    /// In an organization.
    Organization(OrganizationId),
}

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident: $($who:ident)|+;)*) => {
        /// What may be done.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Operation {
            $($(#[$doc])* $name,)*
        }

        impl Operation {
            /// Every operation, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Who may do it: one of these standings is enough.
            pub const fn allowed(self) -> &'static [Standing] {
                match self { $(Self::$name => &[$(Standing::$who,)+],)* }
            }
        }
    };
}

operations! {
    /// See one's own account, and end one's session.
    ReadSelf: SignedIn;
    /// List the consortia one stands in.
    ListConsortia: SignedIn;
    /// List the organizations one may see.
    ListOrganizations: SignedIn;
    /// Found a consortium.
    FoundConsortium: Operator;
    /// See a consortium and who is in it.
    ReadConsortium: Operator | ConsortiumAdmin | OrganizationAdmin | DataSteward | Researcher | Auditor;
    /// Declare in how many organizations one person may be.
    AttestOverlap: ConsortiumAdmin;
    /// Invite an organization into a consortium, list and withdraw such invitations.
    InviteOrganization: ConsortiumAdmin;
    /// See an organization and its workers.
    ReadOrganization: Operator | ConsortiumAdmin | OrganizationAdmin | DataSteward | Researcher | Auditor | Peer;
    /// See who works at an organization; e-mail addresses are for its admins only.
    ListMembers: OrganizationAdmin | DataSteward | Researcher | Auditor;
    /// Invite members to an organization, list and withdraw such invitations.
    InviteMember: OrganizationAdmin;
    /// Make a token by which a worker enrols.
    EnrolWorker: OrganizationAdmin;
    /// See a dataset's coarse facts and accounts.
    ReadDataset: ConsortiumAdmin | OrganizationAdmin | DataSteward | Researcher | Auditor | Peer;
    /// Set or raise a dataset's budget.
    SetBudget: DataSteward;
    /// Clear a dataset that an audit has frozen.
    ClearFreeze: DataSteward;
    /// Read a dataset's ledger, row by row.
    ReadLedger: ConsortiumAdmin | DataSteward | Auditor;
    /// Read the signed heads of the server's log: one number and one hash over everybody's entries.
    ReadLog: SignedIn;
    /// Take the ledgers of a consortium away in a file, as far as one may read them, with the proof that they are whole.
    ExportLedger: ConsortiumAdmin | DataSteward | Auditor;
    /// Ask what a job would cost and whether the budgets admit it.
    PlanJob: ConsortiumAdmin | DataSteward | Researcher;
    /// Propose a job to the owners of its datasets.
    ProposeJob: Researcher;
    /// See jobs, how far they are and what they found.
    ReadJob: ConsortiumAdmin | OrganizationAdmin | DataSteward | Researcher | Auditor;
    /// Approve or refuse a job, for a dataset of the organization.
    DecideJob: DataSteward;
    /// End a job; for the consortium's admins, and for its proposer where they still are a researcher.
    CancelJob: ConsortiumAdmin | Researcher;
    /// Invite people who answer questions only, list and withdraw such invitations.
    InviteAnnotator: ConsortiumAdmin;
    /// See which jobs ask questions of people, and how far they are.
    FollowQuestions: ConsortiumAdmin | DataSteward | Researcher | Auditor | Annotator;
    /// Answer the questions of jobs, without seeing what others answered.
    Annotate: ConsortiumAdmin | DataSteward | Researcher | Annotator;
    /// See the questions of jobs, and take them away with their answers.
    ReadQuestions: ConsortiumAdmin | DataSteward | Researcher | Auditor;
    /// Bring in answers that were given elsewhere.
    ImportAnswers: ConsortiumAdmin | Researcher;
    /// Take a job's files away: the model above all.
    TakeModel: ConsortiumAdmin | Researcher;
}

/// Whether the actor may.
///
/// # Errors
/// 404 when the actor may not even know the place, 403 when they may see it but not do this.
pub fn check(actor: &Actor, operation: Operation, place: Place) -> Result<(), Error> {
    let standings = Standing::of(actor, place);
    if operation.allowed().iter().any(|who| standings.contains(who)) {
        return Ok(());
    }
    if standings.iter().any(|standing| standing.sees()) || place == Place::Server {
        return Err(Error::forbidden(format!("this takes the role of {}", wanted(operation))));
    }
    Err(Error::not_found(match place {
        Place::Server => "thing",
        Place::Consortium(_) => "consortium",
        Place::Organization(_) => "organization",
    }))
}

/// Whether the actor may: for lists and pages that show only what can be done.
pub fn allows(actor: &Actor, operation: Operation, place: Place) -> bool {
    let standings = Standing::of(actor, place);
    operation.allowed().iter().any(|who| standings.contains(who))
}

fn wanted(operation: Operation) -> String {
    let words: Vec<&str> = operation.allowed().iter().map(|who| who.label()).collect();
    words.join(" or ")
}
