//! The times of a running job's releases: ticks of the public clock of its part (`release_clock`), whose period is
//! fixed here.

use std::time::{Duration, Instant};

use undertone_api::dataset::Visibility;
use undertone_api::signed::ReleaseTick;
use undertone_privacy::PrivacyUnit;

use super::SiteExchange;
use crate::run::RunError;
use crate::site::folder::write_durably;
use crate::site::policy::{LONGEST_PERIOD, ReleasePeriod, is_exact, judge_period};

/// The size of a test file for the disk's speed, bytes: a vector of a million numbers.
const TEST_BYTES: usize = 4 << 20;
/// The factor between the measured writing time and its share of a period.
const MARGIN: u32 = 2;
/// The name of the test file.
const FILE: &str = "release_clock.test";

impl SiteExchange {
    /// Returns whether a series releases private data, so that the release time must not depend on them.
    pub(super) fn is_paced(&self, series: &str) -> bool {
        let examined = self.session.examined();
        // An exact release reveals more than its time.
        let is_exact_release = || examined.release(series).is_some_and(|event| is_exact(&event));
        examined.local.visibility != Visibility::Public && !is_exact_release()
    }

    /// Waits until a release of a round may leave. Its bytes are on disk; the payment follows the wait.
    pub(super) fn wait_for_tick(&self, series: &str, round: u32) -> Result<(), RunError> {
        if !self.is_paced(series) {
            return Ok(());
        }
        let tick = self.handle.block_on(self.release_clock.wait(&self.lease.stop));
        let tick = tick.ok_or_else(|| RunError::Stopped(self.lease.reason().into()))?;
        self.session.set_tick(ReleaseTick {
            period_millis: self.release_clock.next_period().as_millis().try_into().unwrap_or(u64::MAX),
            number: tick.number,
        });
        if tick.is_late() {
            tracing::warn!(
                job.id = %self.session.examined().manifest.job,
                series,
                round,
                tick.number,
                "a release missed the first tick of its clock: the job's other participants can see that; raise jobs.release_period_seconds"
            );
        }
        Ok(())
    }

    /// Returns the public length in frames to which units of private data are cut.
    pub(super) fn public_length(&self, unit: PrivacyUnit) -> Option<usize> {
        let local = &self.session.examined().local;
        if local.visibility == Visibility::Public {
            return None;
        }
        // An unreadable policy releases nothing later; until then its defaults are used.
        let longest = self.site.policy().map(|policy| policy.rules(&local.name).longest_units).unwrap_or_default();
        Some(longest.of_unit(unit).frames())
    }

    /// Fixes the period of the release clock: the policy's, else that of an earlier process, else the time from
    /// `measure`.
    ///
    /// # Errors
    /// [`RunError::Refused`] when the job's rounds close before the first tick, and any error of `measure`.
    pub(super) fn fix_release_period(
        &mut self,
        measure: &mut dyn FnMut() -> Result<Duration, RunError>,
    ) -> Result<(), RunError> {
        let examined = self.session.examined();
        if examined.local.visibility == Visibility::Public {
            return Ok(());
        }
        let spec = &examined.manifest.spec;
        let rules = self.site.policy().map(|policy| policy.rules(&examined.local.name));
        let policy_period = rules.ok().and_then(|rules| rules.release_periods.of_kind(spec.kind()));
        let (period, source) = match (policy_period, self.release_clock.measured_before()) {
            (Some(period), _) => (period, "policy"),
            (None, Some(period)) => (period, "an earlier process"),
            (None, None) => (self.cover_duration(measure()?)?, "measurement"),
        };
        judge_period(spec, period).map_err(RunError::refused)?;
        self.release_clock.set_period(period).map_err(RunError::from_failure)?;
        tracing::info!(
            job.id = %examined.manifest.job,
            period_ms = period.as_millis(),
            source,
            "the part's releases leave on a public clock"
        );
        Ok(())
    }

    /// Returns a period that covers a computation of this duration and storing its result.
    fn cover_duration(&self, computation: Duration) -> Result<ReleasePeriod, RunError> {
        let path = self.session.folder().join(FILE);
        let start = Instant::now();
        write_durably(&path, &vec![1; TEST_BYTES]).map_err(RunError::from_failure)?;
        let write_time = start.elapsed();
        // A remaining test file is harmless.
        drop(std::fs::remove_file(&path));
        let time = computation.saturating_add(write_time.saturating_mul(MARGIN));
        ReleasePeriod::covering(time).ok_or_else(|| {
            RunError::refused(format!(
                "a round of the job may take {} s at this site, and releases leave after at most {} s: propose it with a smaller \
                 sampling rate, or ask the site for a shorter `longest_unit_seconds`",
                time.as_secs(),
                LONGEST_PERIOD.as_secs()
            ))
        })
    }
}
