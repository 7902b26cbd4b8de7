//! The rows of the server's tables: one module for each table, named as the table, with typed columns ([`column`](mod@column)).
//!
//! `undertone-migrations` defines the schema. A row that is the source of a whole view converts into it here
//! (`impl From<Model>`). `undertone-server-core` alone names this crate, so that no interface can use a table.
//!
//! To add a table: its migration, and a module here.

#![expect(
    missing_docs,
    reason = "a column whose name does not suffice has a comment; `undertone-migrations` describes the tables"
)]

pub mod account;
pub mod annotation;
pub mod annotator;
pub mod api_key;
pub mod approval_key;
pub mod approval_limit;
pub mod artifact;
pub mod asking;
pub mod attempt;
pub mod audit;
pub mod audit_log;
pub mod audit_pending;
pub mod audit_seal;
pub mod budget;
pub mod certificate;
pub mod challenge;
pub mod change;
pub mod column;
pub mod consortium;
pub mod countersignature;
pub mod credential_notice;
pub mod dataset;
pub mod decision;
pub mod departure;
pub mod draft;
pub mod enrolment;
pub mod freeze;
pub mod half_session;
pub mod head_observation;
pub mod hold;
pub mod idempotency;
pub mod identity;
pub mod invitation;
pub mod job;
pub mod job_hold;
pub mod job_log;
pub mod key_event;
pub mod lease;
pub mod ledger_entry;
pub mod ledger_position;
pub mod ledger_sighting;
pub mod log_head;
pub mod log_leaf;
pub mod masked_message;
pub mod masked_round;
pub mod measurement;
pub mod member;
pub mod membership;
pub mod notice_delivery;
pub mod notification;
pub mod notification_switch;
pub mod organization;
pub mod overlap;
pub mod participant;
pub mod party_terms;
pub mod passkey;
pub mod passkey_answer;
pub mod planned_series;
pub mod pool;
pub mod question;
pub mod receipt;
pub mod reconciliation;
pub mod recovery_code;
pub mod reservation;
pub mod reset;
pub mod restoration;
pub mod retirement;
pub mod role;
pub mod round;
pub mod second_factor;
pub mod session;
pub mod submission;
pub mod tally;
pub mod undo;
pub mod worker;
pub mod worker_key;
pub mod write_off;
