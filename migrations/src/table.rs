//! One step for each table, in a file named after the table, with its indexes and triggers.
//!
//! Existing databases have run these steps, so neither a file nor the list changes any more: the test
//! `fresh_and_adopted_schemas_are_equal` would fail. [`crate`] says how to add a step.

mod account;
mod account_freeze;
mod annotation;
mod annotator;
mod api_key;
mod approval_key;
mod approval_limit;
mod artifact;
mod asking;
mod attempt;
mod audit;
mod audit_log;
mod audit_pending;
mod audit_seal;
mod budget;
mod certificate;
mod challenge;
pub(crate) mod change;
mod consortium;
mod countersignature;
mod credential_notice;
mod dataset;
mod decision;
pub(crate) mod departure;
mod draft;
mod enrolment;
mod half_session;
mod head_observation;
mod hold;
mod idempotency;
mod identity;
mod invitation;
mod job;
mod job_hold;
mod job_log;
mod key_event;
mod lease;
mod ledger_entry;
mod ledger_position;
mod ledger_sighting;
mod log_head;
mod log_leaf;
pub(crate) mod masked_message;
pub(crate) mod masked_round;
mod measurement;
mod member;
mod membership;
mod notice_delivery;
mod notification;
mod notification_switch;
mod organization;
mod overlap;
mod participant;
pub(crate) mod party_terms;
mod passkey;
mod passkey_answer;
mod pool;
mod question;
mod receipt;
mod reconciliation;
mod recovery_code;
mod reservation;
mod reset;
mod restoration;
mod retirement;
mod role;
mod round;
mod second_factor;
mod session;
mod submission;
mod tally;
mod undo;
mod worker;
mod worker_key;
mod write_off;

use crate::table_step::TableStep;

/// Returns the steps of all tables, each after the tables that it refers to.
pub(crate) fn steps() -> Vec<TableStep> {
    vec![
        member::define(),
        organization::define(),
        consortium::define(),
        membership::define(),
        role::define(),
        session::define(),
        second_factor::define(),
        recovery_code::define(),
        half_session::define(),
        passkey::define(),
        passkey_answer::define(),
        reset::define(),
        attempt::define(),
        api_key::define(),
        identity::define(),
        approval_key::define(),
        idempotency::define(),
        invitation::define(),
        notification::define(),
        notification_switch::define(),
        notice_delivery::define(),
        credential_notice::define(),
        worker::define(),
        enrolment::define(),
        worker_key::define(),
        key_event::define(),
        challenge::define(),
        head_observation::define(),
        ledger_position::define(),
        ledger_sighting::define(),
        retirement::define(),
        dataset::define(),
        overlap::define(),
        account::define(),
        budget::define(),
        approval_limit::define(),
        draft::define(),
        job::define(),
        participant::define(),
        decision::define(),
        job_hold::define(),
        job_log::define(),
        ledger_entry::define(),
        reservation::define(),
        lease::define(),
        round::define(),
        submission::define(),
        receipt::define(),
        countersignature::define(),
        measurement::define(),
        artifact::define(),
        certificate::define(),
        audit::define(),
        account_freeze::define(),
        pool::define(),
        asking::define(),
        question::define(),
        tally::define(),
        annotator::define(),
        annotation::define(),
        undo::define(),
        hold::define(),
        log_leaf::define(),
        log_head::define(),
        audit_log::define(),
        audit_seal::define(),
        audit_pending::define(),
        restoration::define(),
        reconciliation::define(),
        write_off::define(),
    ]
}
