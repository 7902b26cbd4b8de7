//! Members: people with an account.

use sea_orm_migration::schema::{
    boolean, pk_uuid, string, string_uniq, timestamp_with_time_zone, timestamp_with_time_zone_null,
};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("member")
        .column(pk_uuid("id"))
        .column(string("name"))
        .column(string_uniq("email"))
        .column(string("password_hash"))
        .column(boolean("operator"))
        .column(timestamp_with_time_zone("created_at"))
        .column(timestamp_with_time_zone_null("retired_at"))
        .column(timestamp_with_time_zone_null("address_confirmed_at"))
}
