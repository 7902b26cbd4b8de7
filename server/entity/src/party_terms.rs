//! A party's answer to the open terms of a proposed job.

use sea_orm::entity::prelude::*;
use undertone_api::job::PartyTerms;

use crate::column::JsonColumn;

/// A party's answer to the open terms of a proposed job.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "party_terms")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub job_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub dataset_id: Uuid,
    #[sea_orm(column_type = "Text")]
    pub terms: JsonColumn<PartyTerms, Entity>,
    pub by: String,
    pub at: TimeDateTimeWithTimeZone,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
