//! Lists in pages, by cursor.

use serde::{Deserialize, Serialize};

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Page<T> {
    /// The items, newest first unless the list says otherwise.
    pub items: Vec<T>,
    /// Where the next page starts; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// What part of a list is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
pub struct PageQuery {
    /// The `next` of the page before.
    pub cursor: Option<String>,
    /// Items on a page: 1 to 200, 50 unless told.
    pub limit: Option<u32>,
}

impl PageQuery {
    /// The most items on one page.
    pub const MAX: u32 = 200;

    /// Returns the effective page size.
    pub fn size(&self) -> u32 {
        self.limit.unwrap_or(50).clamp(1, Self::MAX)
    }
}
