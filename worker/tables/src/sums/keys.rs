//! The sums of a choice of keys.

use undertone_api::job::analytics::{BUCKETS, KeyChoice, KeyLayout};

use super::ContributionSum;
use super::condition::{RowCondition, Truth, TruthPool};
use super::norms::{UnitNorms, square};
use crate::chunk::UnitChunk;
use crate::error::TableError;

/// The sum of contributions as [`KeyLayout::contribute_steps`] defines them.
#[derive(Debug, Clone)]
pub struct KeySum {
    choices: Vec<(KeyChoice, Option<RowCondition>)>,
    steps: Vec<i64>,
    norms: UnitNorms,
    truths: TruthPool,
    /// Whether the present unit has a key in each bucket: false between units.
    is_used: Vec<bool>,
    /// The buckets of the present unit.
    buckets: Vec<usize>,
}

impl KeySum {
    /// Returns the empty sum.
    pub fn new(layout: &KeyLayout) -> Self {
        let choices = layout.choices().iter().map(|choice| (choice.clone(), choice.filter().map(RowCondition::new)));
        Self {
            choices: choices.collect(),
            steps: vec![0; layout.length()],
            norms: UnitNorms::default(),
            truths: TruthPool::new(),
            is_used: vec![false; BUCKETS],
            buckets: Vec::new(),
        }
    }
}

impl ContributionSum for KeySum {
    fn add_units(&mut self, chunk: &UnitChunk) -> Result<(), TableError> {
        let Self { choices, steps, norms, truths, is_used, buckets } = self;
        norms.begin(chunk.unit_count());
        for (choice, filter) in choices.iter() {
            let values = filter.as_ref().map(|filter| filter.evaluate(chunk, truths));
            let column = chunk.column(choice.column);
            for (unit, (_, rows)) in chunk.units().enumerate() {
                let mut squares = 0_u64;
                for row in rows {
                    if buckets.len() >= choice.groups() as usize {
                        break;
                    }
                    let is_admitted = values.as_ref().is_none_or(|values| values[row] == Truth::True);
                    if !is_admitted || !column.has_code[row] {
                        continue;
                    }
                    let code = column.codes[row];
                    let Some(bucket) = choice.find_bucket(code).filter(|bucket| !is_used[*bucket]) else { continue };
                    is_used[bucket] = true;
                    buckets.push(bucket);
                    choice.visit_entries(bucket, code, |place, entry| {
                        steps[place] += entry;
                        squares = squares.saturating_add(square(entry));
                    });
                }
                norms.add(unit, squares);
                buckets.drain(..).for_each(|bucket| is_used[bucket] = false);
            }
            truths.extend(values);
        }
        norms.verify()
    }

    fn steps(&self) -> &[i64] {
        &self.steps
    }
}
