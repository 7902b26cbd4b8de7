//! The number of announced changes of a channel.

use sea_orm::entity::prelude::*;

/// The number of announced changes of a channel.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "change")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub channel: i32,
    pub number: i64,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
