//! Answered challenges of passkeys, until they expire.

use sea_orm_migration::schema::{string, timestamp_with_time_zone};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("passkey_answer")
        .column(string("nonce").primary_key())
        .column(timestamp_with_time_zone("expires_at"))
}
