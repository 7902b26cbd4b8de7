//! A notification of a member.

use sea_orm::entity::prelude::*;
use undertone_api::notification::NotificationKind;

use super::column::EnumColumn;

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

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
