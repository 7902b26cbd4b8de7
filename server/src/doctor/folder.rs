//! The machine of the server: the data folder, its disk, its keys, and the limit of open files.

use std::path::Path;
use std::time::{Duration, Instant};

use ed25519_dalek::VerifyingKey;

use super::database::Tables;
use super::report::Examination;
use crate::connections::open_files;
use crate::rest::write_probe_file;
use undertone_server_core::config::Config;
use undertone_server_core::db::sqlite_file;
use undertone_server_core::keys::{self, FactorKeys};
use undertone_server_core::open_mode;

/// Free MiB below which a backup or a job's files may fill the disk.
pub(super) const FEW_MIB: u64 = 4096;
/// Free MiB below which the tables may not accept the next entry.
pub(super) const LEAST_MIB: u64 = 512;
/// The time to store a small file above which every transaction becomes slow.
const SLOW: Duration = Duration::from_secs(1);
/// The probe's name in the data folder. Backups exclude files that end in `part`.
const PROBE_FILE: &str = "doctor-probe.part";

/// The usable keys of the data folder.
pub(super) struct ServerKeys {
    /// The public half of `signing.key`.
    pub(super) signing: Option<VerifyingKey>,
    /// `factor.key`.
    pub(super) factor: Option<FactorKeys>,
}

/// Checks that the data folder exists, is accessible to its owner only, belongs to the current user, and is writable.
pub(super) fn check_folder(config: &Config, report: &mut Examination) {
    const CHECK: &str = "data folder";
    let folder = &config.data_dir;
    if !folder.is_dir() {
        let remedy = "start the server, which makes it, or set `data_dir` to the folder of this server";
        return report.warn(CHECK, format!("{} is not there yet", folder.display()), remedy);
    }
    if let Some(mode) = open_mode(folder) {
        let detail = format!("other users of this machine can enter {} (mode {mode})", folder.display());
        report.warn(CHECK, detail, format!("chmod 700 {}", folder.display()));
    }
    #[cfg(unix)]
    if let Some(owner) = foreign_owner(folder) {
        let detail = format!("{} belongs to user {owner}, which is not the user of this command", folder.display());
        report.warn(CHECK, detail, "run this command as the user that runs the server");
    }
    let begun = Instant::now();
    match write_probe_file(&folder.join(PROBE_FILE)) {
        Ok(()) if begun.elapsed() > SLOW => report.warn(
            CHECK,
            format!("a small file takes {} ms to be durable", begun.elapsed().as_millis()),
            "put the data folder on a local disk: every transaction on SQLite waits as long",
        ),
        Ok(()) => {
            report.pass(CHECK, format!("a small file is durable after {} ms", begun.elapsed().as_millis()));
        }
        Err(error) => {
            let remedy = "look at the disk's room and mount options, and at the owner of the folder";
            report.fail(CHECK, format!("{} cannot be written: {error}", folder.display()), remedy);
        }
    }
}

/// Returns the owner of a folder that belongs to another user than this process.
#[cfg(unix)]
fn foreign_owner(folder: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt as _;

    let owner = std::fs::metadata(folder).ok()?.uid();
    let own = std::fs::metadata("/proc/self").ok()?.uid();
    (owner != own).then_some(owner)
}

/// Checks the free space on the disks of the data folder and of a SQLite file in another folder.
pub(super) fn check_room(config: &Config, report: &mut Examination) {
    let tables = sqlite_file(&config.database()).and_then(|file| file.parent().map(Path::to_owned));
    let mut folders = vec![config.data_dir.clone()];
    folders.extend(tables.filter(|folder| *folder != config.data_dir));
    for folder in folders.iter().filter(|folder| folder.is_dir()) {
        match rustix::fs::statvfs(folder) {
            Ok(disk) => {
                let free = disk.f_bavail.saturating_mul(disk.f_frsize) >> 20;
                judge_room(free, &folder.display().to_string(), report);
            }
            Err(error) => report.fail("disk", format!("{}: {error}", folder.display()), "look at the disk"),
        }
    }
}

/// Judges the free MiB of a folder's disk.
pub(super) fn judge_room(free: u64, folder: &str, report: &mut Examination) {
    let detail = format!("{free} MiB free for {folder}");
    if free < LEAST_MIB {
        report.fail(
            "disk",
            detail,
            format!("make room: below {LEAST_MIB} MiB the next jobs may stop with a full disk"),
        );
    } else if free < FEW_MIB {
        report.warn("disk", detail, format!("make room: vectors, files of jobs and backups want {FEW_MIB} MiB"));
    } else {
        report.pass("disk", detail);
    }
}

/// Checks that the limit of open files suffices for the configured connections.
pub(super) fn check_files(config: &Config, report: &mut Examination) {
    let wanted = 2 * u64::from(config.connections.most) + open_files::RESERVED_FILES as u64;
    match open_files::allowed_limit() {
        Some(allowed) if allowed < wanted => report.warn(
            "open files",
            format!("this user's processes may open {allowed} files, and `connections.most` needs {wanted}"),
            "raise the limit (`LimitNOFILE=65536` in the unit, `ulimit -Hn` in a shell), or lower `connections.most`",
        ),
        Some(allowed) => report.pass("open files", format!("{allowed} allowed, {wanted} needed")),
        None => report.pass("open files", "the system has no limit"),
    }
}

/// Checks the keys of the data folder. A server creates missing keys at its first start; after that, a missing key is
/// lost.
pub(super) fn check_keys(config: &Config, tables: Option<&Tables>, report: &mut Examination) -> ServerKeys {
    let folder = &config.data_dir;
    let has_begun = tables.is_some_and(|tables| tables.has_begun);
    let signing = judge_key("signing.key", keys::verifying_key(folder), has_begun, report);
    judge_key("token.key", keys::find_token_keys(folder), has_begun, report);
    let factor = judge_key("factor.key", keys::find_factor_keys(folder), has_begun, report);
    ServerKeys { signing, factor }
}

fn judge_key<T>(name: &str, key: std::io::Result<Option<T>>, has_begun: bool, report: &mut Examination) -> Option<T> {
    const CHECK: &str = "keys";
    match key {
        Ok(Some(key)) => {
            report.pass(CHECK, format!("{name} can be read by its owner alone"));
            Some(key)
        }
        Ok(None) if has_begun => {
            let remedy = match name {
                "token.key" => "start the server, which makes another; members sign in again",
                _ => "restore it from a backup, or copy it from another replica",
            };
            report.fail(CHECK, format!("{name} is missing, and the database is in use"), remedy);
            None
        }
        Ok(None) => {
            report.warn(CHECK, format!("{name} is not there yet"), "start the server, which makes it");
            None
        }
        Err(error) => {
            report.fail(CHECK, error.to_string(), "mend the file as the message says, or restore it from a backup");
            None
        }
    }
}
