//! Terms that a proposal leaves to the parties, and a party's answer.
//!
//! A spec may leave the value of a term open for one dataset or for several, within a range. The proposal's own value is
//! the default. Each party answers with its approval. The final manifest holds every party's values, and its `proposal`
//! holds the document that the parties approved. To add a term: a [`TermName`], and its arms in the kinds that have it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use undertone_privacy::SamplingRate;

use super::Spec;
use crate::id::DatasetId;
use crate::problem::Violation;

/// A term that a party may set itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TermName {
    /// z: the noise of the party's gradients, relative to its clip.
    NoiseMultiplier,
    /// C: the L2 norm to which each unit's gradient is clipped.
    Clip,
    /// q: the probability with which each unit enters a batch.
    SamplingRate,
    /// The number of the first rounds in which the party sends a vector.
    Rounds,
}

impl TermName {
    /// Every term.
    pub const ALL: [Self; 4] = [Self::NoiseMultiplier, Self::Clip, Self::SamplingRate, Self::Rounds];

    /// Returns the name in JSON, at the terminal and in forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoiseMultiplier => "noise_multiplier",
            Self::Clip => "clip",
            Self::SamplingRate => "sampling_rate",
            Self::Rounds => "rounds",
        }
    }

    /// Returns the name on pages.
    pub const fn label(self) -> &'static str {
        match self {
            Self::NoiseMultiplier => "Noise multiplier z",
            Self::Clip => "Clip C",
            Self::SamplingRate => "Sampling rate q",
            Self::Rounds => "Rounds",
        }
    }

    /// Returns the term with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|term| term.name() == name)
    }

    /// Returns the value as a spec stores it: a rate is rounded up to a multiple of 2⁻³².
    pub fn stored(self, value: f64) -> f64 {
        match self {
            Self::SamplingRate => SamplingRate::new(value).map_or(value, SamplingRate::get),
            Self::NoiseMultiplier | Self::Clip | Self::Rounds => value,
        }
    }

    /// Returns whether its values are whole numbers.
    pub const fn is_whole(self) -> bool {
        matches!(self, Self::Rounds)
    }

    /// Returns whether a greater value protects the party's data more; else a smaller one does, or the term does not
    /// change the protection.
    pub const fn protects_by_growing(self) -> bool {
        matches!(self, Self::NoiseMultiplier)
    }
}

/// A term of a spec that parties set themselves, within a range.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct OpenTerm {
    /// The dataset whose owner sets it. Absent: the owner of each charged dataset without an entry of its own sets it for
    /// its dataset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<DatasetId>,
    /// The term.
    pub term: TermName,
    /// The least value.
    pub min: f64,
    /// The greatest value.
    pub max: f64,
}

/// An open term of one dataset, with its present value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TermRange {
    /// The term.
    pub term: TermName,
    /// The least value.
    pub min: f64,
    /// The greatest value.
    pub max: f64,
    /// The value in the spec: in a proposal the default.
    pub value: f64,
}

impl TermRange {
    /// Returns the value in the range that protects the party's data most.
    pub const fn most_private(&self) -> f64 {
        if self.term.protects_by_growing() { self.max } else { self.min }
    }

    /// Returns the value in the range that protects the party's data least.
    pub const fn least_private(&self) -> f64 {
        if self.term.protects_by_growing() { self.min } else { self.max }
    }

    /// Returns the violation of a value; `None` if the range admits it.
    pub fn check(&self, value: f64) -> Option<Violation> {
        let Self { term, min, max, .. } = *self;
        let is_inside = value >= min && value <= max && (!term.is_whole() || value.fract() == 0.0);
        let kind = if term.is_whole() { "a whole number" } else { "a number" };
        let name = term.name();
        let message = format!(
            "{name} is {}, and the proposal admits {kind} from {} to {}: answer within the range, refuse the job, or have its \
             proposer propose it with another range",
            format_term(value),
            format_term(min),
            format_term(max)
        );
        (!is_inside).then(|| Violation::new(format!("terms.{name}"), message))
    }
}

/// A party's answer: values of open terms, as a spec stores them. An omitted term keeps the proposal's value.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(from = "BTreeMap<TermName, f64>")]
pub struct PartyTerms(BTreeMap<TermName, f64>);

impl PartyTerms {
    /// Returns whether it changes no term.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the value of a term, if it has one.
    pub fn get(&self, term: TermName) -> Option<f64> {
        self.0.get(&term).copied()
    }

    /// Returns its terms with their values.
    pub fn iter(&self) -> impl Iterator<Item = (TermName, f64)> + '_ {
        self.0.iter().map(|(term, value)| (*term, *value))
    }

    /// Parses `name=value`, as given at a terminal, and adds it.
    ///
    /// # Errors
    /// A sentence with the remedy, if it is no such pair, or names a term twice.
    pub fn add_pair(&mut self, pair: &str) -> Result<(), String> {
        let names = || TermName::ALL.map(TermName::name).join(", ");
        let (name, value) =
            pair.split_once('=').ok_or_else(|| format!("{pair:?} is not `name=value`; names: {}", names()))?;
        let term = TermName::parse(name).ok_or_else(|| format!("no term is named {name:?}: use {}", names()))?;
        let value: f64 = value.parse().map_err(|_| format!("{name}: {value:?} is not a number"))?;
        if !value.is_finite() {
            return Err(format!("{name}: {value} is not a finite number"));
        }
        match self.0.insert(term, term.stored(value)) {
            None => Ok(()),
            Some(_) => Err(format!("{name} is given twice")),
        }
    }
}

impl FromIterator<(TermName, f64)> for PartyTerms {
    fn from_iter<I: IntoIterator<Item = (TermName, f64)>>(terms: I) -> Self {
        Self(terms.into_iter().map(|(term, value)| (term, term.stored(value))).collect())
    }
}

impl From<BTreeMap<TermName, f64>> for PartyTerms {
    fn from(terms: BTreeMap<TermName, f64>) -> Self {
        terms.into_iter().collect()
    }
}

impl std::fmt::Display for PartyTerms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, (term, value)) in self.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{} {}", term.name(), format_term(value))?;
        }
        Ok(())
    }
}

/// Formats the value of a term with at most 9 decimals: a rate is stored as a multiple of 2⁻³².
pub fn format_term(value: f64) -> String {
    let text = format!("{value:.9}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Spec {
    /// Returns whether the spec leaves a term to a party.
    pub fn has_open_terms(&self) -> bool {
        self.datasets().iter().any(|(dataset, _)| !self.open_terms(*dataset).is_empty())
    }

    /// Returns the values of a dataset's open terms in this spec.
    pub fn terms(&self, dataset: DatasetId) -> PartyTerms {
        self.open_terms(dataset).into_iter().map(|range| (range.term, range.value)).collect()
    }

    /// Returns the values of a dataset's open terms that protect its data most.
    pub fn most_private_terms(&self, dataset: DatasetId) -> PartyTerms {
        self.open_terms(dataset).into_iter().map(|range| (range.term, range.most_private())).collect()
    }

    /// Returns the violations of a party's answer, with field paths that start at `terms`.
    pub fn check_terms(&self, dataset: DatasetId, terms: &PartyTerms) -> Vec<Violation> {
        let open = self.open_terms(dataset);
        let check = |(term, value): (TermName, f64)| {
            if let Some(range) = open.iter().find(|range| range.term == term) {
                return range.check(value);
            }
            let name = term.name();
            let message = format!("the proposal does not leave {name} to this dataset's owner: leave it out");
            Some(Violation::new(format!("terms.{name}"), message))
        };
        terms.iter().filter_map(check).collect()
    }

    /// Returns the spec with a party's answer. Call it only with an answer without violations.
    #[must_use]
    pub fn with_terms(mut self, dataset: DatasetId, terms: &PartyTerms) -> Self {
        for (term, value) in terms.iter() {
            self.set_term(dataset, term, value);
        }
        self
    }

    /// Returns whether this is `proposal` with admissible answers of its parties, and nothing else differs.
    pub fn is_settled_from(&self, proposal: &Self) -> bool {
        let mut expected = proposal.clone();
        for (dataset, _) in proposal.datasets() {
            let terms: PartyTerms =
                proposal.open_terms(dataset).iter().filter_map(|range| self.answer_to(dataset, range)).collect();
            if !proposal.check_terms(dataset, &terms).is_empty() {
                return false;
            }
            expected = expected.with_terms(dataset, &terms);
        }
        *self == expected
    }

    /// Returns the value that this spec has for an open term of a proposal.
    fn answer_to(&self, dataset: DatasetId, range: &TermRange) -> Option<(TermName, f64)> {
        let own = self.open_terms(dataset).into_iter().find(|own| own.term == range.term)?;
        Some((own.term, own.value))
    }
}
