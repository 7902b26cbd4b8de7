//! The server's operations: one file per subject, one function per operation. Each operation first checks the
//! [`policy`](crate::auth::policy). The interfaces translate requests and call operations. Only this module writes tables.

mod attempt;

pub mod alarm;
pub mod api_key;
pub mod approval;
pub mod approval_key;
pub mod audit;
pub mod audit_log;
pub mod budget;
pub mod bundle;
pub mod certificate;
pub mod challenge;
pub mod change;
pub mod consortium;
pub mod dataset;
pub mod delivery;
pub mod dossier;
pub mod event;
pub mod factor;
pub mod finish;
pub mod freeze;
pub mod head_exchange;
pub mod idempotency;
pub mod invitation;
pub mod job;
pub mod job_log;
pub mod lease;
pub mod ledger;
pub mod log;
pub mod measurement;
pub mod member;
pub mod model;
pub mod notification;
pub mod offer;
pub mod oidc;
pub mod operator;
pub mod organization;
pub mod passkey;
pub mod password;
pub mod pins;
pub mod plan;
pub mod presence;
pub mod question;
mod react;
pub mod receipt;
pub mod report;
pub mod reset;
pub mod restoration;
pub mod retirement;
pub mod role;
pub mod round;
pub mod scheduler;
pub mod session;
pub mod sessions;
pub mod setup;
pub mod site_key;
mod terms;
pub mod version;
pub mod witness;
pub mod worker;
#[cfg(any(test, feature = "testing"))]
#[expect(
    missing_docs,
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    reason = "a fixture fails by panicking, and its fields and steps are named by what they are"
)]
pub mod world;
