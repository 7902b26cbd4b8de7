//! Jobs. `answer_by` is the deadline for answers to a proposal, `not_after` the end of the manifest, `paused_at` the
//! start of the present pause. `asks` marks a job that asks people questions.

use sea_orm_migration::schema::{
    big_integer, boolean, integer, pk_uuid, string, text, text_null, timestamp_with_time_zone,
    timestamp_with_time_zone_null, uuid,
};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("job")
        .column(pk_uuid("id"))
        .column(uuid("consortium_id"))
        .column(string("title"))
        .column(string("kind"))
        .column(text("spec"))
        .column(text("series"))
        .column(string("state"))
        .column(text("manifest"))
        .column(string("signature"))
        .column(string("digest"))
        .column(uuid("proposer_id"))
        .column(string("proposed_by"))
        .column(integer("rounds_done"))
        .column(integer("rounds"))
        .column(text_null("reason"))
        .column(text("refusals"))
        .column(text_null("report"))
        .column(timestamp_with_time_zone("created_at"))
        .column(timestamp_with_time_zone_null("started_at"))
        .column(timestamp_with_time_zone_null("finished_at"))
        .column(boolean("asks").default(false))
        .column(timestamp_with_time_zone_null("answer_by"))
        .column(timestamp_with_time_zone_null("not_after"))
        .column(timestamp_with_time_zone_null("paused_at"))
        // The total time that the job was paused, milliseconds.
        .column(big_integer("paused_for").default(0))
        .index("job_consortium", ["consortium_id", "id"])
        .index("job_state", ["state"])
}
