//! The duration of each step, over all processes of a run.

use std::path::{Path, PathBuf};
use std::time::Instant;

use undertone_api::job::transcription::StageDuration;

use crate::run::RunError;
use crate::site::folder::{create_private, write_durably};

/// The steps so far.
#[derive(Debug)]
pub(super) struct StageTimes {
    path: PathBuf,
    stages: Vec<StageDuration>,
}

impl StageTimes {
    /// Reads the records of earlier processes in `work`, and creates the folder if it is missing.
    ///
    /// # Errors
    /// [`RunError`] when the disk refuses.
    pub(super) fn open(work: &Path) -> Result<Self, RunError> {
        create_private(work)?;
        let path = work.join("stages.json");
        // Times are informative only: the run continues without them.
        let stages = std::fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        Ok(Self { path, stages })
    }

    /// Runs a step and adds its time to that of earlier processes, after success or failure.
    ///
    /// # Errors
    /// The error of the step, or [`RunError`] when the disk refuses.
    pub(super) fn time<T>(&mut self, name: &str, step: impl FnOnce() -> Result<T, RunError>) -> Result<T, RunError> {
        let began = Instant::now();
        let result = step();
        let seconds = began.elapsed().as_secs_f64();
        match self.stages.iter_mut().find(|stage| stage.name == name) {
            Some(stage) => stage.seconds += seconds,
            None => self.stages.push(StageDuration { name: name.to_owned(), seconds }),
        }
        let text = serde_json::to_vec(&self.stages)?;
        let stored = write_durably(&self.path, &text);
        let value = result?;
        stored?;
        Ok(value)
    }

    /// Returns all steps, in the order in which they began.
    pub(super) fn all(&self) -> Vec<StageDuration> {
        self.stages.clone()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::StageTimes;
    use crate::fault::{self, FailureKind, FailurePlan};
    use crate::run::RunError;

    #[test]
    fn step_whose_time_cannot_be_stored_pauses_the_run() {
        let dir = tempfile::tempdir().unwrap();
        let mut stages = StageTimes::open(dir.path()).unwrap();
        fault::plan(Some(FailurePlan { accident: FailureKind::Disk, after: 1 }));
        let end = stages.time("first", || Ok(1));
        assert_eq!(fault::plan(None), None, "the disk failed");
        assert!(matches!(end, Err(RunError::Disk(_))), "{end:?}");
        assert_eq!(stages.time("first", || Ok(1)).unwrap(), 1);
    }
}
