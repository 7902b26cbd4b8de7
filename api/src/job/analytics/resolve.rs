//! Names of a query resolved against the columns of the spec: groups as ranges of integer codes or as chosen codes, bins as
//! ranges.

use super::query::{DatePeriod, GroupKey};
use super::resolve_error::ResolveError;
use crate::table::{CalendarDate, ColumnKind, TableColumn};

/// The most edges of bins or of groups.
pub const MOST_EDGES: usize = 1_001;

/// Neighbouring ranges of the codes of one column: range i is from bound i to below bound i + 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeBounds {
    /// The position of the column among the columns of the spec.
    pub column: usize,
    /// The bounds, strictly ascending: at least two.
    pub bounds: Vec<i64>,
}

impl CodeBounds {
    /// Returns the number of ranges.
    #[inline]
    pub const fn len(&self) -> usize {
        self.bounds.len().saturating_sub(1)
    }

    /// Returns whether there is no range; never so in a resolved query.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the range of a code; `None` outside all.
    #[inline]
    pub fn find_range(&self, code: i64) -> Option<usize> {
        let place = self.bounds.partition_point(|bound| *bound <= code);
        place.checked_sub(1).filter(|place| *place < self.len())
    }

    /// Returns the name of a range, for display.
    pub fn label(&self, range: usize, kind: &ColumnKind) -> String {
        let [first, end] = [self.bounds[range], self.bounds[range + 1]];
        match kind {
            ColumnKind::Boolean | ColumnKind::Category { .. } => kind.display_code(first),
            _ if end == first.saturating_add(1) => kind.display_code(first),
            _ => format!("{} to {}", kind.display_code(first), kind.display_code(end.saturating_sub(1))),
        }
    }

    /// Returns one range for each value of a column of categories or booleans.
    pub(super) fn from_values(
        column: &str,
        columns: &[TableColumn],
        use_of: &'static str,
    ) -> Result<Self, ResolveError> {
        let (place, kind) = ResolveError::find(columns, column)?;
        if !matches!(kind, ColumnKind::Boolean | ColumnKind::Category { .. }) {
            let needed = "categories or booleans; give edges for numbers, and let the job choose keys";
            return Err(ResolveError::Kind { column: column.to_owned(), kind: kind.label(), use_of, needed });
        }
        let (first, last) = kind.code_range();
        Ok(Self { column: place, bounds: (first..=last + 1).collect() })
    }

    /// Returns the ranges between edges. The last includes its upper edge.
    pub(super) fn from_edges(
        column: &str,
        edges: &[f64],
        columns: &[TableColumn],
        use_of: &'static str,
    ) -> Result<Self, ResolveError> {
        let (place, kind) = ResolveError::find(columns, column)?;
        if !matches!(kind, ColumnKind::Integer { .. } | ColumnKind::Real { .. }) {
            let needed = "integers or reals for its edges";
            return Err(ResolveError::Kind { column: column.to_owned(), kind: kind.label(), use_of, needed });
        }
        let is_valid = (2..=MOST_EDGES).contains(&edges.len()) && edges.iter().all(|edge| edge.abs() < 1e15);
        if !is_valid {
            return Err(ResolveError::Edges(column.to_owned()));
        }
        // The least code whose value is not below the edge; the tolerance covers edges like 0.3 on a grid of 0.1.
        let mut bounds: Vec<i64> =
            edges.iter().map(|edge| (libm::floor(edge / kind.step() - 1e-6) as i64).saturating_add(1)).collect();
        if let Some(last) = bounds.last_mut()
            && let Some(edge) = edges.last()
        {
            *last = (libm::floor(edge / kind.step() + 1e-6) as i64).saturating_add(1);
        }
        if bounds.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err(ResolveError::Edges(column.to_owned()));
        }
        Ok(Self { column: place, bounds })
    }

    fn from_dates(
        column: &str,
        every: DatePeriod,
        ends: [CalendarDate; 2],
        columns: &[TableColumn],
    ) -> Result<Self, ResolveError> {
        let (place, kind) = ResolveError::find(columns, column)?;
        if !matches!(kind, ColumnKind::Date { .. }) {
            let (use_of, needed) = ("a group of dates", "dates");
            return Err(ResolveError::Kind { column: column.to_owned(), kind: kind.label(), use_of, needed });
        }
        let mut bounds = vec![every.begin(ends[0])];
        while bounds.len() <= MOST_EDGES {
            let start = bounds.last().copied().unwrap_or_default();
            let Ok(date) = CalendarDate::from_days(start) else { break };
            if date > ends[1] {
                break;
            }
            bounds.push(every.next(date));
        }
        if !(2..=MOST_EDGES).contains(&bounds.len()) {
            return Err(ResolveError::Dates(column.to_owned()));
        }
        Ok(Self { column: place, bounds })
    }
}

/// The chosen codes: for each query, for each of its keys, ascending; empty for a declared key.
pub type SelectedKeys = Vec<Vec<Vec<i64>>>;

/// The groups of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyGroups {
    /// Declared groups.
    Ranges(CodeBounds),
    /// Chosen keys.
    Selected {
        /// The position of the column among the columns of the spec.
        column: usize,
        /// The most groups.
        most: usize,
        /// The chosen codes, ascending, at most `most`; empty before the choice.
        codes: Vec<i64>,
    },
}

impl KeyGroups {
    /// Returns the position of the column among the columns of the spec.
    pub const fn column(&self) -> usize {
        match self {
            Self::Ranges(bounds) => bounds.column,
            Self::Selected { column, .. } => *column,
        }
    }

    /// Returns the number of groups for which a vector has place.
    pub const fn len(&self) -> usize {
        match self {
            Self::Ranges(bounds) => bounds.len(),
            Self::Selected { most, .. } => *most,
        }
    }

    /// Returns whether there is no group; not so in a resolved query.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the group of a code; `None` without one.
    #[inline]
    pub fn find_group(&self, code: i64) -> Option<usize> {
        match self {
            Self::Ranges(bounds) => bounds.find_range(code),
            Self::Selected { codes, most, .. } => codes.binary_search(&code).ok().filter(|place| place < most),
        }
    }

    /// Returns the name of a group, for display; `None` for a place without a chosen key.
    pub fn label(&self, group: usize, kind: &ColumnKind) -> Option<String> {
        match self {
            Self::Ranges(bounds) => Some(bounds.label(group, kind)),
            Self::Selected { codes, .. } => codes.get(group).map(|code| kind.display_code(*code)),
        }
    }
}

impl GroupKey {
    /// Returns the column.
    pub fn column(&self) -> &str {
        match self {
            Self::Values { column }
            | Self::Ranges { column, .. }
            | Self::Selected { column, .. }
            | Self::Dates { column, .. } => column,
        }
    }

    /// Returns the groups, of a chosen key without codes.
    ///
    /// # Errors
    /// [`ResolveError`] for a column of another kind, and for edges or dates out of order.
    pub fn resolve(&self, columns: &[TableColumn]) -> Result<KeyGroups, ResolveError> {
        Ok(match self {
            Self::Values { column } => {
                KeyGroups::Ranges(CodeBounds::from_values(column, columns, "a group of values")?)
            }
            Self::Ranges { column, edges } => {
                KeyGroups::Ranges(CodeBounds::from_edges(column, edges, columns, "a group of ranges")?)
            }
            Self::Selected { column, most } => {
                let (place, kind) = ResolveError::find(columns, column)?;
                if !matches!(kind, ColumnKind::Key { .. }) {
                    let (use_of, needed) = ("a group of chosen keys", "keys");
                    return Err(ResolveError::Kind { column: column.clone(), kind: kind.label(), use_of, needed });
                }
                KeyGroups::Selected { column: place, most: *most as usize, codes: Vec::new() }
            }
            Self::Dates { column, every, first, last } => {
                KeyGroups::Ranges(CodeBounds::from_dates(column, *every, [*first, *last], columns)?)
            }
        })
    }
}

impl DatePeriod {
    /// Returns the first day, in days since 1970-01-01, of the period with `date`.
    fn begin(self, date: CalendarDate) -> i64 {
        let (year, month, day) = date.to_parts();
        let back = |month: u8| {
            let text = format!("{year:04}-{month:02}-01");
            CalendarDate::parse(&text).map_or(date.days(), CalendarDate::days)
        };
        match self {
            Self::Day => date.days(),
            // 1970-01-01 was a Thursday.
            Self::Week => date.days() - (date.days() + 3).rem_euclid(7),
            Self::Month => date.days() - i64::from(day) + 1,
            Self::Quarter => back((month - 1) / 3 * 3 + 1),
            Self::Year => back(1),
        }
    }

    /// Returns the first day of the period after the one that begins at `start`.
    fn next(self, start: CalendarDate) -> i64 {
        // The longest period of each kind, less than two periods: the start of the period with that day is the next.
        let longest = match self {
            Self::Day => return start.days() + 1,
            Self::Week => return start.days() + 7,
            Self::Month => 31,
            Self::Quarter => 92,
            Self::Year => 366,
        };
        CalendarDate::from_days(start.days() + longest).map_or(start.days() + longest, |date| self.begin(date))
    }
}
