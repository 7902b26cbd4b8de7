//! Announces retirements and restorations to the affected members. The kind cannot be switched off.

use uuid::Uuid;

use super::{MemberNotice, tell};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;

/// A retirement or a restoration, and its audience.
#[derive(Debug, Clone)]
pub(crate) struct AccessNotice<'a> {
    /// Distinguishes this notice from those about other acts.
    pub(super) key: String,
    /// The notice, a sentence.
    pub(super) text: &'a str,
    /// The member who gained or lost access.
    pub(super) member: Option<Uuid>,
    /// Organizations whose admins are notified.
    pub(super) organizations: Vec<Uuid>,
    /// The consortium whose admins are notified.
    pub(super) consortium: Option<Uuid>,
    /// Whether all operators are notified.
    pub(super) has_operators: bool,
}

impl<'a> AccessNotice<'a> {
    /// Returns the notice of the retirement `act`.
    pub(crate) fn retired(act: Uuid, text: &'a str) -> Self {
        Self::new(format!("retired:{act}"), text)
    }

    /// Returns the notice that the retirement `act` has ended.
    pub(crate) fn restored(act: Uuid, text: &'a str) -> Self {
        Self::new(format!("restored:{act}"), text)
    }

    /// Returns another notice about access, under a key of its own.
    pub(crate) const fn new(key: String, text: &'a str) -> Self {
        Self { key, text, member: None, organizations: Vec::new(), consortium: None, has_operators: false }
    }

    /// Notifies the member too.
    #[must_use]
    pub(crate) const fn for_member(mut self, id: Uuid) -> Self {
        self.member = Some(id);
        self
    }

    /// Notifies the admins of an organization too.
    #[must_use]
    pub(crate) fn for_organization(mut self, id: Uuid) -> Self {
        self.organizations.push(id);
        self
    }

    /// Notifies the admins of organizations too.
    #[must_use]
    pub(crate) fn for_organizations(mut self, ids: &[Uuid]) -> Self {
        self.organizations.extend(ids);
        self
    }

    /// Notifies the admins of a consortium too.
    #[must_use]
    pub(crate) const fn for_consortium(mut self, id: Uuid) -> Self {
        self.consortium = Some(id);
        self
    }

    /// Notifies all operators too.
    #[must_use]
    pub(crate) const fn for_operators(mut self) -> Self {
        self.has_operators = true;
        self
    }

    /// Sends the notice, in the transaction of the act.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn send(self, ctx: &Ctx, tx: &Tx) -> Result<(), Error> {
        tell(ctx, tx, MemberNotice::Access(&self)).await
    }
}
