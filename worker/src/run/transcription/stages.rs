//! How long each step took, over all lives of a run.

use std::path::{Path, PathBuf};
use std::time::Instant;

use undertone_api::job::transcription::Stage;

use super::failed;
use crate::run::RunError;
use crate::site::folder::{create_private, write_durably};

/// The steps so far.
#[derive(Debug)]
pub(super) struct Stages {
    path: PathBuf,
    stages: Vec<Stage>,
}

impl Stages {
    /// What earlier lives noted in `work`, which is made where it is not there.
    ///
    /// # Errors
    /// [`RunError::Failed`] when the disk refuses.
    pub(super) fn open(work: &Path) -> Result<Self, RunError> {
        create_private(work).map_err(failed)?;
        let path = work.join("stages.json");
        // Times are for people: without them a run goes on.
        let stages = std::fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        Ok(Self { path, stages })
    }

    /// Does a step and adds its time to what earlier lives spent on it, whether it succeeds or not.
    ///
    /// # Errors
    /// What the step says, or [`RunError::Failed`] when the disk refuses.
    pub(super) fn time<T>(&mut self, name: &str, step: impl FnOnce() -> Result<T, RunError>) -> Result<T, RunError> {
        let began = Instant::now();
        let done = step();
        let seconds = began.elapsed().as_secs_f64();
        match self.stages.iter_mut().find(|stage| stage.name == name) {
            Some(stage) => stage.seconds += seconds,
            None => self.stages.push(Stage { name: name.to_owned(), seconds }),
        }
        let text = serde_json::to_vec(&self.stages).map_err(failed)?;
        let noted = write_durably(&self.path, &text).map_err(failed);
        let done = done?;
        noted?;
        Ok(done)
    }

    /// All of them, in the order in which they began.
    pub(super) fn all(&self) -> Vec<Stage> {
        self.stages.clone()
    }
}
