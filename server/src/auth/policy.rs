//! The one policy table: what may be done, where, and by whom. Every operation of the service layer has a row; the first
//! line of the operation asks [`check`].
//!
//! To add an operation: a row below, then `policy::check(actor, Operation::X, place)?` in the service. A test fails when a
//! row is used nowhere, and a snapshot shows every change of the table for what it is. `Name in scope: ...` lets a program
//! do it too, by a key with that scope; a row without a scope is for people who have signed in. Which address, method,
//! server function or page reaches which operation is told, and tried out, in `crate::matrix`.

#[cfg(test)]
pub(crate) mod asked;
mod standing;
#[cfg(test)]
mod tests;

use undertone_api::api_key::KeyScope;
use undertone_api::id::{ConsortiumId, OrganizationId};
use undertone_api::problem::Code;

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
    (@scope) => { None };
    (@scope $scope:ident) => { Some(KeyScope::$scope) };
    ($($(#[$doc:meta])* $name:ident $(in $scope:ident)?: $($who:ident)|+;)*) => {
        /// What may be done.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
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

            /// The scope of a key that reaches it; `None` when no key does.
            pub const fn scope(self) -> Option<KeyScope> {
                match self { $(Self::$name => operations!(@scope $($scope)?),)* }
            }
        }
    };
}

operations! {
    /// See one's own account.
    ReadSelf in Read: SignedIn;
    /// See what one was told, and of what one is told.
    ReadNotifications in Read: SignedIn;
    /// Mark what one was told as read, and choose of what one is told.
    MarkNotifications: SignedIn;
    /// Make, list and revoke keys by which programs ask for oneself.
    ManageKeys: SignedIn;
    /// List, add and remove the keys with which one approves jobs as a steward.
    ManageApprovalKeys: SignedIn;
    /// See one's identities at a provider of sign-ins, and take them away.
    ManageIdentities: SignedIn;
    /// Prove one's identity once more.
    ProveIdentity: SignedIn;
    /// End one's sessions.
    EndSession: SignedIn;
    /// Set up, renew and switch off one's second factor.
    ManageFactor: SignedIn;
    /// Change one's password.
    ChangePassword: SignedIn;
    /// Accept a one-time link with the account one has.
    JoinByLink: SignedIn;
    /// Make a link by which a member sets a new password.
    ResetPassword: Operator;
    /// List the consortia one stands in.
    ListConsortia in Read: SignedIn;
    /// List the organizations one may see.
    ListOrganizations in Read: SignedIn;
    /// Found a consortium.
    FoundConsortium in Consortia: Operator;
    /// See a consortium and who is in it.
    ReadConsortium in Read: Operator | ConsortiumAdmin | OrganizationAdmin | DataSteward | Researcher | Auditor;
    /// Change the name or the description of a consortium.
    EditConsortium in Consortia: ConsortiumAdmin;
    /// Declare in how many organizations one person may be.
    AttestOverlap in Consortia: ConsortiumAdmin;
    /// Invite an organization into a consortium, list and withdraw such invitations.
    InviteOrganization: ConsortiumAdmin;
    /// See an organization and its workers.
    ReadOrganization in Read: Operator | ConsortiumAdmin | OrganizationAdmin | DataSteward | Researcher | Auditor | Peer;
    /// See who works at an organization; e-mail addresses are for its admins only.
    ListMembers in Read: OrganizationAdmin | DataSteward | Researcher | Auditor;
    /// Invite members to an organization, list and withdraw such invitations.
    InviteMember: OrganizationAdmin;
    /// Give and take the roles of an organization's members.
    AssignRole: OrganizationAdmin;
    /// Confirm that a member's e-mail address is theirs.
    ConfirmAddress: Operator | OrganizationAdmin;
    /// Remove a member from an organization.
    RemoveMember: OrganizationAdmin;
    /// List who has a role over a consortium itself, give and take such roles.
    AssignConsortiumRole: ConsortiumAdmin;
    /// Make a token by which a worker enrols, or replaces a retired one.
    EnrolWorker: OrganizationAdmin;
    /// Retire and restore a worker.
    RetireWorker: Operator | ConsortiumAdmin | OrganizationAdmin;
    /// Retire and restore a member of an organization, and list those who are retired.
    RetireMember: OrganizationAdmin;
    /// Retire an organization from a consortium, and restore it.
    RetireOrganization: Operator | ConsortiumAdmin;
    /// List accounts, retire and restore them.
    ManageAccounts: Operator;
    /// Invite another operator, list and withdraw such invitations.
    InviteOperator: Operator;
    /// See a dataset's coarse facts and accounts.
    ReadDataset in Read: ConsortiumAdmin | OrganizationAdmin | DataSteward | Researcher | Auditor | Peer;
    /// Set or raise a dataset's budget.
    SetBudget in Datasets: DataSteward;
    /// Clear a dataset that an audit has frozen.
    ClearFreeze in Datasets: DataSteward;
    /// Read a dataset's ledger, row by row.
    ReadLedger in Ledger: ConsortiumAdmin | DataSteward | Auditor;
    /// Read the signed heads of the server's log: one number and one hash over everybody's entries.
    ReadLog in Ledger: SignedIn;
    /// Take the ledgers of a consortium away in a file, as far as one may read them, with the proof that they are whole.
    ExportLedger in Ledger: ConsortiumAdmin | DataSteward | Auditor;
    /// Read what was done on the server as such: signing in, accounts, operation.
    ReadServerLog in Ledger: Operator;
    /// Read what was done in a consortium, and take it away.
    ReadConsortiumLog in Ledger: ConsortiumAdmin | Auditor;
    /// Read what was done in an organization, and take it away.
    ReadOrganizationLog in Ledger: OrganizationAdmin | Auditor;
    /// Ask what a job would cost and whether the budgets admit it.
    PlanJob in Jobs: ConsortiumAdmin | DataSteward | Researcher;
    /// Propose a job to the owners of its datasets.
    ProposeJob in Jobs: Researcher;
    /// See jobs, how far they are and what they found.
    ReadJob in Read: ConsortiumAdmin | OrganizationAdmin | DataSteward | Researcher | Auditor;
    /// Approve or refuse a job, for a dataset of the organization.
    DecideJob in Approvals: DataSteward;
    /// End a job; for the consortium's admins, and for its proposer where they still are a researcher.
    CancelJob in Jobs: ConsortiumAdmin | Researcher;
    /// Pause a job and let it go on; for the consortium's admins, and for its proposer where they still are a researcher.
    PauseJob in Jobs: ConsortiumAdmin | Researcher;
    /// Write drafts of jobs with the other researchers of one's organization.
    WriteDraft in Jobs: Researcher;
    /// Hold a job for a dataset of the organization, and let it go on.
    HoldJob in Approvals: DataSteward;
    /// Set and withdraw limits within which jobs pass without being asked about.
    SetApprovalLimit in Approvals: DataSteward;
    /// See such limits of a dataset of the organization.
    ReadApprovalLimit in Read: OrganizationAdmin | DataSteward | Auditor;
    /// Invite people who answer questions only, list and withdraw such invitations.
    InviteAnnotator: ConsortiumAdmin;
    /// See which jobs ask questions of people, and how far they are.
    FollowQuestions in Questions: ConsortiumAdmin | DataSteward | Researcher | Auditor | Annotator;
    /// Answer the questions of jobs, without seeing what others answered.
    Annotate in Questions: ConsortiumAdmin | DataSteward | Researcher | Annotator;
    /// See the questions of jobs, and take them away with their answers.
    ReadQuestions in Questions: ConsortiumAdmin | DataSteward | Researcher | Auditor;
    /// Bring in answers that were given elsewhere.
    ImportAnswers in Questions: ConsortiumAdmin | Researcher;
    /// Take a job's files away: the model above all.
    TakeModel in Models: ConsortiumAdmin | Researcher;
}

/// Whether the actor may.
///
/// # Errors
/// 404 when the actor may not even know the place, 403 when they may see it but not do this, or when the key that is used
/// does not reach so far.
pub fn check(actor: &Actor, operation: Operation, place: Place) -> Result<(), Error> {
    let answer = answer(actor, operation, place);
    #[cfg(test)]
    asked::note(operation, place, answer.is_ok());
    answer
}

/// Refuses a caller whose last proof of identity is older than [`FRESH`](crate::auth::FRESH). Operations that make credentials or
/// take access away ask this after [`check`].
///
/// # Errors
/// `proof_stale`, with the way to prove it again.
pub fn check_fresh(actor: &Actor) -> Result<(), Error> {
    if actor.is_fresh {
        return Ok(());
    }
    let remedy = "confirm your identity under Settings, Security (or by POST /session/proof) with your password, a code of your \
                  second factor or a passkey, then do this again; without either, sign out and in again";
    Err(Error::problem(Code::ProofStale, remedy))
}

/// What somebody may who has yet to set up the second factor that the server asks everybody for.
const CONFINED: [Operation; 5] = [
    Operation::ReadSelf,
    Operation::ProveIdentity,
    Operation::EndSession,
    Operation::ManageFactor,
    Operation::ChangePassword,
];

fn answer(actor: &Actor, operation: Operation, place: Place) -> Result<(), Error> {
    if actor.is_confined() && !CONFINED.contains(&operation) {
        let remedy = "this server asks everybody for a second factor: set yours up under Settings, Security";
        return Err(Error::problem(Code::SecondFactorMissing, remedy));
    }
    let standings = Standing::of(actor, place);
    if operation.allowed().iter().any(|who| standings.contains(who)) {
        return if actor.reaches(operation.scope()) { Ok(()) } else { Err(Error::forbidden(beyond(operation))) };
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
    let open = !actor.is_confined() || CONFINED.contains(&operation);
    open && operation.allowed().iter().any(|who| standings.contains(who)) && actor.reaches(operation.scope())
}

/// Why a key is refused what its owner may.
fn beyond(operation: Operation) -> String {
    match operation.scope() {
        Some(scope) => format!("this key does not reach so far: use one with the scope `{}`", scope.word()),
        None => "no key reaches this: sign in".to_owned(),
    }
}

fn wanted(operation: Operation) -> String {
    let words: Vec<&str> = operation.allowed().iter().map(|who| who.label()).collect();
    words.join(" or ")
}
