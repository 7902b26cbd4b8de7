//! Keys with which programs act for a member. Only their hashes are stored.

use sea_orm_migration::schema::{pk_uuid, string, text, timestamp_with_time_zone, timestamp_with_time_zone_null, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("api_key")
        .column(pk_uuid("id"))
        .column(uuid("member_id"))
        .column(string("name"))
        .column(text("scopes"))
        .column(string("secret_hash"))
        .column(timestamp_with_time_zone("created_at"))
        .column(timestamp_with_time_zone("expires_at"))
        .column(timestamp_with_time_zone_null("last_used_at"))
        .column(timestamp_with_time_zone_null("revoked_at"))
        .foreign_key("api_key_member", ["member_id"], "member", ["id"])
        .index("api_key_by_member", ["member_id"])
}
