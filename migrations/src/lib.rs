//! The database schema: the only source of the tables, for SQLite and PostgreSQL alike.
//!
//! To add a table or a column: a new file `m<date>_<number>_<verb>_<subject>.rs` with a `Migration`, and a line at the
//! end of the list below. A released migration is never changed.
//!
//! Conventions: the server generates ids, as UUIDs; times are UTC with a time zone; a table is named by one noun.

use sea_orm_migration::prelude::*;

mod append_only;
mod m20261120_000001_create_member;
mod m20261120_000002_create_organization;
mod m20261120_000003_create_consortium;
mod m20261120_000004_create_role;
mod m20261120_000005_create_session;
mod m20261120_000006_create_invitation;
mod m20261120_000007_create_worker;
mod m20261120_000008_create_dataset;
mod m20261120_000100_create_account;
mod m20261120_000101_create_job;
mod m20261120_000102_create_ledger;
mod m20261120_000103_create_lease;
mod m20261120_000104_create_round;
mod m20261120_000105_create_receipt;
mod m20261120_000106_create_result;
mod m20261120_000200_create_log;
mod m20261120_000220_create_overlap;
mod m20261120_000221_create_certificate;
mod m20261120_000230_create_audit;
mod m20261120_000231_create_freeze;
mod m20261120_000310_add_dataset_users;
mod m20261121_000400_add_dataset_content;
mod m20261121_000401_create_question;
mod m20261121_000402_add_job_asks;
mod m20261122_000101_create_second_factor;
mod m20261122_000102_create_reset;
mod m20261122_000103_create_attempt;
mod m20261122_000104_add_session_origin;
mod m20261122_000105_add_invitation_withdrawn;
mod m20261122_000201_create_api_key;
mod m20261122_000202_create_identity;
mod m20261122_000301_create_draft;
mod m20261122_000302_create_job_hold;
mod m20261122_000303_add_job_times;
mod m20261122_000304_create_approval_limit;
mod m20261122_000400_create_worker_key;
mod m20261122_000501_create_notification;
mod m20261122_000502_create_job_log;
mod m20261122_000600_create_audit_log;
mod m20261122_000701_create_idempotency;
mod m20261122_000800_create_challenge;
mod m20261122_000900_add_dataset_seconds;
mod m20261122_000910_add_approval_total;
mod m20261122_000920_index_ledger_time;
mod m20261123_000100_charge_every_unit;
mod m20261123_000500_add_consent;
mod m20261123_000510_create_approval_key;
mod m20261123_000520_create_credential_notice;
mod m20261123_000600_add_retirement;
mod m20261123_000700_create_head_observation;
mod m20261123_000810_add_attempt_end;
mod m20261123_000820_create_passkey;
mod m20261123_000830_create_notice_delivery;
mod m20261123_000840_create_restoration;
mod m20261123_000841_create_audit_seal;
mod m20261123_000842_create_key_event;
mod m20261126_000900_create_ledger_position;

/// The migrations, which bring a database up to date.
#[derive(Debug, Clone, Copy)]
pub struct Migrator;

#[async_trait::async_trait]
impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![
            Box::new(m20261120_000001_create_member::Migration),
            Box::new(m20261120_000002_create_organization::Migration),
            Box::new(m20261120_000003_create_consortium::Migration),
            Box::new(m20261120_000004_create_role::Migration),
            Box::new(m20261120_000005_create_session::Migration),
            Box::new(m20261120_000006_create_invitation::Migration),
            Box::new(m20261120_000007_create_worker::Migration),
            Box::new(m20261120_000008_create_dataset::Migration),
            Box::new(m20261120_000100_create_account::Migration),
            Box::new(m20261120_000101_create_job::Migration),
            Box::new(m20261120_000102_create_ledger::Migration),
            Box::new(m20261120_000103_create_lease::Migration),
            Box::new(m20261120_000104_create_round::Migration),
            Box::new(m20261120_000105_create_receipt::Migration),
            Box::new(m20261120_000106_create_result::Migration),
            Box::new(m20261120_000200_create_log::Migration),
            Box::new(m20261120_000220_create_overlap::Migration),
            Box::new(m20261120_000221_create_certificate::Migration),
            Box::new(m20261120_000230_create_audit::Migration),
            Box::new(m20261120_000231_create_freeze::Migration),
            Box::new(m20261120_000310_add_dataset_users::Migration),
            Box::new(m20261121_000400_add_dataset_content::Migration),
            Box::new(m20261121_000401_create_question::Migration),
            Box::new(m20261121_000402_add_job_asks::Migration),
            Box::new(m20261122_000101_create_second_factor::Migration),
            Box::new(m20261122_000102_create_reset::Migration),
            Box::new(m20261122_000103_create_attempt::Migration),
            Box::new(m20261122_000104_add_session_origin::Migration),
            Box::new(m20261122_000105_add_invitation_withdrawn::Migration),
            Box::new(m20261122_000201_create_api_key::Migration),
            Box::new(m20261122_000202_create_identity::Migration),
            Box::new(m20261122_000301_create_draft::Migration),
            Box::new(m20261122_000302_create_job_hold::Migration),
            Box::new(m20261122_000303_add_job_times::Migration),
            Box::new(m20261122_000304_create_approval_limit::Migration),
            Box::new(m20261122_000400_create_worker_key::Migration),
            Box::new(m20261122_000501_create_notification::Migration),
            Box::new(m20261122_000502_create_job_log::Migration),
            Box::new(m20261122_000600_create_audit_log::Migration),
            Box::new(m20261122_000701_create_idempotency::Migration),
            Box::new(m20261122_000800_create_challenge::Migration),
            Box::new(m20261122_000900_add_dataset_seconds::Migration),
            Box::new(m20261122_000910_add_approval_total::Migration),
            Box::new(m20261122_000920_index_ledger_time::Migration),
            Box::new(m20261123_000100_charge_every_unit::Migration),
            Box::new(m20261123_000500_add_consent::Migration),
            Box::new(m20261123_000510_create_approval_key::Migration),
            Box::new(m20261123_000520_create_credential_notice::Migration),
            Box::new(m20261123_000600_add_retirement::Migration),
            Box::new(m20261123_000700_create_head_observation::Migration),
            Box::new(m20261123_000810_add_attempt_end::Migration),
            Box::new(m20261123_000820_create_passkey::Migration),
            Box::new(m20261123_000830_create_notice_delivery::Migration),
            Box::new(m20261123_000840_create_restoration::Migration),
            Box::new(m20261123_000841_create_audit_seal::Migration),
            Box::new(m20261123_000842_create_key_event::Migration),
            Box::new(m20261126_000900_create_ledger_position::Migration),
        ]
    }
}
