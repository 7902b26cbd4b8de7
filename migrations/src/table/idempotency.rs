//! Requests with an idempotency key, so that none is executed twice: their digests and encrypted answers, for a day.

use sea_orm_migration::schema::{binary_null, string, timestamp_with_time_zone, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("idempotency")
        .column(uuid("member_id"))
        // SHA-256 of the key and of the request, hex.
        .column(string("key"))
        .column(string("request"))
        .column(binary_null("answer"))
        .column(timestamp_with_time_zone("at"))
        .primary_key_with_name("idempotency_pk", ["member_id", "key"])
        .index("idempotency_by_age", ["at"])
}
