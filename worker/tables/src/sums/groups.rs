//! The groups of a key as small integers, and the cells that they make.

use undertone_api::job::analytics::KeyGroups;

use crate::chunk::CodeSlice;

/// The cell of a row that counts in none.
pub(super) const NO_CELL: u32 = u32::MAX;
/// The most codes between the first and the last bound of a key whose groups are in a table by code.
const MOST_LISTED: u64 = 1 << 14;

/// Finds the groups of one key.
#[derive(Debug, Clone)]
pub(super) struct KeyLookup {
    /// The position of the column.
    pub(super) column: usize,
    /// The number of groups.
    groups: u32,
    index: GroupIndex,
}

#[derive(Debug, Clone)]
enum GroupIndex {
    /// The group of each code from `first` on.
    Listed { first: i64, groups: Vec<u32> },
    /// A search among bounds or chosen codes.
    Sorted(KeyGroups),
}

impl KeyLookup {
    pub(super) fn new(key: &KeyGroups) -> Self {
        let index = list_groups(key).unwrap_or_else(|| GroupIndex::Sorted(key.clone()));
        Self { column: key.column(), groups: key.len() as u32, index }
    }

    /// Splits the cell of each row by the groups of this key: cell·groups + group. A row without a group has no cell.
    pub(super) fn split_cells(&self, column: CodeSlice<'_>, cells: &mut [u32]) {
        match &self.index {
            GroupIndex::Listed { first, groups } => self.split(column, cells, |code| {
                let place = usize::try_from(code.checked_sub(*first)?).ok()?;
                groups.get(place).copied()
            }),
            GroupIndex::Sorted(key) => {
                self.split(column, cells, |code| key.find_group(code).map(|group| group as u32));
            }
        }
    }

    fn split(&self, column: CodeSlice<'_>, cells: &mut [u32], find: impl Fn(i64) -> Option<u32>) {
        for ((cell, code), has_code) in cells.iter_mut().zip(column.codes).zip(column.has_code) {
            if *cell == NO_CELL {
                continue;
            }
            // The combinations of all groups are at most 10,000.
            let group = if *has_code { find(*code) } else { None };
            *cell = group.map_or(NO_CELL, |group| *cell * self.groups + group);
        }
    }
}

/// Returns the group of each code of a narrow declared key; `None` for others.
fn list_groups(key: &KeyGroups) -> Option<GroupIndex> {
    let KeyGroups::Ranges(bounds) = key else { return None };
    let first = *bounds.bounds.first()?;
    let end = *bounds.bounds.last()?;
    if first.abs_diff(end) > MOST_LISTED {
        return None;
    }
    let groups: Option<Vec<u32>> = (first..end).map(|code| bounds.find_range(code).map(|group| group as u32)).collect();
    Some(GroupIndex::Listed { first, groups: groups? })
}

#[cfg(test)]
mod tests {
    use undertone_api::job::analytics::{CodeBounds, KeyGroups};

    use super::{GroupIndex, KeyLookup, MOST_LISTED, NO_CELL};
    use crate::chunk::CodeSlice;

    #[test]
    fn groups_in_a_table_and_by_search_are_those_of_the_key() {
        let width = MOST_LISTED.cast_signed();
        let bounds = |bounds: &[i64]| KeyGroups::Ranges(CodeBounds { column: 0, bounds: bounds.to_vec() });
        let keys = [
            (bounds(&[-3, 0, 1, 50]), true),
            (bounds(&[7, 7 + width]), true),
            (bounds(&[7, 9, 8 + width]), false),
            (KeyGroups::Selected { column: 0, most: 5, codes: vec![-3, 8, 49] }, false),
        ];
        let mut codes: Vec<i64> = (-5..60).collect();
        codes.extend([i64::MIN, i64::MAX, 6 + width, 7 + width, 8 + width]);
        for (key, is_listed) in keys {
            let lookup = KeyLookup::new(&key);
            assert_eq!(matches!(lookup.index, GroupIndex::Listed { .. }), is_listed, "{key:?}");
            let mut cells = vec![2; codes.len()];
            let has_code = vec![true; codes.len()];
            lookup.split_cells(CodeSlice { codes: &codes, has_code: &has_code }, &mut cells);
            for (code, cell) in codes.iter().zip(&cells) {
                let expected = key.find_group(*code).map_or(NO_CELL, |group| (2 * key.len() + group) as u32);
                assert_eq!(*cell, expected, "{key:?} {code}");
            }
            lookup.split_cells(CodeSlice { codes: &codes, has_code: &vec![false; codes.len()] }, &mut cells);
            assert!(cells.iter().all(|cell| *cell == NO_CELL), "rows without a code have no group");
        }
    }
}
