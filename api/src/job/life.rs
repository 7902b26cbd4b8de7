//! The states of a job, with transitions that consume the old state.
//!
//! ```text
//! (draft) ─ propose ─▶ proposed ─ all approved, all reserved ─▶ queued ─ first lease ─▶ running ─▶ finished
//!                         │                                      │  ▲                    │  ▲  └──▶ failed
//!                         └▶ refused                             ▼  └──────┐             ▼  │
//!                            (owner, budget, time)             paused ─────┴── resume ───┴──┘
//! ```
//!
//! A draft is not yet a job: it has no manifest, no approval was requested, and nothing of it is signed
//! ([`super::JobDraft`]). *Approved* is not a state: the last approval reserves in every ledger and queues the job in one
//! transaction, so that no approved job lacks a reservation. A paused job keeps its reservation and its place: no lease
//! is given or kept, no round opens or closes, and no deadline runs. It is paused while it has a [hold](super::Hold).

use serde::{Deserialize, Serialize};

/// Defines the states by one list: the variant, its word in JSON and in options, and its label.
macro_rules! job_states {
    ($($(#[$doc:meta])* $variant:ident = $word:literal, $label:literal;)*) => {
        /// The state of a job.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = State))]
        #[serde(rename_all = "snake_case")]
        pub enum JobState { $($(#[$doc])* $variant,)* }

        impl JobState {
            /// Every state, in the order of the list.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the word of the state, as in JSON: `proposed`.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// Returns the state for display.
            pub const fn label(self) -> &'static str {
                match self { $(Self::$variant => $label,)* }
            }
        }
    };
}

job_states! {
    /// Waiting for the owners of its datasets.
    Proposed = "proposed", "waiting for approval";
    /// Approved by all owners and reserved in every ledger; waiting for its workers.
    Queued = "queued", "queued";
    /// Running at its workers.
    Running = "running", "running";
    /// Held by a party: no worker runs it, no deadline runs, its reservations stay.
    Paused = "paused", "paused";
    /// Completed; its reservations are settled.
    Finished = "finished", "finished";
    /// Ended by an error; its reservations are settled.
    Failed = "failed", "failed";
    /// Ended by a person; its reservations are settled.
    Cancelled = "cancelled", "cancelled";
    /// Refused by a dataset's owner or by a budget. Nothing was ever charged.
    Refused = "refused", "refused";
}

/// A transition of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobStep {
    /// The last approval arrived and every reservation succeeded.
    Reserve,
    /// An owner or a budget refused.
    Refuse,
    /// The first worker took its lease.
    Start,
    /// The job received its first hold.
    Pause,
    /// The last hold ended.
    Resume {
        /// Whether a worker had begun before.
        begun: bool,
    },
    /// The last participant finished.
    Finish,
    /// A permanent failure.
    Fail,
    /// A member ended it.
    Cancel,
}

/// A step that the present state does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a job that is {from:?} cannot {step:?}")]
pub struct WrongStep {
    /// The state.
    pub from: JobState,
    /// The step.
    pub step: JobStep,
}

impl JobState {
    /// Returns the state after `step`.
    ///
    /// # Errors
    /// [`WrongStep`] if the present state does not allow this step.
    pub fn apply(self, step: JobStep) -> Result<Self, WrongStep> {
        match (self, step) {
            (Self::Proposed, JobStep::Reserve) | (Self::Paused, JobStep::Resume { begun: false }) => Ok(Self::Queued),
            (Self::Proposed, JobStep::Refuse) => Ok(Self::Refused),
            (Self::Queued | Self::Running, JobStep::Start) | (Self::Paused, JobStep::Resume { begun: true }) => {
                Ok(Self::Running)
            }
            (Self::Queued | Self::Running, JobStep::Pause) => Ok(Self::Paused),
            (Self::Running, JobStep::Finish) => Ok(Self::Finished),
            (Self::Queued | Self::Running | Self::Paused, JobStep::Fail) => Ok(Self::Failed),
            (Self::Proposed | Self::Queued | Self::Running | Self::Paused, JobStep::Cancel) => Ok(Self::Cancelled),
            (from, step) => Err(WrongStep { from, step }),
        }
    }

    /// Returns whether the state is final.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Finished | Self::Failed | Self::Cancelled | Self::Refused)
    }

    /// Returns whether workers may run it: it holds a lease or may receive one.
    pub const fn is_under_way(self) -> bool {
        matches!(self, Self::Queued | Self::Running)
    }
}

#[cfg(test)]
mod tests {
    use super::{JobState, JobStep};

    #[test]
    fn word_of_each_state_is_that_of_its_json() {
        for state in JobState::ALL {
            assert_eq!(serde_json::to_value(state).expect("it has a JSON form"), state.word());
        }
    }

    #[test]
    fn a_job_that_is_over_has_no_step() {
        let steps =
            [JobStep::Reserve, JobStep::Refuse, JobStep::Start, JobStep::Finish, JobStep::Fail, JobStep::Cancel];
        let steps =
            [&steps[..], &[JobStep::Pause, JobStep::Resume { begun: true }, JobStep::Resume { begun: false }]].concat();
        for state in [JobState::Finished, JobState::Failed, JobState::Cancelled, JobState::Refused] {
            assert!(state.is_over());
            assert!(steps.iter().all(|step| state.apply(*step).is_err()), "{state:?}");
        }
    }

    #[test]
    fn job_reserves_before_start() {
        assert!(JobState::Proposed.apply(JobStep::Start).is_err());
        let queued = JobState::Proposed.apply(JobStep::Reserve);
        assert_eq!(queued.and_then(|state| state.apply(JobStep::Start)), Ok(JobState::Running));
    }

    #[test]
    fn paused_job_resumes_its_earlier_state_only() {
        for (before, begun) in [(JobState::Queued, false), (JobState::Running, true)] {
            let paused = before.apply(JobStep::Pause);
            assert_eq!(paused, Ok(JobState::Paused));
            assert_eq!(paused.and_then(|state| state.apply(JobStep::Resume { begun })), Ok(before));
        }
        assert!(JobState::Paused.apply(JobStep::Start).is_err() && JobState::Paused.apply(JobStep::Finish).is_err());
        assert!(JobState::Proposed.apply(JobStep::Pause).is_err() && !JobState::Paused.is_over());
    }
}
