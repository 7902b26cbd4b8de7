//! `/me`: the caller.

use undertone_api::member::Member;

use super::extract::{Caller, Json};
use super::problem::Rejection;
use undertone_server_core::service::member;

/// Show the caller and the caller's roles
#[utoipa::path(get, path = "/me", tag = "session", operation_id = "get_me",
    responses((status = 200, body = Member), Rejection))]
pub(super) async fn show(Caller(actor): Caller) -> Result<Json<Member>, Rejection> {
    Ok(Json(member::me(&actor)?))
}
