//! Passkeys with which members sign in: public keys.

use sea_orm_migration::schema::{
    big_integer, pk_uuid, string, text, timestamp_with_time_zone, timestamp_with_time_zone_null, uuid,
};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("passkey")
        .column(pk_uuid("id"))
        .column(uuid("member_id"))
        .column(string("label"))
        .column(string("algorithm"))
        .column(text("public_key"))
        .column(text("credential"))
        .column(string("credential_hash"))
        .column(big_integer("counter"))
        .column(timestamp_with_time_zone("created_at"))
        .column(timestamp_with_time_zone_null("last_used_at"))
        .foreign_key("passkey_member", ["member_id"], "member", ["id"])
        .index("passkey_by_member", ["member_id"])
        // The id of a credential may be too long for an index.
        .unique_index("passkey_once", ["credential_hash"])
}
