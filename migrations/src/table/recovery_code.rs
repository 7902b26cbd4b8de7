//! Recovery codes of members with a second factor. Only their hashes are stored.

use sea_orm_migration::schema::{pk_uuid, string, timestamp_with_time_zone, timestamp_with_time_zone_null, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("recovery_code")
        .column(pk_uuid("id"))
        .column(uuid("member_id"))
        .column(string("code_hash"))
        .column(timestamp_with_time_zone("created_at"))
        .column(timestamp_with_time_zone_null("used_at"))
        .foreign_key("recovery_code_member", ["member_id"], "member", ["id"])
        .index("recovery_code_by_member", ["member_id"])
}
