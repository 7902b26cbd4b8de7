//! A notification of a member.

use sea_orm::entity::prelude::*;
use undertone_api::notification::{Notification, NotificationKind};

use crate::column::EnumColumn;

/// A notification of a member.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "notification")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub member_id: Uuid,
    pub kind: EnumColumn<NotificationKind, Entity>,
    /// The key of the notified event: the same event is notified once.
    pub key: String,
    #[sea_orm(column_type = "Text")]
    pub text: String,
    pub consortium_id: Option<Uuid>,
    pub job_id: Option<Uuid>,
    pub dataset_id: Option<Uuid>,
    pub organization_id: Option<Uuid>,
    pub at: TimeDateTimeWithTimeZone,
    pub read_at: Option<TimeDateTimeWithTimeZone>,
}

impl From<Model> for Notification {
    fn from(row: Model) -> Self {
        Self {
            id: row.id.into(),
            kind: *row.kind,
            text: row.text,
            consortium: row.consortium_id.map(Into::into),
            job: row.job_id.map(Into::into),
            dataset: row.dataset_id.map(Into::into),
            organization: row.organization_id.map(Into::into),
            at: row.at,
            read_at: row.read_at,
        }
    }
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
