//! A session, and the hash of the valid refresh token.

use sea_orm::entity::prelude::*;

/// A session, and the hash of the valid refresh token.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "session")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub member_id: Uuid,
    pub current: String,
    pub previous: Option<String>,
    pub created_at: TimeDateTimeWithTimeZone,
    pub rotated_at: TimeDateTimeWithTimeZone,
    pub expires_at: TimeDateTimeWithTimeZone,
    pub ended_at: Option<TimeDateTimeWithTimeZone>,
    pub network: String,
    pub agent: String,
    /// The time of the member's last proof of identity; absent in old sessions.
    pub proven_at: Option<TimeDateTimeWithTimeZone>,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
