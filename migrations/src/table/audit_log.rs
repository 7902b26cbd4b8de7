//! The audit log: actor, action, place and time, with one hash chain for each place.

use sea_orm_migration::schema::{big_integer, string, string_null, text, timestamp_with_time_zone, uuid, uuid_null};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("audit_log")
        .column(string("place"))
        // Nil for the server, so that it can be part of the key.
        .column(uuid("place_id"))
        .column(big_integer("number"))
        .column(timestamp_with_time_zone("at"))
        .column(string("by_hand"))
        .column(uuid_null("by_id"))
        .column(string("what"))
        .column(string_null("subject_kind"))
        .column(string_null("subject_id"))
        .column(text("detail"))
        .column(string("previous"))
        .column(string("hash"))
        .primary_key_with_name("audit_log_pk", ["place", "place_id", "number"])
        .index("audit_log_by", ["place_id", "by_id", "number"])
        .index("audit_log_what", ["place_id", "what", "number"])
        .index("audit_log_subject", ["place_id", "subject_id", "number"])
        .append_only()
}
