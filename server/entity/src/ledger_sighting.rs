//! The newest position of one site's ledger that another site has seen and signed.

use sea_orm::entity::prelude::*;

/// The newest position of the subject's ledger that the observer has seen and signed.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "ledger_sighting")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub observer_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub subject_id: Uuid,
    #[sea_orm(column_type = "Text")]
    pub payload: String,
    #[sea_orm(column_type = "Text")]
    pub signature: String,
    pub observed_at: TimeDateTimeWithTimeZone,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
