//! Conversion of a spec into its plan, so that a draft can be edited in the planner. A plan lacks options without a
//! field in the planner: the code that opens a draft compares the plan's spec with it, and reports the differences.

use undertone_api::job::dp_sgd::{Ema, Optimizer, ParameterAdaptation, RateSchedule, Rounds, SelectionOptions, Spec};

use super::{
    AdaptationKind, BandPlan, DatasetPart, FrozenParts, GroupPlan, ModelLayers, ScheduleShape, SelectionPlan,
    StepOptimizer, StepOptions, TermPlans, TrainingPlan,
};

impl TrainingPlan {
    /// Converts a spec into a plan; `first` is the plan of the datasets, which provides all values that the spec lacks.
    pub(in crate::kind::dp_sgd) fn from_spec(title: &str, spec: &Spec, first: &Self) -> Self {
        let parts = first.parts.iter().map(|part| convert_part(spec, part)).collect();
        let is_listed = |lead: &undertone_api::id::DatasetId| first.parts.iter().any(|part| part.dataset == *lead);
        let lead = spec.participants.first().map(|party| party.dataset).filter(is_listed).unwrap_or(first.lead);
        let plan = Self {
            title: title.to_owned(),
            unit: spec.unit,
            open: spec.open.is_some(),
            private: spec.private.is_some(),
            audit: spec.audit.is_some(),
            parts,
            lead,
            hidden: spec.model.hidden,
            epochs: spec.warm_start.epochs,
            batch: spec.warm_start.batch,
            warm_rate: spec.warm_start.learning_rate,
            spare: spec.spare_releases,
            layers: ModelLayers::from_model(&spec.model),
            initial: spec.initial_model.clone().unwrap_or_default(),
            rows: spec.model.rows.as_deref().map_or_else(String::new, super::rows::write_rows),
            terms: TermPlans::from_spec(spec, &first.terms),
            group: GroupPlan::from_terms(spec.secure_aggregation.as_ref()),
            bands: BandPlan::from_noise(spec.participants.iter().find_map(|party| party.noise?.banded)),
            trials: spec.selection.as_ref().map_or_else(SelectionPlan::default, convert_trials),
            ..*first
        };
        // The planner plans both arms alike; the private one determines the cost.
        match spec.private.as_ref().or(spec.open.as_ref()) {
            Some(rounds) => plan.with_rounds(spec, rounds),
            None => plan,
        }
    }

    /// Returns the plan with these rounds.
    fn with_rounds(self, spec: &Spec, rounds: &Rounds) -> Self {
        let contributors = u32::try_from(spec.participants.len()).unwrap_or(u32::MAX);
        let (step, momentum) = match rounds.optimizer {
            Optimizer::Sgd { momentum, .. } => (StepOptimizer::Sgd, momentum),
            Optimizer::Adam { .. } => (StepOptimizer::Adam, self.steps.momentum),
            Optimizer::DpAdam { .. } => (StepOptimizer::DpAdam, self.steps.momentum),
        };
        let (shape, warmup, last) = match rounds.schedule {
            RateSchedule::Constant => (ScheduleShape::Constant, self.steps.warmup, self.steps.last),
            RateSchedule::Linear { warmup, r#final } => (ScheduleShape::Linear, warmup, r#final),
            RateSchedule::Cosine { warmup, r#final } => (ScheduleShape::Cosine, warmup, r#final),
        };
        let (adaptation, rank) = match rounds.adaptation {
            None => (AdaptationKind::Full, self.steps.rank),
            Some(ParameterAdaptation::Biases) => (AdaptationKind::Biases, self.steps.rank),
            Some(ParameterAdaptation::LowRank { rank }) => (AdaptationKind::LowRank, rank),
        };
        let noise = spec.participants.iter().find_map(|party| party.noise);
        let steps = StepOptions {
            local: rounds.local_steps,
            momentum,
            shape,
            warmup,
            last,
            averaging: rounds.averaging.map_or(0.0, |Ema { decay }| decay),
            precision: rounds.exchange.precision,
            clipping: noise.map_or(self.steps.clipping, |noise| noise.clipping),
            copies: rounds.augmentation.map_or(1, |augmentation| augmentation.copies),
            adaptation,
            rank,
        };
        Self {
            rounds: rounds.rounds,
            step,
            learning_rate: rounds.optimizer.learning_rate(),
            evaluate_every: rounds.evaluate_every,
            deadline: rounds.deadline_seconds,
            may_miss: contributors.saturating_sub(rounds.quorum),
            frozen: convert_frozen(spec, rounds),
            steps,
            ..self
        }
    }
}

/// Converts a dataset's part: from the spec if it takes part, else from the first plan.
fn convert_part(spec: &Spec, first: &DatasetPart) -> DatasetPart {
    let tests = spec.tests.iter().any(|test| test.dataset == first.dataset);
    let Some(party) = spec.party(first.dataset) else { return DatasetPart { joins: false, tests, ..first.clone() } };
    let (noise, clip) =
        party.noise.map_or((first.noise, first.clip), |noise| (noise.noise_multiplier.get(), noise.clip));
    DatasetPart { dataset: first.dataset, joins: true, tests, rate: party.sampling_rate.get(), noise, clip }
}

/// Returns the parts that these rounds do not train.
fn convert_frozen(spec: &Spec, rounds: &Rounds) -> FrozenParts {
    let mut flags = FrozenParts::default();
    let trained = rounds.trained(&spec.model);
    for part in spec.model.parts().iter().filter(|part| !trained.contains(*part)) {
        *flags.flag_mut(part) = true;
    }
    flags
}

fn convert_trials(selection: &SelectionOptions) -> SelectionPlan {
    SelectionPlan {
        on: true,
        rates: format_numbers(selection.candidates.iter().map(|candidate| candidate.learning_rate)),
        clips: format_numbers(selection.candidates.iter().map(|candidate| candidate.clip)),
        shape: selection.shape.get(),
        mean: selection.runs().mean(),
        most: selection.most_runs.get(),
        development: selection.development,
    }
}

/// Formats the distinct numbers of a list in their order, separated by blanks.
fn format_numbers(numbers: impl Iterator<Item = f64>) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in numbers.map(|number| number.to_string()) {
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words.join(" ")
}
