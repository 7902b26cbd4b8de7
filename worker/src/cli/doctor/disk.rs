//! Checks of the disk: free space and durable writes.

use std::time::{Duration, Instant};

use super::CheckResults;
use crate::config::Config;
use crate::site::folder::{Folder, write_durably};

/// The least free space, MiB, to write a ledger to its end.
pub(super) const LEAST_MIB: u64 = 256;
/// The least free space, MiB, for a job's checkpoints.
pub(super) const FEW_MIB: u64 = 4096;
/// The longest acceptable sync of a small file: every release waits for one.
const SLOW: Duration = Duration::from_secs(1);

pub(super) fn check_free_space(folder: &Folder, config: Option<&Config>, results: &mut CheckResults) {
    let free = match rustix::fs::statvfs(folder.root()) {
        Ok(disk) => disk.f_bavail.saturating_mul(disk.f_frsize) >> 20,
        Err(error) => {
            return results.fail(
                "disk",
                format!("cannot determine the free space of {}: {error}", folder.root().display()),
                "mount the disk, or name the site's folder with --site",
            );
        }
    };
    check_space(free, config.map_or(0, |config| u64::from(config.queries.spill_mib)), results);
}

/// Judges the free space, MiB, given that counting may take `spill`.
pub(super) fn check_space(free: u64, spill: u64, results: &mut CheckResults) {
    let message = format!("{free} MiB free");
    if free < LEAST_MIB {
        results.fail("disk", message, format!("free space: below {LEAST_MIB} MiB, writes to the ledger may fail"));
    } else if free < FEW_MIB {
        results.warn("disk", message, format!("free space: checkpoints and job files need {FEW_MIB} MiB"));
    } else if free < spill {
        let remedy = format!("counting query logs can use {spill} MiB (queries.spill_mib): lower it, or free space");
        results.warn("disk", message, remedy);
    } else {
        results.ok("disk", message);
    }
}

pub(super) fn check_sync(folder: &Folder, results: &mut CheckResults) {
    let probe = folder.root().join(".doctor");
    let start = Instant::now();
    let write = write_durably(&probe, b"probe");
    let duration = start.elapsed();
    let removal = std::fs::remove_file(&probe);
    match write {
        Err(error) => results.fail(
            "sync",
            super::super::format_error(&error),
            "no release can be paid while writes fail: check the disk's mount options, free space and health",
        ),
        Ok(()) if duration > SLOW => results.warn(
            "sync",
            format!("a durable write of a small file takes {} ms", duration.as_millis()),
            "move the site to a local disk: every release waits for such a write",
        ),
        Ok(()) if removal.is_err() => {
            results.warn("sync", "the probe file cannot be removed", format!("remove {}", probe.display()));
        }
        Ok(()) => results.ok("sync", format!("a durable write of a small file takes {} ms", duration.as_millis())),
    }
}
