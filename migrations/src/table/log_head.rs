//! The server's signed heads of the transparency log.

use sea_orm_migration::schema::{big_integer, string, text, timestamp_with_time_zone};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("log_head")
        .column(big_integer("size").primary_key())
        .column(string("root"))
        .column(string("server"))
        .column(text("payload"))
        .column(string("signature"))
        .column(timestamp_with_time_zone("at"))
        .append_only()
}
