//! A kind of notification that a member has switched off.

use sea_orm::entity::prelude::*;
use undertone_api::notification::NotificationKind;

use crate::column::EnumColumn;

/// A kind of notification that a member has switched off.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "notification_switch")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub member_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub kind: EnumColumn<NotificationKind, Entity>,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
