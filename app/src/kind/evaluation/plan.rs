//! A plan: the content of the planner's form, before it becomes a spec. The form posts it and its address contains it,
//! so that a plan can be kept as a link.

use serde::{Deserialize, Serialize};
use undertone_api::dataset::{Dataset, DatasetContent, Visibility};
use undertone_api::id::{ConsortiumId, DatasetId};
use undertone_api::job::dp_sgd::RowColumns;
use undertone_api::job::evaluation::{Party, ScoreBins, Spec};
use undertone_api::problem::Violation;
use undertone_privacy::{NoiseMultiplier, PrivacyUnit};

use super::is_evaluated;
use crate::kind::Card as _;
use crate::kind::planner_kind::has_test_set;

/// The noise of a first plan: ε 1 at δ 10⁻⁶.
const NOISE: f64 = 4.3;

/// A private test set in a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvaluationPart {
    /// The dataset.
    pub dataset: DatasetId,
    /// Whether it takes part.
    #[serde(default)]
    pub joins: bool,
}

/// A plan of an `evaluation` job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvaluationPlan {
    /// Title of the job.
    pub title: String,
    /// The protected unit.
    pub unit: PrivacyUnit,
    /// The dataset that leads.
    pub lead: DatasetId,
    /// SHA-256 of the model's file.
    #[serde(default)]
    pub model: String,
    /// The columns of an ONNX graph of rows, as JSON; empty for a file that names its columns, and for speech.
    #[serde(default)]
    pub columns: String,
    /// The private test sets.
    pub parts: Vec<EvaluationPart>,
    /// The evaluated classes, separated by commas.
    #[serde(default)]
    pub classes: String,
    /// z.
    pub noise: f64,
    /// Whether the share of correct first choices is released.
    #[serde(default)]
    pub accuracy: bool,
    /// The number of bins.
    pub bins: u32,
    /// The width of a bin.
    pub width: f64,
    /// The specificities, separated by commas.
    #[serde(default)]
    pub specificities: String,
    /// The fewest sites.
    pub quorum: u32,
    /// The deadline of the round, hours.
    pub hours: f64,
}

impl EvaluationPlan {
    /// Makes an initial plan: the largest public dataset of speech or tables leads, preferably one whose content private
    /// datasets have too, and every private one of its content takes part. `None` without a lead.
    pub(super) fn first(datasets: &[Dataset]) -> Option<Self> {
        let order = |dataset: &&Dataset| (has_test_set(dataset, datasets), dataset.records);
        let lead = datasets.iter().filter(|dataset| Spec::can_begin(dataset)).max_by_key(order)?;
        let private =
            datasets.iter().filter(|dataset| is_evaluated(dataset) && dataset.visibility != Visibility::Public);
        let private: Vec<&Dataset> = private.collect();
        let mut joining = private.iter().filter(|dataset| dataset.content == lead.content);
        let unit = if lead.content == DatasetContent::Table {
            PrivacyUnit::User
        } else if joining.all(|dataset| dataset.keeps_apart(PrivacyUnit::Record)) {
            PrivacyUnit::Record
        } else {
            PrivacyUnit::Speaker
        };
        let part = |dataset: &&Dataset| EvaluationPart { dataset: dataset.id, joins: dataset.content == lead.content };
        Some(Self {
            title: String::new(),
            unit,
            lead: lead.id,
            model: String::new(),
            columns: String::new(),
            parts: private.iter().map(part).collect(),
            classes: "1".to_owned(),
            noise: NOISE,
            accuracy: false,
            bins: ScoreBins::default().count,
            width: ScoreBins::default().width,
            specificities: "0.8, 0.9, 0.95".to_owned(),
            quorum: 1,
            hours: 24.0,
        })
    }

    /// Parses the plan in a page's query, if it has one.
    pub(super) fn from_query(query: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct PlanQuery {
            evaluation: EvaluationPlan,
        }
        crate::query::parse::<PlanQuery>(query).map(|query| query.evaluation)
    }

    /// Returns the address of the planner with this plan.
    pub(super) fn link(&self, consortium: ConsortiumId) -> String {
        let query = serde_qs::to_string(&std::collections::BTreeMap::from([("evaluation", self)])).unwrap_or_default();
        format!("{}?{query}", crate::path::plan(consortium))
    }

    /// Converts the plan into a spec.
    ///
    /// # Errors
    /// Every invalid number, by its path in the spec.
    pub(super) fn spec(&self) -> Result<Spec, Vec<Violation>> {
        let mut violations = Vec::new();
        let mut say = |field: &str, message: String| violations.push(Violation::new(format!("spec.{field}"), message));
        let columns = self.parse_columns();
        if let Err(error) = &columns {
            say("columns", format!("enter columns as JSON, with `target`, `features` and `rows_per_unit`: {error}"));
        }
        let classes = parse_list(&self.classes);
        if classes.is_none() {
            say("classes", "enter numbers separated by commas, such as 1, 4".to_owned());
        }
        let specificities = parse_list(&self.specificities);
        if specificities.is_none() {
            say("specificities", "enter numbers separated by commas, such as 0.9, 0.95".to_owned());
        }
        let noise = NoiseMultiplier::new(self.noise);
        if let Err(error) = &noise {
            say("noise_multiplier", error.to_string());
        }
        let seconds = self.hours * 3600.0;
        if !(seconds >= 0.0 && seconds <= f64::from(u32::MAX)) {
            say("deadline_seconds", "enter hours, such as 24".to_owned());
        }
        let (Ok(columns), Some(classes), Some(specificities), Ok(noise_multiplier), true) =
            (columns, classes, specificities, noise, violations.is_empty())
        else {
            return Err(violations);
        };
        let sites = self.parts.iter().filter(|part| part.joins && part.dataset != self.lead).map(|part| part.dataset);
        Ok(Spec {
            unit: self.unit,
            model: self.model.trim().to_ascii_lowercase(),
            columns,
            participants: std::iter::once(self.lead).chain(sites).map(|dataset| Party { dataset }).collect(),
            classes,
            noise_multiplier,
            accuracy: self.accuracy,
            bins: ScoreBins { count: self.bins, width: self.width },
            specificities,
            quorum: self.quorum,
            deadline_seconds: seconds.round() as u32,
        })
    }

    /// Parses the columns, if there are some.
    fn parse_columns(&self) -> serde_json::Result<Option<Box<RowColumns>>> {
        match self.columns.trim() {
            "" => Ok(None),
            text => serde_json::from_str(text).map(Some),
        }
    }

    /// Converts a spec into a plan; `first` is the plan of the datasets, which provides all values that the spec lacks.
    pub(super) fn from_spec(title: &str, spec: &Spec, first: &Self) -> Self {
        let joins = |dataset: DatasetId| spec.is_participant(dataset) && !spec.is_lead(dataset);
        let join = |numbers: Vec<String>| numbers.join(", ");
        Self {
            title: title.to_owned(),
            unit: spec.unit,
            lead: spec.participants.first().map_or(first.lead, |party| party.dataset),
            model: spec.model.clone(),
            columns: spec.columns.as_deref().map_or_else(String::new, write_columns),
            parts: first
                .parts
                .iter()
                .map(|part| EvaluationPart { dataset: part.dataset, joins: joins(part.dataset) })
                .collect(),
            classes: join(spec.classes.iter().map(u32::to_string).collect()),
            noise: spec.noise_multiplier.get(),
            accuracy: spec.accuracy,
            bins: spec.bins.count,
            width: spec.bins.width,
            specificities: join(spec.specificities.iter().map(f64::to_string).collect()),
            quorum: spec.quorum,
            hours: f64::from(spec.deadline_seconds) / 3600.0,
        }
    }
}

/// Writes columns as the form shows them.
fn write_columns(columns: &RowColumns) -> String {
    serde_json::to_string_pretty(columns).unwrap_or_default()
}

/// Parses numbers separated by commas; an empty text has none.
fn parse_list<T: std::str::FromStr>(text: &str) -> Option<Vec<T>> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items.map(|item| item.parse().ok()).collect()
}
