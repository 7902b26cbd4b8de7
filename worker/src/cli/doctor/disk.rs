//! Checks of the disk: free space and durable writes.

use std::time::{Duration, Instant};

use super::Findings;
use crate::config::Config;
use crate::site::folder::{Folder, write_durably};

/// The least free space, MiB, to write a ledger to its end.
pub(super) const LEAST_MIB: u64 = 256;
/// The least free space, MiB, for a job's checkpoints.
pub(super) const FEW_MIB: u64 = 4096;
/// The longest acceptable sync of a small file: every release waits for one.
const SLOW: Duration = Duration::from_secs(1);

pub(super) fn room(folder: &Folder, config: Option<&Config>, found: &mut Findings) {
    let free = match rustix::fs::statvfs(folder.root()) {
        Ok(disk) => disk.f_bavail.saturating_mul(disk.f_frsize) >> 20,
        Err(error) => {
            return found.fail(
                "disk",
                format!("the room of {} cannot be told: {error}", folder.root().display()),
                "mount the disk, or name the site's folder with --site",
            );
        }
    };
    judge(free, config.map_or(0, |config| u64::from(config.queries.spill_mib)), found);
}

/// Judges the free space, MiB, given that counting may take `spill`.
pub(super) fn judge(free: u64, spill: u64, found: &mut Findings) {
    let said = format!("{free} MiB free");
    if free < LEAST_MIB {
        found.fail("disk", said, format!("make room: below {LEAST_MIB} MiB the ledger may not be written to its end"));
    } else if free < FEW_MIB {
        found.warn("disk", said, format!("make room: checkpoints and the files of jobs want {FEW_MIB} MiB"));
    } else if free < spill {
        let remedy = format!("counting query logs may take {spill} MiB (queries.spill_mib): lower it, or make room");
        found.warn("disk", said, remedy);
    } else {
        found.ok("disk", said);
    }
}

pub(super) fn sync(folder: &Folder, found: &mut Findings) {
    let probe = folder.root().join(".doctor");
    let begun = Instant::now();
    let written = write_durably(&probe, b"probe");
    let took = begun.elapsed();
    let removed = std::fs::remove_file(&probe);
    match written {
        Err(error) => found.fail(
            "sync",
            super::super::chain(&error),
            "nothing can be paid while the disk refuses: look at its mount options, its room and its health",
        ),
        Ok(()) if took > SLOW => found.warn(
            "sync",
            format!("a small file takes {} ms to be durable", took.as_millis()),
            "put the site on a local disk: every release waits so long",
        ),
        Ok(()) if removed.is_err() => {
            found.warn("sync", "the probe cannot be removed", format!("remove {}", probe.display()));
        }
        Ok(()) => found.ok("sync", format!("a small file is durable after {} ms", took.as_millis())),
    }
}
