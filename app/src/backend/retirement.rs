//! The pages' requests about retirement and about operators' accounts. Part of [`Backend`](super::Backend).

use async_trait::async_trait;
use undertone_api::account::IdentityProof;
use undertone_api::id::{ConsortiumId, InvitationId, MemberId, OrganizationId, WorkerId};
use undertone_api::retirement::{AccountState, RetiredMember, StatedReason};
use undertone_api::worker::Enrolment;

use super::Answer;

/// The subject of a retirement or a restoration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetirementSubject {
    /// A worker of an organization.
    Worker(OrganizationId, WorkerId),
    /// A member of an organization.
    Member(OrganizationId, MemberId),
    /// An organization in a consortium.
    Organization(ConsortiumId, OrganizationId),
    /// An account of the server.
    Account(MemberId),
}

/// The requests of one caller about access: retirement, replacement, operators' accounts, and proofs of identity.
#[async_trait]
pub trait Retirements: Send + Sync + 'static {
    /// Proves the caller's identity once more.
    async fn prove_identity(&self, proof: IdentityProof) -> Answer<()>;

    /// Retires a subject.
    async fn retire(&self, subject: RetirementSubject, stated: StatedReason) -> Answer<()>;

    /// Restores a retired subject.
    async fn restore(&self, subject: RetirementSubject, stated: StatedReason) -> Answer<()>;

    /// Writes off a worker whose site does not return.
    async fn write_off(&self, organization: OrganizationId, worker: WorkerId, stated: StatedReason) -> Answer<()>;

    /// Makes a token for the replacement of a retired worker; only this answer contains it.
    async fn replace_worker(&self, organization: OrganizationId, worker: WorkerId) -> Answer<Enrolment>;

    /// Returns the retired members of an organization.
    async fn retired_members(&self, organization: OrganizationId) -> Answer<Vec<RetiredMember>>;

    /// Confirms that a member's e-mail address is theirs.
    async fn confirm_address(&self, organization: OrganizationId, member: MemberId) -> Answer<()>;

    /// Returns the accounts of the server, for operators.
    async fn accounts(&self) -> Answer<Vec<AccountState>>;

    /// Withdraws an unused link for an operator.
    async fn withdraw_operator(&self, invitation: InvitationId) -> Answer<()>;
}
