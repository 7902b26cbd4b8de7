//! What the site trusts: its own disk, its own policy file, its own key. Nothing leaves before this room has said so.
//!
//! [`folder`] is where everything lies, [`policy`] the site's own rules, [`keys`] its signature, [`store`] its database.
//! [`admission`] compares what a server asks for with what the site knows; [`ledger`] pays, [`books`] reads it back; [`lineage`] says which datasets share accounts;
//! [`standing`] counts what the policy lets run by itself; [`consent`] verifies what stewards signed; [`outbox`] keeps what was paid until it has arrived; [`witness`] holds the server to what it has signed; [`rotation`] makes the next key; [`restore`] keeps and puts back the whole; [`audits`] states what was measured, and stops an account; [`clearance`] is the proof without which nothing can be sent.

pub mod admission;
pub mod audits;
pub mod books;
pub mod clearance;
pub mod clock;
pub mod config;
pub mod consent;
pub mod contained;
pub mod dataset_meta;
pub mod datasets;
pub mod fault;
pub mod folder;
pub mod gate;
pub mod holds;
pub mod jobs;
pub mod keys;
pub mod ledger;
pub mod lineage;
pub mod normalize;
pub mod outbox;
pub mod pins;
pub mod policy;
pub mod progress;
pub mod restore;
pub mod rotation;
pub mod server_trust;
pub mod standing;
pub mod store;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod witness;
