//! A plan on disk, so that it is drawn once: whoever finds one follows it.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use undertone_privacy::Event;

use super::{Plan, PlanError};

impl Plan {
    /// The plan that is kept at `path`, or else the one that `draw` makes, kept there for its owner alone before anybody sees
    /// it. `paid` is the release that the ledger knows: a plan of another one is not followed.
    ///
    /// # Errors
    /// [`PlanError::Kept`] for a plan that is damaged or of another release: it is not drawn again, for parts of it may have
    /// been sent. [`PlanError::Disk`] when it cannot be kept, and what `draw` has.
    pub fn once(path: &Path, paid: &Event, draw: impl FnOnce() -> Result<Self, PlanError>) -> Result<Self, PlanError> {
        let plan: Self = kept(path, || {
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

/// What is kept at `path`, or else what `make` makes, kept there for its owner alone before anybody sees it: texts and manners of
/// a plan's dummies are drawn once too.
///
/// # Errors
/// [`PlanError::Kept`] for what is damaged: it is not made again. [`PlanError::Disk`] when it cannot be kept, and what `make`
/// has.
pub fn kept<T, E>(path: &Path, make: impl FnOnce() -> Result<T, E>) -> Result<T, E>
where
    T: Serialize + DeserializeOwned,
    E: From<PlanError>,
{
    match fs::read(path) {
        Ok(kept) => serde_json::from_slice(&kept).map_err(|_| PlanError::Kept("is damaged").into()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let made = make()?;
            write(path, &made).map_err(PlanError::Disk)?;
            Ok(made)
        }
        Err(error) => Err(PlanError::Disk(error).into()),
    }
}

/// Appears whole, or not at all.
fn write(path: &Path, value: &impl Serialize) -> std::io::Result<()> {
    let text = serde_json::to_vec(value)?;
    let growing = path.with_extension("growing");
    // One that is left of a crash was never followed.
    if let Err(error) = fs::remove_file(&growing)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&growing)?;
    file.write_all(&text)?;
    file.sync_all()?;
    fs::rename(&growing, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
