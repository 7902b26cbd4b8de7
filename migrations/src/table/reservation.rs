//! Reservations as sums of ledger entries: one for each limited unit of a dataset's lineage. `own` marks the
//! reservation for the unit that the job protects.

use sea_orm_migration::schema::{big_integer, boolean, pk_uuid, text, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("reservation")
        .column(pk_uuid("id"))
        .column(uuid("account_id"))
        .column(uuid("job_id"))
        .column(uuid("dataset_id"))
        .column(text("event"))
        .column(text("per_release"))
        .column(boolean("in_the_clear"))
        .column(big_integer("releases"))
        .column(big_integer("committed"))
        .column(boolean("settled"))
        .column(boolean("own").default(true))
        .foreign_key("reservation_account", ["account_id"], "account", ["id"])
        .foreign_key("reservation_job", ["job_id"], "job", ["id"])
        .unique_index("reservation_of", ["job_id", "dataset_id", "account_id"])
}
