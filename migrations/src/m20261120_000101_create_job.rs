//! Jobs, their datasets, and the decisions of the datasets' owners.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{
    big_integer, boolean, integer, pk_uuid, string, string_null, text, text_null, timestamp_with_time_zone,
    timestamp_with_time_zone_null, uuid,
};

use crate::append_only::append_only;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("job")
                    .col(pk_uuid("id"))
                    .col(uuid("consortium_id"))
                    .col(string("title"))
                    .col(string("kind"))
                    .col(text("spec"))
                    .col(text("series"))
                    .col(string("state"))
                    .col(text("manifest"))
                    .col(string("signature"))
                    .col(string("digest"))
                    .col(uuid("proposer_id"))
                    .col(string("proposed_by"))
                    .col(integer("rounds_done"))
                    .col(integer("rounds"))
                    .col(text_null("reason"))
                    .col(text("refusals"))
                    .col(text_null("report"))
                    .col(timestamp_with_time_zone("created_at"))
                    .col(timestamp_with_time_zone_null("started_at"))
                    .col(timestamp_with_time_zone_null("finished_at"))
                    .to_owned(),
            )
            .await?;
        manager
            .create_index(Index::create().name("job_consortium").table("job").col("consortium_id").col("id").to_owned())
            .await?;
        manager.create_index(Index::create().name("job_state").table("job").col("state").to_owned()).await?;
        manager
            .create_table(
                Table::create()
                    .table("participant")
                    .col(uuid("job_id"))
                    .col(uuid("dataset_id"))
                    .col(integer("position"))
                    .col(uuid("lineage_id"))
                    .col(uuid("organization_id"))
                    .col(uuid("worker_id"))
                    .col(string("dataset_name"))
                    .col(string("organization_name"))
                    .col(string("visibility"))
                    .col(string("purpose"))
                    .col(text_null("charge"))
                    .col(string("approval"))
                    .col(string_null("approval_by"))
                    .col(text_null("approval_reason"))
                    .col(boolean("steward_approved"))
                    .col(boolean("site_answered"))
                    .col(string("state"))
                    .col(big_integer("releases"))
                    .primary_key(Index::create().col("job_id").col("dataset_id"))
                    .foreign_key(
                        ForeignKey::create().name("participant_job").from("participant", "job_id").to("job", "id"),
                    )
                    .to_owned(),
            )
            .await?;
        manager
            .create_index(Index::create().name("participant_worker").table("participant").col("worker_id").to_owned())
            .await?;
        manager
            .create_table(
                Table::create()
                    .table("decision")
                    .col(pk_uuid("id"))
                    .col(uuid("job_id"))
                    .col(uuid("dataset_id"))
                    .col(string("source"))
                    .col(boolean("approve"))
                    .col(string("by"))
                    .col(text("reason"))
                    .col(text_null("payload"))
                    .col(string_null("signature"))
                    .col(timestamp_with_time_zone("at"))
                    .foreign_key(ForeignKey::create().name("decision_job").from("decision", "job_id").to("job", "id"))
                    .to_owned(),
            )
            .await?;
        manager
            .create_index(
                Index::create().name("decision_of").table("decision").col("job_id").col("dataset_id").to_owned(),
            )
            .await?;
        append_only(manager, "decision").await
    }
}
