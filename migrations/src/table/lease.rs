//! Leases: one row for each participant that a worker has ever leased. A new token ends the previous lease.

use sea_orm_migration::schema::{big_integer, string, timestamp_with_time_zone, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("lease")
        .column(uuid("job_id"))
        .column(uuid("dataset_id"))
        .column(uuid("worker_id"))
        .column(string("token"))
        .column(big_integer("number"))
        .column(timestamp_with_time_zone("granted_at"))
        .column(timestamp_with_time_zone("expires_at"))
        .primary_key(["job_id", "dataset_id"])
        .foreign_key("lease_job", ["job_id"], "job", ["id"])
        .unique_index("lease_token", ["token"])
}
