//! A plan on disk: it is drawn once, and every later call follows the stored plan.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use undertone_privacy::Event;
use undertone_worker_site::fault;

use super::{Plan, PlanError};

impl Plan {
    /// Loads the plan stored at `path`. If there is none, calls `draw` and stores its plan, readable by the owner only, before
    /// it returns the plan. `paid` is the release in the ledger: a plan of another release is not followed.
    ///
    /// # Errors
    /// [`PlanError::Kept`] for a plan that is damaged or of another release: it is not drawn again, because parts of it may have
    /// been sent. [`PlanError::Disk`] when it cannot be stored, and the errors of `draw`.
    pub fn once(path: &Path, paid: &Event, draw: impl FnOnce() -> Result<Self, PlanError>) -> Result<Self, PlanError> {
        let plan: Self = load_or_create(path, || {
            let plan = draw()?;
            plan.fits(paid)?;
            Ok::<_, PlanError>(plan)
        })?;
        plan.fits(paid)?;
        Ok(plan)
    }

    fn fits(&self, paid: &Event) -> Result<(), PlanError> {
        if !self.whole() {
            return Err(PlanError::Kept("is not whole"));
        }
        if self.event()? == *paid { Ok(()) } else { Err(PlanError::Kept("is of another release than was paid for")) }
    }
}

/// Loads the value stored at `path`. If there is none, calls `make` and stores its value, readable by the owner only, before
/// it returns the value. Texts and manners of a plan's dummies are also drawn once.
///
/// # Errors
/// [`PlanError::Kept`] for a damaged value: it is not made again. [`PlanError::Disk`] when the value cannot be stored, and
/// the errors of `make`.
pub fn load_or_create<T, E>(path: &Path, make: impl FnOnce() -> Result<T, E>) -> Result<T, E>
where
    T: Serialize + DeserializeOwned,
    E: From<PlanError>,
{
    match fs::read(path) {
        Ok(stored) => serde_json::from_slice(&stored).map_err(|_| PlanError::Kept("is damaged").into()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let value = make()?;
            write(path, &value).map_err(PlanError::Disk)?;
            Ok(value)
        }
        Err(error) => Err(PlanError::Disk(error).into()),
    }
}

/// Writes `value` to `path` atomically.
fn write(path: &Path, value: &impl Serialize) -> std::io::Result<()> {
    let text = serde_json::to_vec(value)?;
    let growing = path.with_extension("growing");
    // A temporary file that a crash left was never followed.
    if let Err(error) = fs::remove_file(&growing)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&growing)?;
    file.write_all(&text)?;
    fault::disk(fault::BEFORE_SYNC)?;
    file.sync_all()?;
    fs::rename(&growing, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
