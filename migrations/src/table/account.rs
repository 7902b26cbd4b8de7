//! Lifetime privacy accounts, one for each organization, lineage, unit, adjacency and observer.

use sea_orm_migration::schema::{big_integer, pk_uuid, string, text, timestamp_with_time_zone, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("account")
        .column(pk_uuid("id"))
        .column(uuid("organization_id"))
        .column(uuid("lineage_id"))
        .column(string("unit"))
        .column(string("adjacency"))
        .column(string("observer"))
        .column(text("balance"))
        .column(big_integer("in_the_clear"))
        .column(big_integer("entries"))
        .column(string("head"))
        .column(timestamp_with_time_zone("created_at"))
        .unique_index("account_key", ["organization_id", "lineage_id", "unit", "adjacency", "observer"])
}
