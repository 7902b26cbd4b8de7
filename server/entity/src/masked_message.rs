//! A site's message of one step of a masked round.

use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

use crate::column::EnumColumn;

/// A site's message of one step of a masked round. It is kept until the round closes.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "masked_message")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub job_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub series: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub round: i32,
    #[sea_orm(primary_key, auto_increment = false)]
    pub step: EnumColumn<MaskedStep, Entity>,
    /// The index of the site in the group.
    #[sea_orm(primary_key, auto_increment = false)]
    pub site: i32,
    /// The message, as JSON.
    #[sea_orm(column_type = "Text")]
    pub body: String,
    pub received_at: TimeDateTimeWithTimeZone,
}

/// A step of a masked round with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaskedStep {
    /// The keys of the round.
    Advertise,
    /// The sealed shares for the other sites.
    Share,
    /// The signature on the set of survivors.
    Sign,
    /// The shares that open the sum.
    Reveal,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
