//! The single policy table: operations, places, and the standings that permit them. Every operation of the service
//! layer has a row; the operation begins by calling [`check`].
//!
//! To add an operation: add a row below, then call `policy::check(actor, Operation::X, place)?` in the service. A test
//! fails if a row is unused, and a snapshot shows every change of the table. `Name in scope: ...` also permits the
//! operation to programs, by a key with that scope; a row without a scope requires a signed-in member. `crate::matrix`
//! lists and tests the address, method, server function or page of each operation.

#[cfg(any(test, feature = "testing"))]
pub mod check_log;
mod standing;
#[cfg(test)]
mod tests;

use undertone_api::api_key::KeyScope;
use undertone_api::id::{ConsortiumId, OrganizationId};
use undertone_api::problem::Code;

pub use standing::Standing;

use super::actor::Actor;
use crate::error::Error;

/// The place of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The server itself.
    Server,
    /// A consortium.
    Consortium(ConsortiumId),
    /// An organization.
    Organization(OrganizationId),
}

macro_rules! operations {
    (@scope) => { None };
    (@scope $scope:ident) => { Some(KeyScope::$scope) };
    ($($(#[$doc:meta])* $name:ident $(in $scope:ident)?: $($who:ident)|+;)*) => {
        /// The operations that the policy knows.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Operation {
            $($(#[$doc])* $name,)*
        }

        impl Operation {
            /// Every operation, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns the standings that permit the operation; one of them is enough.
            pub const fn allowed(self) -> &'static [Standing] {
                match self { $(Self::$name => &[$(Standing::$who,)+],)* }
            }

            /// Returns the key scope that permits the operation; `None` if no key does.
            pub const fn scope(self) -> Option<KeyScope> {
                match self { $(Self::$name => operations!(@scope $($scope)?),)* }
            }
        }
    };
}

operations! {
    /// See one's own account.
    ReadSelf in Read: SignedIn;
    /// See one's notifications and the choice of their subjects.
    ReadNotifications in Read: SignedIn;
    /// Mark notifications as read, and choose their subjects.
    MarkNotifications: SignedIn;
    /// Create, list and revoke the keys of programs that act for oneself.
    ManageKeys: SignedIn;
    /// List, add and remove the keys with which a steward approves jobs.
    ManageApprovalKeys: SignedIn;
    /// See and remove one's identities at identity providers.
    ManageIdentities: SignedIn;
    /// Prove one's identity again.
    ProveIdentity: SignedIn;
    /// End one's sessions.
    EndSession: SignedIn;
    /// Set up, renew and switch off one's second factor.
    ManageFactor: SignedIn;
    /// Change one's password.
    ChangePassword: SignedIn;
    /// Accept a one-time link with an existing account.
    JoinByLink: SignedIn;
    /// Create a link by which a member sets a new password.
    ResetPassword: Operator;
    /// List the consortia in which one has a standing.
    ListConsortia in Read: SignedIn;
    /// List the visible organizations.
    ListOrganizations in Read: SignedIn;
    /// Found a consortium.
    FoundConsortium in Consortia: Operator;
    /// See a consortium and its members.
    ReadConsortium in Read: Operator | ConsortiumAdmin | OrganizationAdmin | DataSteward | Researcher | Auditor;
    /// Change the name or the description of a consortium.
    EditConsortium in Consortia: ConsortiumAdmin;
    /// Declare the highest number of organizations to which one person may belong.
    AttestOverlap in Consortia: ConsortiumAdmin;
    /// Invite an organization into a consortium, list and withdraw such invitations.
    InviteOrganization: ConsortiumAdmin;
    /// See an organization and its workers.
    ReadOrganization in Read: Operator | ConsortiumAdmin | OrganizationAdmin | DataSteward | Researcher | Auditor | Peer;
    /// See the members of an organization; only its admins see e-mail addresses.
    ListMembers in Read: OrganizationAdmin | DataSteward | Researcher | Auditor;
    /// Invite members to an organization, list and withdraw such invitations.
    InviteMember: OrganizationAdmin;
    /// Grant and revoke the roles of an organization's members.
    AssignRole: OrganizationAdmin;
    /// Confirm that a member's e-mail address is theirs.
    ConfirmAddress: Operator | OrganizationAdmin;
    /// Remove a member from an organization.
    RemoveMember: OrganizationAdmin;
    /// List, grant and revoke the roles over a consortium itself.
    AssignConsortiumRole: ConsortiumAdmin;
    /// Create a token by which a worker enrols or replaces a retired one.
    EnrolWorker: OrganizationAdmin;
    /// Retire and restore a worker.
    RetireWorker: Operator | ConsortiumAdmin | OrganizationAdmin;
    /// Retire and restore a member of an organization, and list retired members.
    RetireMember: OrganizationAdmin;
    /// Retire an organization from a consortium, and restore it.
    RetireOrganization: Operator | ConsortiumAdmin;
    /// List accounts, retire and restore them.
    ManageAccounts: Operator;
    /// Invite another operator, list and withdraw such invitations.
    InviteOperator: Operator;
    /// See a dataset's coarse statistics and accounts.
    ReadDataset in Read: ConsortiumAdmin | OrganizationAdmin | DataSteward | Researcher | Auditor | Peer;
    /// Set or raise a dataset's budget.
    SetBudget in Datasets: DataSteward;
    /// Unfreeze a dataset that an audit has frozen.
    ClearFreeze in Datasets: DataSteward;
    /// Read a dataset's ledger, row by row.
    ReadLedger in Ledger: ConsortiumAdmin | DataSteward | Auditor;
    /// Read the signed heads of the server's log: one number and one hash over the entries of all ledgers.
    ReadLog in Ledger: SignedIn;
    /// Export the readable ledgers of a consortium to a file, with the proof of their completeness.
    ExportLedger in Ledger: ConsortiumAdmin | DataSteward | Auditor;
    /// Read the audit log of the server itself: sign-ins, accounts, operation.
    ReadServerLog in Ledger: Operator;
    /// Read and export the audit log of a consortium.
    ReadConsortiumLog in Ledger: ConsortiumAdmin | Auditor;
    /// Read and export the audit log of an organization.
    ReadOrganizationLog in Ledger: OrganizationAdmin | Auditor;
    /// Compute the cost of a job, and check it against the budgets.
    PlanJob in Jobs: ConsortiumAdmin | DataSteward | Researcher;
    /// Propose a job to the owners of its datasets.
    ProposeJob in Jobs: Researcher;
    /// See jobs, their progress and their results.
    ReadJob in Read: ConsortiumAdmin | OrganizationAdmin | DataSteward | Researcher | Auditor;
    /// Approve or refuse a job, for a dataset of the organization.
    DecideJob in Approvals: DataSteward;
    /// End a job: permitted to the consortium's admins, and to its proposer while they are a researcher.
    CancelJob in Jobs: ConsortiumAdmin | Researcher;
    /// Pause and resume a job: permitted to the consortium's admins, and to its proposer while they are a researcher.
    PauseJob in Jobs: ConsortiumAdmin | Researcher;
    /// Write drafts of jobs with the other researchers of one's organization.
    WriteDraft in Jobs: Researcher;
    /// Hold a job for a dataset of the organization, and release it.
    HoldJob in Approvals: DataSteward;
    /// Leave a job that its workers run, for a dataset of the organization.
    LeaveJob in Approvals: DataSteward;
    /// Set and withdraw limits within which jobs are approved automatically.
    SetApprovalLimit in Approvals: DataSteward;
    /// See such limits of a dataset of the organization.
    ReadApprovalLimit in Read: OrganizationAdmin | DataSteward | Auditor;
    /// Invite annotators, list and withdraw such invitations.
    InviteAnnotator: ConsortiumAdmin;
    /// See the jobs that have questions for annotators, and their progress.
    FollowQuestions in Questions: ConsortiumAdmin | DataSteward | Researcher | Auditor | Annotator;
    /// Answer the questions of jobs, without access to the answers of others.
    Annotate in Questions: ConsortiumAdmin | DataSteward | Researcher | Annotator;
    /// See the questions of jobs, and export them with their answers.
    ReadQuestions in Questions: ConsortiumAdmin | DataSteward | Researcher | Auditor;
    /// Import answers that were given in another program.
    ImportAnswers in Questions: ConsortiumAdmin | Researcher;
    /// Download a job's files, in particular the model.
    TakeModel in Models: ConsortiumAdmin | Researcher;
    /// Delete the bytes of a job's file, in particular a model: permitted to the consortium's admins, and to the admins
    /// of the organization whose worker stored it.
    DeleteModel in Models: ConsortiumAdmin | OrganizationAdmin;
}

/// Checks that the actor may perform the operation at the place.
///
/// # Errors
/// 404 if the actor may not know the place; 403 if they may see it but not perform this operation, or if their key's
/// scopes do not include it.
pub fn check(actor: &Actor, operation: Operation, place: Place) -> Result<(), Error> {
    let answer = answer(actor, operation, place);
    #[cfg(any(test, feature = "testing"))]
    check_log::record_check(operation, place, answer.is_ok());
    answer
}

/// Refuses a caller whose last proof of identity is older than [`FRESH`](crate::auth::FRESH). Operations that create
/// credentials or revoke access call this after [`check`].
///
/// # Errors
/// `proof_stale`, with the way to prove the identity again.
pub fn check_fresh(actor: &Actor) -> Result<(), Error> {
    if actor.is_fresh {
        return Ok(());
    }
    let remedy = "confirm your identity under Settings, Security (or by POST /session/proof) with your password, a code of your \
                  second factor or a passkey, then do this again; without either, sign out and in again";
    Err(Error::problem(Code::ProofStale, remedy))
}

/// The operations of a member without the second factor that the server requires.
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
    let standings = Standing::list_for(actor, place);
    if operation.allowed().iter().any(|who| standings.contains(who)) {
        return if actor.reaches(operation.scope()) {
            Ok(())
        } else {
            Err(Error::forbidden(describe_missing_scope(operation)))
        };
    }
    if standings.iter().any(|standing| standing.sees()) || place == Place::Server {
        return Err(Error::forbidden(format!("this takes the role of {}", describe_required_roles(operation))));
    }
    Err(Error::not_found(match place {
        Place::Server => "thing",
        Place::Consortium(_) => "consortium",
        Place::Organization(_) => "organization",
    }))
}

/// Returns whether the actor may perform the operation; used by lists and pages that show only permitted operations.
pub fn allows(actor: &Actor, operation: Operation, place: Place) -> bool {
    let standings = Standing::list_for(actor, place);
    let open = !actor.is_confined() || CONFINED.contains(&operation);
    open && operation.allowed().iter().any(|who| standings.contains(who)) && actor.reaches(operation.scope())
}

/// Explains why a key may not perform an operation that its owner may perform.
fn describe_missing_scope(operation: Operation) -> String {
    match operation.scope() {
        Some(scope) => format!("this key does not reach so far: use one with the scope `{}`", scope.word()),
        None => "no key reaches this: sign in".to_owned(),
    }
}

fn describe_required_roles(operation: Operation) -> String {
    let words: Vec<&str> = operation.allowed().iter().map(|who| who.label()).collect();
    words.join(" or ")
}
