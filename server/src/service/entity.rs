//! The rows of the tables, private to `service`: no face can name a table. The schema itself comes from `migrations`.

#![expect(unreachable_pub, reason = "the derives make their items public; this module keeps them private")]

pub(super) mod account;
pub(super) mod annotation;
pub(super) mod annotator;
pub(super) mod artifact;
pub(super) mod asking;
pub(super) mod audit;
pub(super) mod budget;
pub(super) mod certificate;
pub(super) mod consortium;
pub(super) mod countersignature;
pub(super) mod dataset;
pub(super) mod decision;
pub(super) mod enrolment;
pub(super) mod freeze;
pub(super) mod hold;
pub(super) mod invitation;
pub(super) mod job;
pub(super) mod lease;
pub(super) mod ledger_entry;
pub(super) mod log_head;
pub(super) mod log_leaf;
pub(super) mod measurement;
pub(super) mod member;
pub(super) mod membership;
pub(super) mod organization;
pub(super) mod overlap;
pub(super) mod participant;
pub(super) mod pool;
pub(super) mod question;
pub(super) mod receipt;
pub(super) mod reservation;
pub(super) mod role;
pub(super) mod round;
pub(super) mod session;
pub(super) mod submission;
pub(super) mod tally;
pub(super) mod undo;
pub(super) mod worker;
