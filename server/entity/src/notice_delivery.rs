//! A security notice queued for one channel.

use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};
use undertone_api::notification::NotificationKind;

use crate::column::EnumColumn;

/// A security notice queued for one channel.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "notice_delivery")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub member_id: Uuid,
    pub channel: EnumColumn<NoticeChannel, Entity>,
    pub kind: EnumColumn<NotificationKind, Entity>,
    #[sea_orm(column_type = "Text")]
    pub text: String,
    pub at: TimeDateTimeWithTimeZone,
    pub attempts: i32,
    pub due_at: TimeDateTimeWithTimeZone,
}

/// The channel of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeChannel {
    /// E-mail.
    Mail,
    /// The configured webhook.
    Webhook,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
