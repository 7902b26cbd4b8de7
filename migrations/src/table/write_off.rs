//! Workers that were written off after a restoration.

use sea_orm_migration::schema::{
    pk_uuid, string_null, text, timestamp_with_time_zone, timestamp_with_time_zone_null, uuid,
};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("write_off")
        .column(pk_uuid("id"))
        .column(uuid("worker_id"))
        .column(text("reason"))
        .column(uuid("written_off_by"))
        .column(timestamp_with_time_zone("written_off_at"))
        .column(timestamp_with_time_zone_null("returned_at"))
        .column(string_null("returned_head"))
        .foreign_key("write_off_worker", ["worker_id"], "worker", ["id"])
        .index("write_off_of_worker", ["worker_id"])
}
