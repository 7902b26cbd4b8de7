//! The site's trusted base: its own disk, its own policy file, its own key. Every release passes this crate's checks
//! before it leaves.
//!
//! [`folder`] holds the paths, [`policy`] the site's own rules, [`keys`] its signing key, [`store`] its database,
//! [`journal`] files that only grow. [`admission`] checks the server's manifests against the site's facts. [`ledger`]
//! pays, [`books`] reads the ledger back. [`lineage`] determines which datasets share accounts. [`standing`] accounts
//! for automatic approvals, [`consent`] verifies stewards' signatures, and [`outbox`] keeps paid releases until they
//! arrive. [`witness`] checks that the server does not contradict its signatures. [`rotation`] replaces the key,
//! [`restore`] makes and restores backups. [`audits`] states measurements and freezes accounts, and [`clearance`] is the
//! proof that every release requires. [`masked_rounds`] keeps the decisions of secure aggregation, whose groups
//! [`group`] accepts by the keys in [`peer_keys`].

pub mod admission;
pub mod audits;
pub mod books;
pub mod clearance;
pub mod clock;
pub mod config;
pub mod consent;
pub mod dataset_meta;
pub mod datasets;
pub mod departures;
pub mod fault;
pub mod folder;
pub mod gate;
pub mod group;
pub mod holds;
pub mod jobs;
pub mod journal;
pub mod keys;
pub mod ledger;
pub mod lineage;
pub mod masked_rounds;
pub mod normalize;
pub mod outbox;
pub mod panics;
mod passphrase;
pub mod peer_keys;
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
