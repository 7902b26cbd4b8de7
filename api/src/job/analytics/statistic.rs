//! The statistics of a cell, each a vector of integer sums over rows.

mod plan;

use super::resolve::CodeBounds;
use crate::table::ColumnKind;

pub(super) use plan::{PlannedStatistic, plan_statistics};

/// The greatest value of a sum's term before the weights are chosen.
const FINEST_TERM: u64 = 1 << 20;
/// The least greatest value of a term: a coarser one would round each value to less than 5 bits.
const COARSEST_TERM: u64 = 16;
/// The range of the levels of a tree.
pub const LEVELS: (u32, u32) = (2, 12);

/// A statistic of the rows of a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockStatistic {
    /// The number of rows.
    Rows,
    /// The number of units.
    Units,
    /// The sum of (code − centre)/2^shift, rounded to nearest.
    Sum {
        /// The code that adds nothing.
        centre: i64,
        /// The binary digits that are rounded away.
        shift: u32,
        /// X: the greatest magnitude of a term.
        most: u64,
        /// The greatest magnitude of code − centre.
        span: u64,
    },
    /// The sum of (code − centre)²/2^shift, rounded to nearest.
    Squares {
        /// The code that adds nothing.
        centre: i64,
        /// The binary digits that are rounded away.
        shift: u32,
        /// The greatest term.
        most: u64,
        /// The greatest magnitude of code − centre.
        span: u64,
    },
    /// The number of rows in each bin; rows beyond the bins add nothing.
    Bins(CodeBounds),
    /// The number of rows in each node of a binary tree: the levels 1 to `levels`, level ℓ with 2^ℓ nodes.
    Tree {
        /// The first code of the range.
        least: i64,
        /// The codes of a leaf.
        leaf: u64,
        /// L: the levels below the root.
        levels: u32,
    },
    /// The rows by time and event: for each of K intervals the number of events, then for each the number of censored
    /// times, then the number of times beyond the last interval. Its columns are the time and the event.
    LifeTable(CodeBounds),
    /// For each column the sum of X·(code − centre)/span, rounded to nearest.
    Sums {
        /// The columns.
        columns: Vec<CentredColumn>,
        /// X: the greatest magnitude of a term.
        most: u64,
    },
    /// For each pair of columns, the second not before the first, the sum of X times the product of their
    /// (code − centre)/span, rounded to nearest.
    Products {
        /// The columns.
        columns: Vec<CentredColumn>,
        /// X: the greatest magnitude of a term.
        most: u64,
    },
}

/// The codes of a column, relative to the middle of its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CentredColumn {
    /// The code in the middle.
    pub centre: i64,
    /// The greatest distance from it: 1 to 2⁵³.
    pub span: u64,
}

impl CentredColumn {
    pub(super) fn new(kind: &ColumnKind) -> Self {
        let (least, most) = kind.code_range();
        let centre = least + (most - least) / 2;
        Self { centre, span: most.abs_diff(centre).max(least.abs_diff(centre)).max(1) }
    }

    /// Returns code − centre, within ±span.
    #[inline]
    fn distance(self, code: i64) -> i128 {
        let span = i128::from(self.span);
        (i128::from(code) - i128::from(self.centre)).clamp(-span, span)
    }
}

impl BlockStatistic {
    /// Returns the coordinates of a cell.
    pub const fn width(&self) -> usize {
        match self {
            Self::Rows | Self::Units | Self::Sum { .. } | Self::Squares { .. } => 1,
            Self::Bins(bins) => bins.len(),
            Self::Tree { levels, .. } => (2 << *levels) - 2,
            Self::LifeTable(bounds) => 2 * bounds.len() + 1,
            Self::Sums { columns, .. } => columns.len(),
            Self::Products { columns, .. } => columns.len() * (columns.len() + 1) / 2,
        }
    }

    /// Returns whether a unit adds at most 1 to a cell, whatever the number of its rows.
    pub const fn counts_units(&self) -> bool {
        matches!(self, Self::Units)
    }

    /// Returns r², the greatest squared norm that a row adds.
    pub fn squared_row_norm(&self) -> u128 {
        match self {
            Self::Rows | Self::Units | Self::Bins(_) | Self::LifeTable(_) => 1,
            Self::Sum { most, .. } | Self::Squares { most, .. } => u128::from(*most).pow(2),
            Self::Tree { levels, .. } => u128::from(*levels),
            Self::Sums { most, .. } | Self::Products { most, .. } => self.width() as u128 * u128::from(*most).pow(2),
        }
    }

    /// Returns the statistic with one binary digit less; `None` if it cannot be coarser.
    pub(super) fn coarsen(&self) -> Option<Self> {
        let next = match self {
            Self::Sum { centre, shift, span, .. } => Self::sum(*centre, *span, shift + 1),
            Self::Squares { centre, shift, span, .. } => Self::squares(*centre, *span, shift + 1),
            Self::Sums { columns, most } => Self::Sums { columns: columns.clone(), most: most / 2 },
            Self::Products { columns, most } => Self::Products { columns: columns.clone(), most: most / 2 },
            _ => return None,
        };
        let (Self::Sum { most, .. }
        | Self::Squares { most, .. }
        | Self::Sums { most, .. }
        | Self::Products { most, .. }) = &next
        else {
            return None;
        };
        (*most >= COARSEST_TERM).then_some(next)
    }

    const fn sums(columns: Vec<CentredColumn>) -> Self {
        Self::Sums { columns, most: FINEST_TERM }
    }

    const fn products(columns: Vec<CentredColumn>) -> Self {
        Self::Products { columns, most: FINEST_TERM }
    }

    fn sum(centre: i64, span: u64, shift: u32) -> Self {
        let most = shift_nearest(u128::from(span), shift).max(1);
        Self::Sum { centre, shift, most, span }
    }

    fn squares(centre: i64, span: u64, shift: u32) -> Self {
        let most = shift_nearest(u128::from(span).pow(2), shift).max(1);
        Self::Squares { centre, shift, most, span }
    }

    /// Calls `visit` with the place within the cell and the integer of each entry of a row. `code` returns the code of
    /// one of the columns by its place. Codes outside the declared range count as its nearest end, so that no row adds
    /// more than the sensitivity admits.
    ///
    /// The site calls it for each row, compiled into its optimized loop.
    #[inline]
    pub fn visit_entries(&self, code: impl Fn(usize) -> i64, is_first: bool, mut visit: impl FnMut(usize, i64)) {
        match self {
            Self::Rows => visit(0, 1),
            Self::Units if is_first => visit(0, 1),
            Self::Units => {}
            Self::Sum { centre, shift, most, .. } => {
                let code = code(0);
                let distance = code.abs_diff(*centre);
                let term = shift_nearest(u128::from(distance), *shift).min(*most).cast_signed();
                visit(0, if code < *centre { -term } else { term });
            }
            Self::Squares { centre, shift, most, .. } => {
                let square = u128::from(code(0).abs_diff(*centre)).pow(2);
                visit(0, shift_nearest(square, *shift).min(*most).cast_signed());
            }
            Self::Bins(bins) => {
                if let Some(bin) = bins.find_range(code(0)) {
                    visit(bin, 1);
                }
            }
            Self::Tree { least, leaf, levels } => {
                let code = code(0);
                let last = (1_u64 << levels) - 1;
                let own = if code < *least { 0 } else { (code.abs_diff(*least) / leaf).min(last) };
                for level in 1..=*levels {
                    let node = own >> (levels - level);
                    visit((1 << level) - 2 + node as usize, 1);
                }
            }
            Self::LifeTable(bounds) => {
                let (time, intervals) = (code(0), bounds.len());
                match bounds.find_range(time) {
                    Some(interval) if code(1) > 0 => visit(interval, 1),
                    Some(interval) => visit(intervals + interval, 1),
                    None if bounds.bounds.last().is_some_and(|last| time >= *last) => visit(2 * intervals, 1),
                    None => {}
                }
            }
            Self::Sums { columns, most } => {
                for (place, column) in columns.iter().enumerate() {
                    visit(place, scale_nearest(column.distance(code(place)), *most, column.span.into()));
                }
            }
            Self::Products { columns, most } => {
                let mut pair = 0;
                for (first, one) in columns.iter().enumerate() {
                    let distance = one.distance(code(first));
                    for (second, other) in columns.iter().enumerate().skip(first) {
                        let span = u128::from(one.span) * u128::from(other.span);
                        visit(pair, scale_nearest(distance * other.distance(code(second)), *most, span));
                        pair += 1;
                    }
                }
            }
        }
    }
}

/// Returns most·value/span rounded to nearest, halves away from zero, for |value| ≤ span ≤ 2¹⁰⁶ and most ≤ 2²⁰: within
/// ±most.
#[inline]
fn scale_nearest(value: i128, most: u64, span: u128) -> i64 {
    let scaled = value.unsigned_abs() * u128::from(most) + span / 2;
    // A division of 64 bits is several times as fast as one of 128, and suffices for usual ranges.
    let magnitude = match (u64::try_from(scaled), u64::try_from(span)) {
        (Ok(scaled), Ok(span)) => scaled / span,
        _ => u64::try_from(scaled / span).unwrap_or(most),
    };
    let magnitude = magnitude.min(most).cast_signed();
    if value < 0 { -magnitude } else { magnitude }
}

/// Returns value/2^shift rounded to nearest, halves up; at most 2⁶³ − 1.
#[inline]
fn shift_nearest(value: u128, shift: u32) -> u64 {
    let half = (1_u128 << shift) >> 1;
    u64::try_from(value.saturating_add(half) >> shift).unwrap_or(u64::MAX).min(i64::MAX as u64)
}

/// Returns the least shift at which the greatest term is at most 2²⁰.
fn least_shift(greatest: u128) -> u32 {
    let mut shift = 0;
    while shift_nearest(greatest, shift) > FINEST_TERM {
        shift += 1;
    }
    shift
}

#[cfg(test)]
mod tests {
    use super::scale_nearest;

    #[test]
    fn narrow_and_wide_divisions_give_the_same_terms() {
        // From spans of a few codes to the widest product of two columns, 2¹⁰⁶.
        for shift in 0..=106_u32 {
            let span = (1_u128 << shift) + u128::from(shift % 3);
            for most in [1, 16, 1_000_003, 1 << 20] {
                for part in [0, 1, span / 3, span / 2, span.div_ceil(2), span] {
                    let expected = ((part * u128::from(most) + span / 2) / span) as i64;
                    assert_eq!(scale_nearest(part as i128, most, span), expected, "{part} of {span}, {most}");
                    assert_eq!(scale_nearest(-(part as i128), most, span), -expected, "{part} of {span}, {most}");
                }
            }
        }
    }
}
