//! A person with an account.

use sea_orm::entity::prelude::*;

/// A person with an account.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "member")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub name: String,
    pub email: String,
    pub password_hash: String,
    pub operator: bool,
    pub created_at: TimeDateTimeWithTimeZone,
    /// The time of the account's retirement; absent while it is active.
    pub retired_at: Option<TimeDateTimeWithTimeZone>,
    /// The time at which an admin or a provider confirmed the e-mail address; absent while it is unconfirmed.
    pub address_confirmed_at: Option<TimeDateTimeWithTimeZone>,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
