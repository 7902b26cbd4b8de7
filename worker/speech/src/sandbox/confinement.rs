//! The confinement of all programs of this process: the site that they cannot access, and the permissions that the
//! site's configuration adds.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

/// Additional permissions of programs in the site's configuration (`[programs]`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Programs {
    /// Variables of the worker's environment that are passed to programs.
    pub variables: Vec<String>,
    /// Folders that programs may read besides their own.
    pub folders: Vec<PathBuf>,
    /// Folders that programs may write and read, such as the cache of an engine's models.
    pub writable: Vec<PathBuf>,
    /// True if programs may open connections.
    pub network: bool,
}

impl Programs {
    /// Returns true if no permission is configured.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The confinement of every program of this process.
#[derive(Debug, Clone, Default)]
pub(super) struct ProgramConfinement {
    pub(super) site: Option<PathBuf>,
    pub(super) programs: Programs,
}

impl ProgramConfinement {
    /// Returns the confinement that [`confine`] set, or none.
    pub(super) fn current() -> Self {
        let mut confinement = CONFINEMENT.get().cloned().unwrap_or_default();
        if cfg!(any(test, feature = "testing")) {
            // Programs of tests write their records there.
            confinement.programs.writable.push(std::env::temp_dir());
        }
        confinement
    }
}

static CONFINEMENT: OnceLock<ProgramConfinement> = OnceLock::new();

/// Sets the site that programs cannot access and the configured permissions, once per process.
pub fn confine(site: &Path, programs: Programs) {
    // Tests share one process, and each has its own site.
    if cfg!(any(test, feature = "testing")) {
        return;
    }
    let site = site.canonicalize().unwrap_or_else(|_| site.to_owned());
    // A second call comes from the same command line.
    let _ = CONFINEMENT.set(ProgramConfinement { site: Some(site), programs });
}
