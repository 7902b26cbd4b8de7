//! Worker daemons. `retired_at` is set while a retirement is in force.

use sea_orm_migration::schema::{
    pk_uuid, string, string_uniq, text, timestamp_with_time_zone, timestamp_with_time_zone_null, uuid, uuid_null,
};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("worker")
        .column(pk_uuid("id"))
        .column(uuid("organization_id"))
        .column(string("name"))
        .column(string_uniq("public_key"))
        .column(string("version"))
        .column(text("kinds"))
        .column(timestamp_with_time_zone("created_at"))
        .column(timestamp_with_time_zone_null("last_seen_at"))
        .column(timestamp_with_time_zone_null("retired_at"))
        .column(uuid_null("replaces"))
        .foreign_key("worker_organization", ["organization_id"], "organization", ["id"])
        .index("worker_by_organization", ["organization_id"])
}
