//! Declarations of a consortium's admins about people who may be in several organizations, with their times.

use sea_orm_migration::schema::{integer, string, text, timestamp_with_time_zone, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("overlap")
        .column(uuid("consortium_id"))
        .column(integer("sequence"))
        .column(text("overlap"))
        .column(text("statement"))
        .column(uuid("member_id"))
        .column(string("attested_by"))
        .column(timestamp_with_time_zone("attested_at"))
        .primary_key(["consortium_id", "sequence"])
        .foreign_key("overlap_consortium", ["consortium_id"], "consortium", ["id"])
        .append_only()
}
