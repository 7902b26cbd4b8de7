//! Lists of datasets with filters.

use undertone_api::dataset::{Dataset, DatasetContent, Visibility};
use undertone_api::id::{ConsortiumId, OrganizationId};

use super::list;
use crate::auth::Actor;
use crate::ctx::Ctx;
use crate::error::Error;

/// A filter of datasets. Every given condition must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DatasetFilter {
    /// The owner.
    pub organization: Option<OrganizationId>,
    /// The visibility.
    pub visibility: Option<Visibility>,
    /// The kind of content.
    pub content: Option<DatasetContent>,
    /// A text in the name, case-insensitive.
    pub text: Option<String>,
}

/// Returns the datasets of a consortium that match the filter, by organization and name.
///
/// # Errors
/// 404 when the caller may not know the consortium.
pub async fn search(
    ctx: &Ctx,
    actor: &Actor,
    consortium: ConsortiumId,
    wanted: &DatasetFilter,
) -> Result<Vec<Dataset>, Error> {
    let text = wanted.text.as_ref().map(|text| text.to_lowercase());
    let fits = |dataset: &Dataset| {
        wanted.organization.is_none_or(|id| dataset.organization == id)
            && wanted.visibility.is_none_or(|visibility| dataset.visibility == visibility)
            && wanted.content.is_none_or(|content| dataset.content == content)
            && text.as_ref().is_none_or(|text| dataset.name.to_lowercase().contains(text))
    };
    Ok(list(ctx, actor, consortium).await?.into_iter().filter(fits).collect())
}
