//! Second factors of members (RFC 6238), stored encrypted.

use sea_orm_migration::schema::{
    big_integer, pk_uuid, string, timestamp_with_time_zone, timestamp_with_time_zone_null,
};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("second_factor")
        .column(pk_uuid("member_id"))
        .column(string("secret"))
        .column(big_integer("last_step"))
        .column(timestamp_with_time_zone("offered_at"))
        .column(timestamp_with_time_zone_null("confirmed_at"))
        .foreign_key("second_factor_member", ["member_id"], "member", ["id"])
}
