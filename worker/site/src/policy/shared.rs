//! Datasets of one lineage share their accounts, and so their limits: what is promised under one name is kept under the others.

use std::collections::BTreeMap;
use std::path::Path;

use undertone_api::id::LineageId;

use super::edit::TEMPLATE;
use super::{Limit, Limits, Policy, PolicyError};

impl Policy {
    /// As [`Policy::load`]; where there is no file yet, the policy that a new site begins with.
    ///
    /// # Errors
    /// As [`Policy::load`].
    pub fn load_or_template(path: &Path) -> Result<Self, PolicyError> {
        if path.exists() { Self::load(path) } else { Self::parse(TEMPLATE, path) }
    }

    /// Holds datasets of one lineage to the tightest limits among them: what is promised under one name is kept under the others.
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

    /// The limits of a dataset: of one that shares its accounts, the tightest for each unit.
    pub(super) fn limits(&self, name: &str) -> Limits {
        let own = |name: &String| self.datasets.get(name).map(|of| of.budget).unwrap_or_default().or(self.budget);
        let others = self.shared.get(name).map(Vec::as_slice).unwrap_or_default();
        others.iter().fold(own(&name.to_owned()), |limits, other| limits.tighten(own(other)))
    }
}

impl Limits {
    /// These, where they say something, else `general`.
    pub(super) const fn or(self, general: Self) -> Self {
        Self {
            record: if self.record.is_some() { self.record } else { general.record },
            speaker: if self.speaker.is_some() { self.speaker } else { general.speaker },
            user: if self.user.is_some() { self.user } else { general.user },
            words: if self.words.is_some() { self.words } else { general.words },
        }
    }

    /// The tighter of both for each unit; a unit that only one of them limits has that limit.
    fn tighten(self, other: Self) -> Self {
        let tighter = |one: Option<Limit>, other: Option<Limit>| match (one, other) {
            (Some(one), Some(other)) => Some(Limit {
                epsilon: if other.epsilon.get() < one.epsilon.get() { other.epsilon } else { one.epsilon },
                delta: if other.delta.get() < one.delta.get() { other.delta } else { one.delta },
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
