//! Attacks on the promises of the product, each played with the real server and the real worker by somebody who restores disks, owns
//! the server, chooses jobs or prepares data. Each counts what it gains: releases, sounds, accounts or facts that nobody paid for.
//! The tests demand 0 of all of them; `make bench NAME=attacks` prints them beside what they gained before the remedy.

mod accounts;
mod consent;
mod data;
mod restore;

use std::future::Future;
use std::pin::Pin;

use crate::stage::Staged;

/// What an attack came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attacked {
    /// The attack.
    pub attack: &'static str,
    /// What it gained; the unit is in `what`.
    pub gained: u64,
    /// What it gained at the commit that the review read.
    pub gained_before: u64,
    /// What is counted.
    pub what: &'static str,
}

/// Attacks that are being played.
type Playing = Pin<Box<dyn Future<Output = Staged<Vec<Attacked>>>>>;

/// Attacks that share a consortium.
pub struct Group {
    /// Name.
    pub name: &'static str,
    run: fn() -> Playing,
}

impl Group {
    /// Plays the attacks; none where a program that they need is missing, with a line on stderr.
    ///
    /// # Errors
    /// When an attack cannot be played as it is described.
    pub async fn play(&self) -> Staged<Vec<Attacked>> {
        (self.run)().await
    }
}

/// Every attack.
pub const GROUPS: [Group; 6] = [
    Group { name: "restored update", run: || Box::pin(restore::update()) },
    Group { name: "restored pool", run: || Box::pin(restore::pool()) },
    Group { name: "restored transcription", run: || Box::pin(restore::transcription()) },
    Group { name: "consent", run: || Box::pin(consent::play()) },
    Group { name: "accounts", run: || Box::pin(accounts::play()) },
    Group { name: "data", run: || Box::pin(data::play()) },
];
