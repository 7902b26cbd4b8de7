//! Failed or undecided sign-in attempts in windows of time, by a hash of their account or origin. All replicas share
//! the counts.

use sea_orm_migration::schema::{integer, string, timestamp_with_time_zone};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("attempt")
        .column(string("key_hash").primary_key())
        .column(timestamp_with_time_zone("began_at"))
        .column(timestamp_with_time_zone("ends_at"))
        .column(integer("count"))
        .index("attempt_by_end", ["ends_at"])
}
