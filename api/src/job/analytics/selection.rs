//! The choice of keys: which keys of a column of undeclared keys become groups.
//!
//! The sites release one more vector before that of the aggregates. For each selected key of each query it has
//! [`BUCKETS`] buckets of B coordinates, one for each binary digit of a code. A unit adds, for each of at most g keys of its
//! admitted rows, +1 for each digit 1 and −1 for each digit 0 of the key's code, in the bucket to which a public hash maps
//! the code; of its keys in one bucket the first alone counts. From the noisy average, the signs of a bucket read as a code.
//! It is a chosen key if
//!
//! * the mean magnitude of the bucket, an estimate of the number of units with the key, is at least
//!   [`LEAST_DEVIATIONS`] deviations of the noise;
//! * the code is that of a key, and the hash maps it to this bucket. A key with a wrong sign passes this with
//!   probability 1/[`BUCKETS`].
//!
//! All this is post-processing. A code that no unit has costs nothing but an empty group; two frequent keys in one bucket can
//! hide each other. The construction is that of count sketches with the digits of the item (Bassily, Nissim, Stemmer and
//! Thakurta 2017, section 3), with noise on the sums of each site in place of local noise.
//!
//! # Sensitivity
//!
//! One unit, emptied, changes the vector by its own contribution. In a choice of keys it fills at most g buckets, each with B
//! entries of magnitude 1: S² = g·B. Each choice has the same share of R², so its integer weight is
//!
//! W = ⌊√(R² / (K·g·B))⌋ for K choices, and Σ W²S² ≤ R²:
//!
//! the vector has the sensitivity R, in steps of 2⁻²⁰: C = 1, as that of the aggregates (`layout.rs`).

use std::collections::BTreeSet;
use std::ops::Range;

use undertone_privacy::special::normal_quantile;

use super::Spec;
use super::filter::CodeFilter;
use super::layout::{LayoutError, MOST_LENGTH, RADIUS};
use super::query::GroupKey;
use super::resolve::SelectedKeys;
use super::resolve_error::ResolveError;
use crate::table::ColumnKind;

/// The buckets of a choice.
pub const BUCKETS: usize = 1 << 12;
/// The most keys that a choice has.
pub const MOST_SELECTED: u32 = 1_000;
/// The deviations of its noise that the mean magnitude of a chosen bucket has at least. That of noise alone is
/// √(2/π) ± 0.6/√B.
const LEAST_DEVIATIONS: f64 = 1.5;
/// The probability with which a key of [`KeyLayout::least_units`] units has the right sign in each digit.
pub const FOUND: f64 = 0.9;

/// The choice of one key of one query.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyChoice {
    /// The position of the query in the spec.
    pub query: usize,
    /// The position of the key in the query.
    pub key: usize,
    /// The position of the column among the columns of the spec.
    pub column: usize,
    /// The declared kind of the column.
    kind: ColumnKind,
    /// The filter of the query.
    filter: Option<CodeFilter>,
    /// g: the most keys of a unit that count.
    groups: u32,
    /// The most keys that are chosen.
    most: usize,
    /// B: the binary digits of a code.
    bits: usize,
    /// W: the factor of the integer sums.
    weight: u64,
    /// The first coordinate.
    offset: usize,
}

/// The positions and weights of all sums in a vector of the choice of keys.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyLayout {
    choices: Vec<KeyChoice>,
    length: usize,
}

impl KeyLayout {
    /// Returns the layout of a spec; without choices if no query selects keys.
    ///
    /// # Errors
    /// [`LayoutError`] for a query that does not fit the columns, and for too many choices.
    pub(super) fn new(spec: &Spec) -> Result<Self, LayoutError> {
        let mut layout = Self { choices: Vec::new(), length: 0 };
        for (index, query) in spec.queries.iter().enumerate() {
            let wrap = |field: String| move |error| LayoutError::Resolve { field, error };
            for (place, key) in query.group_by.iter().enumerate() {
                let GroupKey::Selected { column, most } = key else { continue };
                let (column, kind) = ResolveError::find(&spec.columns, column)
                    .map_err(wrap(format!("queries.{index}.group_by.{place}")))?;
                let filter = query.filter.as_ref().map(|filter| filter.resolve(&spec.columns)).transpose();
                layout.choices.push(KeyChoice {
                    query: index,
                    key: place,
                    column,
                    kind: kind.clone(),
                    filter: filter.map_err(wrap(format!("queries.{index}.filter")))?,
                    groups: query.limits.groups.max(1),
                    most: *most as usize,
                    bits: (u64::BITS - kind.code_range().1.unsigned_abs().leading_zeros()) as usize,
                    weight: 0,
                    offset: layout.length,
                });
                let width = layout.choices.last().map_or(0, |choice| choice.bits * BUCKETS);
                layout.length = layout.length.saturating_add(width);
                if layout.length > MOST_LENGTH {
                    return Err(LayoutError::Choices { field: format!("queries.{index}.group_by.{place}") });
                }
            }
        }
        let count = layout.choices.len() as u128;
        for choice in &mut layout.choices {
            let squared = count * choice.squared_sensitivity();
            choice.weight = (u128::from(RADIUS).pow(2) / squared.max(1)).isqrt() as u64;
        }
        Ok(layout)
    }

    /// Returns the number of coordinates; 0 if no query selects keys.
    pub const fn length(&self) -> usize {
        self.length
    }

    /// Returns the choices, in the order of their coordinates.
    pub fn choices(&self) -> &[KeyChoice] {
        &self.choices
    }

    /// Returns Σ W²S², the squared sensitivity of the vector in steps of the grid: at most R².
    pub fn squared_sensitivity(&self) -> u128 {
        self.choices.iter().map(|choice| u128::from(choice.weight).pow(2) * choice.squared_sensitivity()).sum()
    }

    /// Returns the contribution of one unit in steps of the grid: coordinate and integer, each coordinate once, ascending.
    /// `rows` are the codes of the unit's rows, in the order in which the limits admit them. This is the definition; a site
    /// sums many units at once, in columns, and tests compare its sums with it.
    pub fn contribute_steps<'a>(&self, rows: impl Iterator<Item = &'a [Option<i64>]>) -> Vec<(usize, i64)> {
        let rows: Vec<&[Option<i64>]> = rows.collect();
        let mut entries = Vec::new();
        for choice in &self.choices {
            let mut used = BTreeSet::new();
            for row in &rows {
                if used.len() >= choice.groups as usize {
                    break;
                }
                let is_admitted = choice.filter.as_ref().is_none_or(|filter| filter.evaluate(row) == Some(true));
                let Some(code) = row.get(choice.column).copied().flatten().filter(|_| is_admitted) else { continue };
                let Some(bucket) = choice.find_bucket(code) else { continue };
                if used.insert(bucket) {
                    choice.visit_entries(bucket, code, |place, steps| entries.push((place, steps)));
                }
            }
        }
        entries.sort_unstable();
        entries
    }

    /// Returns the number of units with a key, over all sites, from which on the key is found with a probability of at least
    /// [`FOUND`], unless a more frequent key is in its bucket: of the choice that needs most. 0 without choices.
    pub fn least_units(&self, noise_multiplier: f64, sites: u32) -> f64 {
        let least = self.choices.iter().map(|choice| {
            // Φ(n/σ)^B ≥ 0.9.
            let deviations = normal_quantile(libm::pow(FOUND, 1.0 / choice.bits.max(1) as f64));
            choice.deviation(noise_multiplier, sites) * deviations.max(LEAST_DEVIATIONS)
        });
        least.fold(0.0, f64::max)
    }

    /// Returns the chosen keys of a spec with `queries` queries, from the sums over `sites` sites in multiples of C. The
    /// same sums give the same keys on each machine.
    pub(super) fn read(&self, spec: &Spec, sums: &[f64], sites: u32) -> SelectedKeys {
        let mut selected: SelectedKeys =
            spec.queries.iter().map(|query| vec![Vec::new(); query.group_by.len()]).collect();
        for choice in &self.choices {
            let factor = choice.weight.max(1) as f64 / RADIUS as f64;
            let least = LEAST_DEVIATIONS * choice.deviation(spec.noise_multiplier.get(), sites);
            let mut found: Vec<(f64, i64)> = (0..BUCKETS)
                .filter_map(|bucket| {
                    let own = sums.get(choice.coordinates(bucket))?;
                    let units = own.iter().map(|sum| sum.abs()).sum::<f64>() / own.len() as f64 / factor;
                    let digits = own.iter().rev().fold(0_i64, |code, sum| code << 1 | i64::from(*sum > 0.0));
                    let is_of_bucket = choice.find_bucket(digits) == Some(bucket);
                    (is_of_bucket && units >= least).then_some((units, digits))
                })
                .collect();
            // The most frequent first; equal ones by their codes.
            found.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
            let mut codes: Vec<i64> = found.into_iter().take(choice.most).map(|(_, code)| code).collect();
            codes.sort_unstable();
            if let Some(own) = selected.get_mut(choice.query).and_then(|keys| keys.get_mut(choice.key)) {
                *own = codes;
            }
        }
        selected
    }
}

impl KeyChoice {
    /// Returns S²: see the module's documentation.
    fn squared_sensitivity(&self) -> u128 {
        u128::from(self.groups).min(BUCKETS as u128) * self.bits as u128
    }

    /// Returns the deviation of the noise of each sum over `sites` sites, in units of the table.
    fn deviation(&self, noise_multiplier: f64, sites: u32) -> f64 {
        noise_multiplier * f64::from(sites).sqrt() * RADIUS as f64 / self.weight.max(1) as f64
    }

    /// Returns the filter of the query.
    pub const fn filter(&self) -> Option<&CodeFilter> {
        self.filter.as_ref()
    }

    /// Returns g: the most keys of a unit that count.
    pub const fn groups(&self) -> u32 {
        self.groups
    }

    /// Returns the coordinates of a bucket, the lowest digit first.
    #[inline]
    const fn coordinates(&self, bucket: usize) -> Range<usize> {
        let start = self.offset + bucket * self.bits;
        start..start + self.bits
    }

    /// Returns the bucket of a code; `None` for a code of no key. The hash is public and fixed (the finalizer of SplitMix64,
    /// Steele, Lea and Flood 2014), and differs by choice.
    #[inline]
    pub fn find_bucket(&self, code: i64) -> Option<usize> {
        if !self.kind.is_key(code) {
            return None;
        }
        let mut hash =
            code.cast_unsigned().wrapping_add(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(self.offset as u64 + 1));
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Some(((hash ^ (hash >> 31)) % BUCKETS as u64) as usize)
    }

    /// Calls `visit` with the coordinate and the steps of each entry of a code in its bucket.
    #[inline]
    pub fn visit_entries(&self, bucket: usize, code: i64, mut visit: impl FnMut(usize, i64)) {
        let weight = self.weight.cast_signed();
        for (digit, coordinate) in self.coordinates(bucket).enumerate() {
            visit(coordinate, if code >> digit & 1 == 1 { weight } else { -weight });
        }
    }
}

impl Spec {
    /// Returns whether a query selects keys, so that a vector of the choice precedes that of the aggregates.
    pub fn selects_keys(&self) -> bool {
        self.queries.iter().flat_map(|query| &query.group_by).any(|key| matches!(key, GroupKey::Selected { .. }))
    }

    /// Returns the positions and weights of the sums in a site's vector of the choice of keys.
    ///
    /// # Errors
    /// [`LayoutError`] for a query that does not fit the columns, and for too many choices.
    pub fn key_layout(&self) -> Result<KeyLayout, LayoutError> {
        KeyLayout::new(self)
    }

    /// Returns the keys that the sums over `sites` sites choose, in multiples of C.
    ///
    /// # Errors
    /// [`super::AnalyticsError`] when the vector is not of this spec's layout.
    pub fn select_keys(&self, sums: &[f64], sites: u32) -> Result<SelectedKeys, super::AnalyticsError> {
        let layout = self.key_layout()?;
        if sums.len() != layout.length() {
            return Err(super::AnalyticsError::Length { found: sums.len(), expected: layout.length() });
        }
        Ok(layout.read(self, sums, sites))
    }
}
