//! One-time links with which members set a new password. Only the hash of a link's secret is stored.

use sea_orm_migration::schema::{
    boolean, pk_uuid, string_uniq, timestamp_with_time_zone, timestamp_with_time_zone_null, uuid,
};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("reset")
        .column(pk_uuid("id"))
        .column(uuid("member_id"))
        .column(string_uniq("secret_hash"))
        .column(boolean("clears_factor"))
        .column(uuid("created_by"))
        .column(timestamp_with_time_zone("created_at"))
        .column(timestamp_with_time_zone("expires_at"))
        .column(timestamp_with_time_zone_null("used_at"))
        .foreign_key("reset_member", ["member_id"], "member", ["id"])
        .index("reset_by_member", ["member_id"])
}
