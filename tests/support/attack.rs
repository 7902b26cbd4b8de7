//! Attacks on the product's promises, each run against the real server and the real worker by an attacker who restores
//! disks, owns the server, chooses jobs or prepares data. Each counts its gain: unpaid releases, sounds, accounts or
//! facts. The tests require 0 for all of them; `make bench NAME=attacks` prints them with their gain before the remedy.

mod accounts;
mod consent;
mod data;
mod restore;

use std::future::Future;
use std::pin::Pin;

use crate::stage::TestResult;

/// The result of an attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttackOutcome {
    /// The attack.
    pub attack: &'static str,
    /// The gain; its unit is in `what`.
    pub gained: u64,
    /// The gain at the reviewed commit.
    pub gained_before: u64,
    /// The unit of the gain.
    pub what: &'static str,
}

/// A running group of attacks.
type Playing = Pin<Box<dyn Future<Output = TestResult<Vec<AttackOutcome>>>>>;

/// Attacks that share a consortium.
pub struct AttackGroup {
    /// The group's name.
    pub name: &'static str,
    run: fn() -> Playing,
}

impl AttackGroup {
    /// Runs the attacks. Returns none where a required program is missing, with a line on stderr.
    ///
    /// # Errors
    /// When an attack cannot be run as described.
    pub async fn play(&self) -> TestResult<Vec<AttackOutcome>> {
        (self.run)().await
    }
}

/// Every attack.
pub const GROUPS: [AttackGroup; 6] = [
    AttackGroup { name: "restored update", run: || Box::pin(restore::update()) },
    AttackGroup { name: "restored pool", run: || Box::pin(restore::pool()) },
    AttackGroup { name: "restored transcription", run: || Box::pin(restore::transcription()) },
    AttackGroup { name: "consent", run: || Box::pin(consent::play()) },
    AttackGroup { name: "accounts", run: || Box::pin(accounts::play()) },
    AttackGroup { name: "data", run: || Box::pin(data::play()) },
];
