//! A plan: the content of the planner's form, before it becomes a spec. The form posts it and its address contains it,
//! so that a plan can be kept as a link.

use serde::{Deserialize, Serialize};
use undertone_api::dataset::Dataset;
use undertone_api::id::{ConsortiumId, DatasetId};
use undertone_api::job::analytics::sql::{SqlQueries, parse_queries, write_queries};
use undertone_api::job::analytics::{ContributionLimits, Party, Spec, TargetError};
use undertone_api::problem::Violation;
use undertone_api::table::TableSchema;
use undertone_privacy::{NoiseMultiplier, PrivacyUnit};

use super::{goal, template};

/// The noise of a first plan: ε 1 at δ 10⁻⁶.
const NOISE: f64 = 4.3;

/// A table in a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AnalyticsPart {
    /// The dataset.
    pub dataset: DatasetId,
    /// Whether it takes part.
    #[serde(default)]
    pub joins: bool,
}

/// A plan of an `analytics` job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AnalyticsPlan {
    /// Title of the job.
    pub title: String,
    /// The tables; the site of the first that takes part computes the report.
    pub parts: Vec<AnalyticsPart>,
    /// The SQL text.
    #[serde(default)]
    pub sql: String,
    /// Errors and shares of aggregates, one line each.
    #[serde(default)]
    pub goals: String,
    /// m: the rows of a unit that count in a group.
    pub rows: u32,
    /// g: the groups in which a unit counts.
    pub groups: u32,
    /// z.
    pub noise: f64,
    /// The fewest sites.
    pub quorum: u32,
    /// The deadline of the round, hours.
    pub hours: f64,
}

impl AnalyticsPlan {
    /// Makes an initial plan: a feasibility count in every table with the columns of the largest one. `None` without a
    /// table.
    pub(super) fn first(datasets: &[Dataset]) -> Option<Self> {
        let largest =
            datasets.iter().filter(|dataset| dataset.table.is_some()).max_by_key(|dataset| dataset.records)?;
        let schema = largest.table.as_ref()?;
        let joins = |dataset: &Dataset| dataset.table.as_ref().is_some_and(|table| table.columns == schema.columns);
        let tables = datasets.iter().filter(|dataset| dataset.table.is_some());
        let part = |dataset: &Dataset| AnalyticsPart { dataset: dataset.id, joins: joins(dataset) };
        Some(Self {
            title: String::new(),
            parts: tables.map(part).collect(),
            sql: template::list_templates(schema).swap_remove(0).1,
            goals: String::new(),
            rows: 1,
            groups: 1,
            noise: NOISE,
            quorum: 1,
            hours: 24.0,
        })
    }

    /// Parses the plan in a page's query, if it has one.
    pub(super) fn from_query(query: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct PlanQuery {
            analytics: AnalyticsPlan,
        }
        crate::query::parse::<PlanQuery>(query).map(|query| query.analytics)
    }

    /// Returns the address of the planner with this plan.
    pub(super) fn link(&self, consortium: ConsortiumId) -> String {
        let query = serde_qs::to_string(&std::collections::BTreeMap::from([("analytics", self)])).unwrap_or_default();
        format!("{}?{query}", crate::path::plan(consortium))
    }

    /// Returns the dataset whose declared columns the SQL text names: the first that takes part.
    pub(super) fn find_first<'a>(&self, datasets: &'a [Dataset]) -> Option<&'a Dataset> {
        let part = self.parts.iter().find(|part| part.joins)?;
        datasets.iter().find(|dataset| dataset.id == part.dataset)
    }

    /// Returns the declared columns of that dataset.
    pub(super) fn find_schema<'a>(&self, datasets: &'a [Dataset]) -> Option<&'a TableSchema> {
        self.find_first(datasets)?.table.as_ref()
    }

    fn parse_sql(&self, datasets: &[Dataset]) -> Result<SqlQueries, Violation> {
        let say = |field: &str, message: String| Violation::new(format!("spec.{field}"), message);
        let schema = self.find_schema(datasets);
        let schema = schema.ok_or_else(|| say("participants", "choose at least one table".to_owned()))?;
        let limits = ContributionLimits { rows: self.rows, groups: self.groups };
        parse_queries(&self.sql, schema, limits).map_err(|error| say("queries", error.to_string()))
    }

    /// Converts the plan into a spec.
    ///
    /// # Errors
    /// Every invalid value, by its path in the spec.
    pub(super) fn spec(&self, datasets: &[Dataset]) -> Result<Spec, Vec<Violation>> {
        self.fit(datasets).map(|(spec, _)| spec)
    }

    /// Converts the plan into a spec whose noise and shares meet the errors that it asks for, and returns these.
    ///
    /// # Errors
    /// Every invalid value, by its path in the spec.
    pub(super) fn fit(&self, datasets: &[Dataset]) -> Result<(Spec, Vec<TargetError>), Vec<Violation>> {
        let mut violations = Vec::new();
        let noise = NoiseMultiplier::new(self.noise);
        if let Err(error) = &noise {
            violations.push(Violation::new("spec.noise_multiplier".to_owned(), error.to_string()));
        }
        let seconds = self.hours * 3600.0;
        if !(seconds >= 0.0 && seconds <= f64::from(u32::MAX)) {
            violations.push(Violation::new("spec.deadline_seconds".to_owned(), "enter hours, such as 24".to_owned()));
        }
        let parsed = self.parse_sql(datasets).map_err(|violation| violations.push(violation));
        let (Ok(noise_multiplier), Ok(mut parsed), true) = (noise, parsed, violations.is_empty()) else {
            return Err(violations);
        };
        let targets = goal::read_goals(&self.goals, &mut parsed.queries);
        let targets = targets.map_err(|text| vec![Violation::new("spec.queries".to_owned(), text)])?;
        let sites = self.parts.iter().filter(|part| part.joins);
        let spec = Spec {
            unit: PrivacyUnit::User,
            participants: sites.map(|part| Party { dataset: part.dataset }).collect(),
            columns: parsed.columns,
            queries: parsed.queries,
            noise_multiplier,
            quorum: self.quorum,
            deadline_seconds: seconds.round() as u32,
        };
        if targets.is_empty() {
            return Ok((spec, targets));
        }
        match spec.fit_targets(datasets, &targets) {
            Ok(Some(fitted)) => Ok((fitted, targets)),
            Ok(None) => {
                let text = "the sites cannot draw the noise for these errors exactly: ask for others";
                Err(vec![Violation::new("spec.noise_multiplier".to_owned(), text.to_owned())])
            }
            Err(error) => Err(vec![Violation::new(format!("spec.{}", error.field()), error.to_string())]),
        }
    }

    /// Converts a spec into a plan; `first` is the plan of the datasets, which provides all values that the spec lacks.
    pub(super) fn from_spec(title: &str, spec: &Spec, datasets: &[Dataset], first: &Self) -> Self {
        let limits = spec.queries.first().map_or_else(ContributionLimits::default, |query| query.limits);
        let unit = first.find_schema(datasets).map_or("unit", |schema| schema.unit_column.as_str());
        let part =
            |part: &AnalyticsPart| AnalyticsPart { dataset: part.dataset, joins: spec.is_participant(part.dataset) };
        Self {
            title: title.to_owned(),
            parts: first.parts.iter().map(part).collect(),
            sql: write_queries(&spec.queries, unit),
            goals: goal::write_shares(&spec.queries),
            rows: limits.rows,
            groups: limits.groups,
            noise: spec.noise_multiplier.get(),
            quorum: spec.quorum,
            hours: f64::from(spec.deadline_seconds) / 3600.0,
        }
    }
}
