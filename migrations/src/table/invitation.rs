//! One-time links. Only the hash of a link's secret is stored.

use sea_orm_migration::schema::{
    pk_uuid, string, string_uniq, text, timestamp_with_time_zone, timestamp_with_time_zone_null, uuid_null,
};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("invitation")
        .column(pk_uuid("id"))
        .column(string_uniq("secret_hash"))
        .column(string("purpose"))
        .column(uuid_null("scope_id"))
        .column(text("roles"))
        .column(string("label"))
        .column(uuid_null("invited_by"))
        .column(timestamp_with_time_zone("created_at"))
        .column(timestamp_with_time_zone("expires_at"))
        .column(timestamp_with_time_zone_null("used_at"))
        .column(timestamp_with_time_zone_null("withdrawn_at"))
        .index("invitation_by_scope", ["purpose", "scope_id"])
}
