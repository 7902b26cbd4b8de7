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
//! ([`super::Draft`]). *Approved* is not a state: the last approval reserves in every ledger and queues the job in one
//! transaction, so that no approved job lacks a reservation. A paused job keeps its reservation and its place: no lease
//! is given or kept, no round opens or closes, and no deadline runs. It is paused while it has a [hold](super::Hold).

use serde::{Deserialize, Serialize};

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Waiting for the owners of its datasets.
    Proposed,
    /// Approved by all owners and reserved in every ledger; waiting for its workers.
    Queued,
    /// Running at its workers.
    Running,
    /// Held by a party: no worker runs it, no deadline runs, its reservations stay.
    Paused,
    /// Completed; its reservations are settled.
    Finished,
    /// Ended by an error; its reservations are settled.
    Failed,
    /// Ended by a person; its reservations are settled.
    Cancelled,
    /// Refused by a dataset's owner or by a budget. Nothing was ever charged.
    Refused,
}

/// A transition of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
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
    pub from: State,
    /// The step.
    pub step: Step,
}

impl State {
    /// Returns the state after `step`.
    ///
    /// # Errors
    /// [`WrongStep`] if the present state does not allow this step.
    pub fn after(self, step: Step) -> Result<Self, WrongStep> {
        match (self, step) {
            (Self::Proposed, Step::Reserve) | (Self::Paused, Step::Resume { begun: false }) => Ok(Self::Queued),
            (Self::Proposed, Step::Refuse) => Ok(Self::Refused),
            (Self::Queued | Self::Running, Step::Start) | (Self::Paused, Step::Resume { begun: true }) => {
                Ok(Self::Running)
            }
            (Self::Queued | Self::Running, Step::Pause) => Ok(Self::Paused),
            (Self::Running, Step::Finish) => Ok(Self::Finished),
            (Self::Queued | Self::Running | Self::Paused, Step::Fail) => Ok(Self::Failed),
            (Self::Proposed | Self::Queued | Self::Running | Self::Paused, Step::Cancel) => Ok(Self::Cancelled),
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

    /// Returns the state for display.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Proposed => "waiting for approval",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Refused => "refused",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{State, Step};

    #[test]
    fn a_job_that_is_over_has_no_step() {
        let steps = [Step::Reserve, Step::Refuse, Step::Start, Step::Finish, Step::Fail, Step::Cancel];
        let steps = [&steps[..], &[Step::Pause, Step::Resume { begun: true }, Step::Resume { begun: false }]].concat();
        for state in [State::Finished, State::Failed, State::Cancelled, State::Refused] {
            assert!(state.is_over());
            assert!(steps.iter().all(|step| state.after(*step).is_err()), "{state:?}");
        }
    }

    #[test]
    fn job_reserves_before_start() {
        assert!(State::Proposed.after(Step::Start).is_err());
        let queued = State::Proposed.after(Step::Reserve);
        assert_eq!(queued.and_then(|state| state.after(Step::Start)), Ok(State::Running));
    }

    #[test]
    fn paused_job_resumes_its_earlier_state_only() {
        for (before, begun) in [(State::Queued, false), (State::Running, true)] {
            let paused = before.after(Step::Pause);
            assert_eq!(paused, Ok(State::Paused));
            assert_eq!(paused.and_then(|state| state.after(Step::Resume { begun })), Ok(before));
        }
        assert!(State::Paused.after(Step::Start).is_err() && State::Paused.after(Step::Finish).is_err());
        assert!(State::Proposed.after(Step::Pause).is_err() && !State::Paused.is_over());
    }
}
