//! Limits of datasets that share a lineage and therefore accounts: a promise under one name holds under the others.

use std::collections::BTreeMap;
use std::path::Path;

use undertone_api::id::LineageId;
use undertone_privacy::ledger::FilterKind;

use super::edit::TEMPLATE;
use super::{LifetimeLimit, LifetimeLimits, Policy, PolicyError};

impl Policy {
    /// Loads the policy as [`Policy::load`]; without a file, returns the template.
    ///
    /// # Errors
    /// The errors of [`Policy::load`].
    pub fn load_or_template(path: &Path) -> Result<Self, PolicyError> {
        if path.exists() { Self::load(path) } else { Self::parse(TEMPLATE, path) }
    }

    /// Applies the tightest limits of each lineage to all its datasets: a promise under one name holds under the
    /// others.
    #[must_use]
    pub fn with_lineages(mut self, datasets: &[(LineageId, String)]) -> Self {
        let mut lineages: BTreeMap<LineageId, Vec<String>> = BTreeMap::new();
        for (lineage, name) in datasets {
            lineages.entry(*lineage).or_default().push(name.clone());
        }
        let several = lineages.into_values().filter(|names| names.len() > 1);
        self.shared =
            several.flat_map(|names| names.clone().into_iter().map(move |name| (name, names.clone()))).collect();
        self
    }

    /// Returns the limits of a dataset; where it shares accounts, the tightest for each unit.
    pub(super) fn limits(&self, name: &str) -> LifetimeLimits {
        let own = |name: &String| self.datasets.get(name).map(|of| of.budget).unwrap_or_default().or(self.budget);
        let others = self.shared.get(name).map(Vec::as_slice).unwrap_or_default();
        others.iter().fold(own(&name.to_owned()), |limits, other| limits.tighten(own(other)))
    }
}

impl LifetimeLimits {
    /// Returns these limits, with unset ones taken from `general`.
    pub(super) const fn or(self, general: Self) -> Self {
        Self {
            record: if self.record.is_some() { self.record } else { general.record },
            speaker: if self.speaker.is_some() { self.speaker } else { general.speaker },
            user: if self.user.is_some() { self.user } else { general.user },
            words: if self.words.is_some() { self.words } else { general.words },
        }
    }

    /// Returns the tighter limit for each unit; if only one of them limits a unit, that limit.
    fn tighten(self, other: Self) -> Self {
        let tighter = |one: Option<LifetimeLimit>, other: Option<LifetimeLimit>| match (one, other) {
            (Some(one), Some(other)) => Some(LifetimeLimit {
                epsilon: if other.epsilon.get() < one.epsilon.get() { other.epsilon } else { one.epsilon },
                delta: if other.delta.get() < one.delta.get() { other.delta } else { one.delta },
                // Two names of one lineage that name different filters: the default, which no ledger has to choose.
                filter: if other.filter == one.filter { one.filter } else { FilterKind::Renyi },
            }),
            (one, other) => one.or(other),
        };
        Self {
            record: tighter(self.record, other.record),
            speaker: tighter(self.speaker, other.speaker),
            user: tighter(self.user, other.user),
            words: tighter(self.words, other.words),
        }
    }
}
