//! Checks that the server can write: one small file in the data folder and one transaction without effect.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, timeout};

use super::PATIENCE;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::error::Error;

/// The time for which a successful write is cached. After a failure, each check tries again.
pub(crate) const PROBED: Duration = Duration::from_secs(10);
/// Bytes of the file: more than the free space in partly filled blocks of a full disk.
pub(crate) const PROBE_BYTES: usize = 64 << 10;
/// The file's name in the data folder. The file exists only during the check, and backups exclude files that end in
/// `part`.
const PROBE_FILE: &str = "health-probe.part";

/// The newest attempt to write.
#[derive(Default)]
pub(super) struct WriteProbe(Mutex<ProbeState>);

#[derive(Default)]
struct ProbeState {
    /// The time of the last successful write.
    passed: Option<Instant>,
    /// A write to a disk that did not answer in time. Another write would only wait as well.
    pending: Option<JoinHandle<io::Result<()>>>,
}

impl WriteProbe {
    /// Returns the reason why the server cannot write, if any.
    pub(super) async fn trouble(&self, ctx: &Ctx) -> Option<&'static str> {
        let mut state = self.0.lock().await;
        if state.passed.is_some_and(|passed| passed.elapsed() < PROBED) {
            return None;
        }
        state.passed = None;
        if let Some(trouble) = state.file_trouble(ctx.config.data_dir.join(PROBE_FILE)).await {
            return Some(trouble);
        }
        // A busy database can still write: load does not end readiness.
        if let Ok(Err(error)) = timeout(PATIENCE, ctx.db.probe_write()).await {
            tracing::error!(error = &error as &dyn std::error::Error, "the database rejects writes");
            return Some(error.outage().map_or("the database rejects writes", |outage| outage.detail()));
        }
        state.passed = Some(Instant::now());
        None
    }
}

impl ProbeState {
    async fn file_trouble(&mut self, path: PathBuf) -> Option<&'static str> {
        let mut task = self.pending.take().unwrap_or_else(|| spawn_blocking(move || write_file(&path)));
        match timeout(PATIENCE, &mut task).await {
            Ok(Ok(Ok(()))) => None,
            Ok(Ok(Err(error))) => {
                tracing::error!(%error, "the data folder cannot be written");
                let error = Error::internal("writing to the data folder", error);
                Some(error.outage().map_or("the data folder cannot be written", |outage| outage.detail()))
            }
            Ok(Err(_)) => Some("the data folder cannot be written"),
            Err(_) => {
                self.pending = Some(task);
                Some("the disk of the data folder does not answer")
            }
        }
    }
}

/// Writes the file to the disk and removes it.
///
/// # Errors
/// If the file cannot be created, written or removed.
pub(crate) fn write_file(path: &Path) -> io::Result<()> {
    let written = File::create(path).and_then(|mut file| {
        file.write_all(&vec![0; PROBE_BYTES])?;
        file.sync_all()
    });
    // Another replica may have removed it already.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => written.and(Err(error)),
        _ => written,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::write_file;

    #[test]
    fn probe_file_is_removed_after_the_write() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join(super::PROBE_FILE);
        write_file(&path).expect("the folder is writable");
        assert!(!path.exists());
    }

    /// `/dev/full` refuses every write like a full disk.
    #[cfg(target_os = "linux")]
    #[test]
    fn probe_on_a_full_disk_fails() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join(super::PROBE_FILE);
        std::os::unix::fs::symlink("/dev/full", &path).expect("linked");
        let error = write_file(&path).expect_err("no space is left");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(!path.exists());
    }
}
