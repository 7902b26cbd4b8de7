//! A small file system in memory, for tests of full disks. The tests of the server's own crate include this file too.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system in memory with a limited size; unmounted when dropped.
#[derive(Debug)]
pub struct SmallDisk {
    mount: tempfile::TempDir,
}

impl SmallDisk {
    /// Mounts a file system of this many mebibytes; `None` where this process may not, after a line on the standard error.
    ///
    /// # Errors
    /// When there is no temporary folder.
    ///
    /// # Panics
    /// When root may not mount it and `CI` is `true`: there, no test is skipped.
    pub fn mount(mebibytes: u32) -> io::Result<Option<Self>> {
        let mount = tempfile::tempdir()?;
        let size = format!("size={mebibytes}m");
        let output = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(mount.path()).output();
        let reason = match output {
            Ok(output) if output.status.success() => return Ok(Some(Self { mount })),
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        let is_root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
        let is_ci = std::env::var("CI").is_ok_and(|value| value == "true");
        assert!(!(is_root && is_ci), "no small file system can be mounted for this test: {reason}");
        // Written directly: the runner hides the output of macros in tests that pass.
        let _ = writeln!(io::stderr(), "skipped: no small file system can be mounted for this test: {reason}");
        Ok(None)
    }

    /// Returns the root of the file system.
    pub fn path(&self) -> &Path {
        self.mount.path()
    }

    fn ballast(&self) -> PathBuf {
        self.mount.path().join("ballast")
    }

    /// Fills the file system completely.
    ///
    /// # Errors
    /// When not even a file can be created.
    pub fn fill(&self) -> io::Result<()> {
        let mut file = File::create(self.ballast())?;
        while file.write_all(&[0; 4096]).is_ok() {}
        Ok(())
    }

    /// Makes room again.
    ///
    /// # Errors
    /// When the file system was not filled.
    pub fn make_room(&self) -> io::Result<()> {
        std::fs::remove_file(self.ballast())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A process that a failed test left may still use it. What cannot be unmounted is only found in a temporary folder.
        let _ = Command::new("umount").arg("--lazy").arg(self.mount.path()).status();
    }
}
