//! The backend of pages about retirement and about operators' accounts.

use async_trait::async_trait;
use undertone_api::account::IdentityProof;
use undertone_api::id::{InvitationId, MemberId, OrganizationId, WorkerId};
use undertone_api::retirement::{AccountState, RetiredMember, StatedReason};
use undertone_api::worker::Enrolment;
use undertone_app::{Answer, RetirementSubject, Retirements};

use super::desk::Desk;
use undertone_server_core::auth::Place;
use undertone_server_core::error::Error;
use undertone_server_core::service::{invitation, retirement, role, session, worker};

#[async_trait]
impl Retirements for Desk {
    async fn prove_identity(&self, proof: IdentityProof) -> Answer<()> {
        session::prove_identity(self.ctx(), self.actor()?, &proof).await.map_err(Error::into_problem)
    }

    async fn retire(&self, subject: RetirementSubject, stated: StatedReason) -> Answer<()> {
        let ctx = self.ctx();
        let actor = self.actor()?;
        let retired = match subject {
            RetirementSubject::Worker(organization, id) => {
                retirement::retire_worker(ctx, actor, organization, id, &stated).await.map(drop)
            }
            RetirementSubject::Member(organization, id) => {
                retirement::retire_member(ctx, actor, organization, id, &stated).await.map(drop)
            }
            RetirementSubject::Organization(consortium, id) => {
                retirement::retire_organization(ctx, actor, consortium, id, &stated).await.map(drop)
            }
            RetirementSubject::Account(id) => retirement::retire_account(ctx, actor, id, &stated).await.map(drop),
        };
        retired.map_err(Error::into_problem)
    }

    async fn restore(&self, subject: RetirementSubject, stated: StatedReason) -> Answer<()> {
        let ctx = self.ctx();
        let actor = self.actor()?;
        let restored = match subject {
            RetirementSubject::Worker(organization, id) => {
                retirement::restore_worker(ctx, actor, organization, id, &stated).await.map(drop)
            }
            RetirementSubject::Member(organization, id) => {
                retirement::restore_member(ctx, actor, organization, id, &stated).await.map(drop)
            }
            RetirementSubject::Organization(consortium, id) => {
                retirement::restore_organization(ctx, actor, consortium, id, &stated).await.map(drop)
            }
            RetirementSubject::Account(id) => retirement::restore_account(ctx, actor, id, &stated).await.map(drop),
        };
        restored.map_err(Error::into_problem)
    }

    async fn write_off(&self, organization: OrganizationId, id: WorkerId, stated: StatedReason) -> Answer<()> {
        let written_off = retirement::write_off_worker(self.ctx(), self.actor()?, organization, id, &stated).await;
        written_off.map(drop).map_err(Error::into_problem)
    }

    async fn replace_worker(&self, organization: OrganizationId, id: WorkerId) -> Answer<Enrolment> {
        worker::invite_replacement(self.ctx(), self.actor()?, organization, id).await.map_err(Error::into_problem)
    }

    async fn retired_members(&self, organization: OrganizationId) -> Answer<Vec<RetiredMember>> {
        retirement::list_retired_members(self.ctx(), self.actor()?, organization).await.map_err(Error::into_problem)
    }

    async fn confirm_address(&self, organization: OrganizationId, id: MemberId) -> Answer<()> {
        role::confirm_address(self.ctx(), self.actor()?, organization, id).await.map_err(Error::into_problem)
    }

    async fn accounts(&self) -> Answer<Vec<AccountState>> {
        retirement::list_accounts(self.ctx(), self.actor()?).await.map_err(Error::into_problem)
    }

    async fn withdraw_operator(&self, id: InvitationId) -> Answer<()> {
        invitation::withdraw(self.ctx(), self.actor()?, Place::Server, id).await.map_err(Error::into_problem)
    }
}
