//! The rehearsals of a plan: what earlier runs on the lead's public data measured.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::id::JobId;
use crate::job::JobState;
use crate::job::dp_sgd::{RehearsalReport, RehearsedSetting, SettingMeasure};

/// A rehearsal of a planned `dp_sgd` job on the lead's public data. Its results are those of public data in the roles of
/// the participants: they rank settings, and guarantee nothing about private data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlanRehearsal {
    /// The job that rehearses.
    pub job: JobId,
    /// Its title.
    pub title: String,
    /// Its state.
    pub state: JobState,
    /// The time at which it finished, if it has.
    #[serde(default, with = "time::serde::rfc3339::option")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub finished_at: Option<OffsetDateTime>,
    /// The public units in the role of each participant, the lead first; empty before the end.
    #[serde(default)]
    pub units: Vec<u64>,
    /// The result of the plan's own setting. Its factors are 1.
    #[serde(default)]
    pub own: Option<RehearsedSetting>,
    /// The setting with the greatest mean accuracy, or for a numeric target the least root mean squared error, with factors
    /// relative to the plan. It has the plan's price.
    #[serde(default)]
    pub best: Option<RehearsedSetting>,
}

impl PlanRehearsal {
    /// Returns the rehearsal with the results of its report, for the plan that is the setting with these factors of the
    /// clip and of the learning rate. `measure` is that of the plan's model.
    #[must_use]
    pub fn with_report(self, report: &RehearsalReport, (clip, rate): (f64, f64), measure: SettingMeasure) -> Self {
        let relate = |setting: &RehearsedSetting| RehearsedSetting {
            clip_factor: setting.clip_factor / clip,
            rate_factor: setting.rate_factor / rate,
            ..setting.clone()
        };
        let own = report.settings.iter().map(relate).find(RehearsedSetting::is_own);
        Self { units: report.units.clone(), own, best: report.best(measure).map(relate), ..self }
    }
}
