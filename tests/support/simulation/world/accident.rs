//! Spontaneous accidents: processes crash, clocks jump, disks fail, fill up and are restored from older copies.

use time::Duration;
use undertone_worker::fault::{FailureKind, FailurePlan};

use super::super::StopReason;
use super::super::server::plan;
use super::super::site::RestoreMode;
use super::SimulationWorld;

impl SimulationWorld<'_> {
    /// Plans an accident with a probability of 10 %.
    pub(super) fn accident(&mut self) {
        let dice = &mut self.network.dice;
        if !dice.percent(10) {
            return;
        }
        let (death, after) = (dice.percent(65), dice.range(1, 7));
        if dice.percent(50) {
            let which = dice.below(self.sites.len() as u64) as usize;
            let accident = if death { FailureKind::Crash } else { FailureKind::Disk };
            self.sites[which].planned = Some(FailurePlan { accident, after });
        } else {
            let which = self.network.somewhere();
            self.network.servers[which].planned = Some(plan(death, after));
        }
    }

    /// Moves a clock, forward or back.
    pub(super) fn clock(&mut self, which: usize) -> bool {
        let dice = &mut self.network.dice;
        let seconds = if dice.percent(80) { dice.range(20, 400) } else { dice.range(400, 40_000) } as i64;
        let time = Duration::seconds(if dice.percent(40) { -seconds } else { seconds });
        if dice.percent(60) {
            let server = self.network.somewhere();
            self.network.servers[server].pass(time);
            self.network.trace.note(format!("a server's clock jumps by {time}"));
        } else {
            self.sites[which].pass(time);
            self.network.trace.note(format!("{}'s clock jumps by {time}", self.sites[which].name));
        }
        true
    }

    /// Fills a disk, or frees space again.
    pub(super) async fn fill(&mut self, which: usize) -> Result<bool, StopReason> {
        let full = self.network.dice.percent(50);
        if self.network.dice.percent(40) {
            let server = self.network.somewhere();
            self.network.trace.note(format!("a server's disk is full: {full}"));
            self.network.servers[server].fill(full).await?;
        } else {
            self.network.trace.note(format!("{}'s disk is full: {full}", self.sites[which].name));
            self.sites[which].fill(full)?;
        }
        Ok(true)
    }

    /// Makes a backup of a site.
    pub(super) fn copy(&mut self, which: usize) -> Result<bool, StopReason> {
        let is_done = self.sites[which].copy()?;
        if is_done {
            self.network.trace.note(format!("a backup is made of {}", self.sites[which].name));
        }
        Ok(is_done)
    }

    /// Restores a site's disk from an older copy.
    pub(super) fn restore(&mut self, which: usize) -> Result<bool, StopReason> {
        let how = match self.network.dice.below(3) {
            0 => RestoreMode::InPlace,
            1 => RestoreMode::NewMachine,
            _ => RestoreMode::ByHand,
        };
        let is_done = self.sites[which].put_back(how)?;
        if is_done {
            self.restores += 1;
            let worker = self.sites[which].worker;
            self.network.forget(worker);
            self.network.trace.note(format!("{} is restored from its backup, {how:?}", self.sites[which].name));
        }
        Ok(is_done)
    }
}
