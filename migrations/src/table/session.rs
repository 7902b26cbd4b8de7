//! Sessions, each with its only valid refresh token. Only hashes of tokens are stored. `network` and `agent` are the
//! coarse origin, `proven_at` is the last proof of identity.

use sea_orm_migration::schema::{
    pk_uuid, string, string_null, timestamp_with_time_zone, timestamp_with_time_zone_null, uuid,
};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("session")
        .column(pk_uuid("id"))
        .column(uuid("member_id"))
        .column(string("current"))
        .column(string_null("previous"))
        .column(timestamp_with_time_zone("created_at"))
        .column(timestamp_with_time_zone("rotated_at"))
        .column(timestamp_with_time_zone("expires_at"))
        .column(timestamp_with_time_zone_null("ended_at"))
        .column(string("network").default(""))
        .column(string("agent").default(""))
        .column(timestamp_with_time_zone_null("proven_at"))
        .foreign_key("session_member", ["member_id"], "member", ["id"])
        .index("session_by_member", ["member_id"])
}
