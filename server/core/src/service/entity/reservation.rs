//! A reservation: the charges that a job may still make on an account. A job has one reservation on each account that
//! it charges.

use sea_orm::entity::prelude::*;

/// A reservation: the charges that a job may still make on an account.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "reservation")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub account_id: Uuid,
    pub job_id: Uuid,
    pub dataset_id: Uuid,
    #[sea_orm(column_type = "Text")]
    pub event: String,
    #[sea_orm(column_type = "Text")]
    pub per_release: String,
    pub in_the_clear: bool,
    pub releases: i64,
    pub committed: i64,
    pub settled: bool,
    /// Whether the account is that of the unit which the job protects.
    pub own: bool,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
