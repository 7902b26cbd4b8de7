//! The number of announced changes of each channel by which the replicas notify each other.

use sea_orm_migration::schema::{big_integer, integer};

use crate::table_step::TableStep;

pub(crate) fn define() -> TableStep {
    TableStep::new("change").column(integer("channel")).column(big_integer("number")).primary_key(["channel"])
}
