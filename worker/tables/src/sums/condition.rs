//! Filters on the rows of a chunk: a truth value for each row, column by column.

use undertone_api::job::analytics::{CodeFilter, CodeRange};

use crate::chunk::UnitChunk;

/// A truth value of SQL. `AND` is the minimum, `OR` the maximum (Kleene 1952, section 64).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Truth {
    False,
    Unknown,
    True,
}

/// Buffers of truth values that are used again.
pub(super) type TruthPool = Vec<Vec<Truth>>;

/// A filter whose lists of ranges are ascending and disjoint.
#[derive(Debug, Clone)]
pub(super) struct RowCondition(CodeFilter);

impl RowCondition {
    pub(super) fn new(filter: &CodeFilter) -> Self {
        Self(merge_lists(filter))
    }

    /// Returns the truth value for each row, in a buffer of the pool.
    pub(super) fn evaluate(&self, chunk: &UnitChunk, pool: &mut TruthPool) -> Vec<Truth> {
        evaluate(&self.0, chunk, pool)
    }
}

impl Truth {
    const fn new(has_code: bool, value: bool) -> Self {
        match (has_code, value) {
            (false, _) => Self::Unknown,
            (true, false) => Self::False,
            (true, true) => Self::True,
        }
    }

    const fn negate(self) -> Self {
        match self {
            Self::False => Self::True,
            Self::Unknown => Self::Unknown,
            Self::True => Self::False,
        }
    }
}

fn evaluate(filter: &CodeFilter, chunk: &UnitChunk, pool: &mut TruthPool) -> Vec<Truth> {
    match filter {
        CodeFilter::Within { column, ranges } => {
            let column = chunk.column(*column);
            let rows = column.codes.iter().zip(column.has_code);
            let mut truths = take_buffer(pool);
            match ranges[..] {
                [CodeRange { first, last }] => {
                    let is_inside = |code| (first..=last).contains(code);
                    truths.extend(rows.map(|(code, has_code)| Truth::new(*has_code, is_inside(code))));
                }
                _ => truths.extend(rows.map(|(code, has_code)| Truth::new(*has_code, is_listed(ranges, *code)))),
            }
            truths
        }
        CodeFilter::IsNull { column } => {
            let mut truths = take_buffer(pool);
            truths.extend(chunk.column(*column).has_code.iter().map(|has_code| Truth::new(true, !has_code)));
            truths
        }
        CodeFilter::And(parts) => combine(parts, chunk, pool, Truth::True, Truth::min),
        CodeFilter::Or(parts) => combine(parts, chunk, pool, Truth::False, Truth::max),
        CodeFilter::Not(part) => {
            let mut truths = evaluate(part, chunk, pool);
            for truth in &mut truths {
                *truth = truth.negate();
            }
            truths
        }
    }
}

fn combine(
    parts: &[CodeFilter],
    chunk: &UnitChunk,
    pool: &mut TruthPool,
    neutral: Truth,
    join: impl Fn(Truth, Truth) -> Truth,
) -> Vec<Truth> {
    let mut truths = take_buffer(pool);
    truths.resize(chunk.rows(), neutral);
    for part in parts {
        let others = evaluate(part, chunk, pool);
        truths.iter_mut().zip(&others).for_each(|(own, other)| *own = join(*own, *other));
        pool.push(others);
    }
    truths
}

/// Returns an empty buffer.
fn take_buffer(pool: &mut TruthPool) -> Vec<Truth> {
    let mut buffer = pool.pop().unwrap_or_default();
    buffer.clear();
    buffer
}

/// Returns whether a code is in one of several ranges, ascending and disjoint.
fn is_listed(ranges: &[CodeRange], code: i64) -> bool {
    let place = ranges.partition_point(|range| range.first <= code);
    place.checked_sub(1).is_some_and(|place| code <= ranges[place].last)
}

/// Returns the filter with each list of ranges ascending and disjoint.
fn merge_lists(filter: &CodeFilter) -> CodeFilter {
    match filter {
        CodeFilter::Within { column, ranges } => CodeFilter::Within { column: *column, ranges: merge_ranges(ranges) },
        CodeFilter::IsNull { column } => CodeFilter::IsNull { column: *column },
        CodeFilter::And(parts) => CodeFilter::And(parts.iter().map(merge_lists).collect()),
        CodeFilter::Or(parts) => CodeFilter::Or(parts.iter().map(merge_lists).collect()),
        CodeFilter::Not(part) => CodeFilter::Not(Box::new(merge_lists(part))),
    }
}

/// Returns the same codes as ascending and disjoint ranges, without empty ones.
fn merge_ranges(ranges: &[CodeRange]) -> Vec<CodeRange> {
    let mut sorted: Vec<CodeRange> = ranges.iter().filter(|range| range.first <= range.last).copied().collect();
    sorted.sort_unstable_by_key(|range| range.first);
    let mut merged: Vec<CodeRange> = Vec::with_capacity(sorted.len());
    for range in sorted {
        match merged.last_mut() {
            Some(before) if range.first <= before.last => before.last = before.last.max(range.last),
            _ => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use undertone_api::job::analytics::{CodeFilter, CodeRange};

    use super::{RowCondition, Truth};
    use crate::chunk::UnitChunk;

    #[test]
    fn truths_are_those_of_single_rows() {
        let within = |column, ranges: &[(i64, i64)]| {
            let ranges = ranges.iter().map(|(first, last)| CodeRange { first: *first, last: *last }).collect();
            CodeFilter::Within { column, ranges }
        };
        let lists = [
            within(0, &[]),
            within(0, &[(1, 0)]),
            within(0, &[(2, 4)]),
            within(0, &[(5, 5), (1, 1), (4, 9), (3, 3), (1, 2), (7, 8), (i64::MAX, i64::MIN)]),
            within(1, &[(i64::MIN, -1), (1, i64::MAX)]),
            CodeFilter::IsNull { column: 0 },
        ];
        let negations = lists.iter().map(|part| CodeFilter::Not(Box::new(part.clone())));
        let mut filters: Vec<CodeFilter> = lists.iter().cloned().chain(negations).collect();
        let pairs = filters.iter().flat_map(|one| filters.iter().map(move |other| vec![one.clone(), other.clone()]));
        let joined: Vec<CodeFilter> =
            pairs.flat_map(|pair| [CodeFilter::And(pair.clone()), CodeFilter::Or(pair)]).collect();
        filters.extend(joined);
        filters.extend([CodeFilter::And(Vec::new()), CodeFilter::Or(Vec::new())]);
        let codes = [None, Some(i64::MIN), Some(-1), Some(0), Some(1), Some(3), Some(5), Some(9), Some(i64::MAX)];
        let rows: Vec<[Option<i64>; 2]> =
            codes.iter().flat_map(|first| codes.iter().map(move |second| [*first, *second])).collect();
        let mut chunk = UnitChunk::new(2);
        for row in &rows {
            chunk.push_unit([&row[..]]);
        }
        let mut pool = Vec::new();
        for filter in &filters {
            let truths = RowCondition::new(filter).evaluate(&chunk, &mut pool);
            for (row, truth) in rows.iter().zip(&truths) {
                let expected = match filter.evaluate(row) {
                    None => Truth::Unknown,
                    Some(false) => Truth::False,
                    Some(true) => Truth::True,
                };
                assert_eq!(*truth, expected, "{filter:?} {row:?}");
            }
            assert_eq!(truths.len(), rows.len());
            pool.push(truths);
        }
    }
}
