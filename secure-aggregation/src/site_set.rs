//! Sets of sites of a roster, by their index.

use serde::{Deserialize, Serialize};

/// The index of a site in its roster, from 0.
pub type SiteIndex = u8;

/// A set of sites: bit i is the site with index i.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SiteSet(u64);

impl SiteSet {
    /// Returns the set with these bits.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns the bits.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// Returns whether the site is in the set. An index of 64 or more is in no set.
    pub const fn contains(self, site: SiteIndex) -> bool {
        site < 64 && self.0 >> site & 1 == 1
    }

    /// Adds a site with an index below 64; returns whether it is new.
    pub fn insert(&mut self, site: SiteIndex) -> bool {
        let is_new = site < 64 && !self.contains(site);
        if is_new {
            self.0 |= 1 << site;
        }
        is_new
    }

    /// Returns the number of sites.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Returns whether the set has no site.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns whether each site of this set is in the other.
    pub const fn is_subset(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// Returns the sites of this set that are not in the other.
    #[must_use]
    pub const fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns the sites in ascending order.
    pub fn iter(self) -> impl Iterator<Item = SiteIndex> {
        (0..64).filter(move |site| self.contains(*site))
    }
}

impl FromIterator<SiteIndex> for SiteSet {
    fn from_iter<I: IntoIterator<Item = SiteIndex>>(sites: I) -> Self {
        let mut set = Self::default();
        for site in sites {
            set.insert(site);
        }
        set
    }
}

impl std::fmt::Display for SiteSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sites: Vec<String> = self.iter().map(|site| site.to_string()).collect();
        write!(f, "{{{}}}", sites.join(", "))
    }
}
