//! Lists in pages, by cursor.

use serde::{Deserialize, Serialize};

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Page<T> {
    /// The items, newest first unless the operation states another order.
    pub items: Vec<T>,
    /// The cursor of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The requested part of a list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
pub struct PageQuery {
    /// The `next` of the previous page.
    pub cursor: Option<String>,
    /// Items on a page: 1 to 200, 50 by default.
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
