//! The duration of each step, over all processes of a run.

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
    /// Reads the records of earlier processes in `work`, and creates the folder if it is missing.
    ///
    /// # Errors
    /// [`RunError::Failed`] when the disk refuses.
    pub(super) fn open(work: &Path) -> Result<Self, RunError> {
        create_private(work).map_err(failed)?;
        let path = work.join("stages.json");
        // Times are informative only: the run continues without them.
        let stages = std::fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        Ok(Self { path, stages })
    }

    /// Runs a step and adds its time to that of earlier processes, after success or failure.
    ///
    /// # Errors
    /// Any error of the step, or [`RunError::Failed`] when the disk refuses.
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

    /// Returns all steps, in the order in which they began.
    pub(super) fn all(&self) -> Vec<Stage> {
        self.stages.clone()
    }
}
