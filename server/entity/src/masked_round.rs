//! The closed phases of a masked round.

use sea_orm::entity::prelude::*;

/// The closed phases of a masked round. A set has bit i for the site with index i; it never changes.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "masked_round")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub job_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub series: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub round: i32,
    /// The sites of the list of advertisements; absent while it is open.
    pub listed: Option<i64>,
    /// The sites that have shared; absent while they may.
    pub members: Option<i64>,
    /// The members whose vectors arrived; absent while they may arrive.
    pub survivors: Option<i64>,
    /// The sites that take no further part in the round; absent while there is none.
    pub refused: Option<i64>,
    /// The beginning of the present phase.
    pub phase_at: TimeDateTimeWithTimeZone,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
