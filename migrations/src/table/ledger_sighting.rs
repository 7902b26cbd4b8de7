//! The newest sighting of each site's ledger by each peer, as the peer signed it.

use sea_orm_migration::schema::{text, timestamp_with_time_zone, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("ledger_sighting")
        .column(uuid("observer_id"))
        .column(uuid("subject_id"))
        .column(text("payload"))
        .column(text("signature"))
        .column(timestamp_with_time_zone("observed_at"))
        .primary_key(["observer_id", "subject_id"])
        .foreign_key("ledger_sighting_observer_id", ["observer_id"], "worker", ["id"])
        .foreign_key("ledger_sighting_subject_id", ["subject_id"], "worker", ["id"])
}
