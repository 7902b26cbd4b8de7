//! `/me/notifications`: the caller's notifications and their settings.

use axum::extract::State;
use undertone_api::id::NotificationId;
use undertone_api::notification::{Notification, NotificationQuery, NotificationSwitches, UnreadCount};
use undertone_api::page::Page;

use super::extract::{Caller, Json, Path, Query};
use super::problem::Rejection;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::notification;

/// List the caller's notifications, newest first
#[utoipa::path(get, path = "/me/notifications", tag = "notifications", operation_id = "list_notifications", params(NotificationQuery),
    responses((status = 200, body = Page<Notification>), Rejection))]
pub(super) async fn list(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Query(query): Query<NotificationQuery>,
) -> Result<Json<Page<Notification>>, Rejection> {
    Ok(Json(notification::list(&ctx, &actor, &query).await?))
}

/// Count the caller's unread notifications
#[utoipa::path(get, path = "/me/notifications/unread", tag = "notifications", operation_id = "count_unread_notifications",
    responses((status = 200, body = UnreadCount), Rejection))]
pub(super) async fn unread(State(ctx): State<Ctx>, Caller(actor): Caller) -> Result<Json<UnreadCount>, Rejection> {
    Ok(Json(UnreadCount { unread: notification::unread(&ctx, &actor).await? }))
}

/// Mark a notification as read
#[utoipa::path(post, path = "/me/notifications/{id}/read", tag = "notifications", operation_id = "read_notification", params(("id" = NotificationId, Path)),
    responses((status = 200, body = Notification), Rejection))]
pub(super) async fn read(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<NotificationId>,
) -> Result<Json<Notification>, Rejection> {
    Ok(Json(notification::read(&ctx, &actor, id).await?))
}

/// Mark all notifications as read
#[utoipa::path(post, path = "/me/notifications/read", tag = "notifications", operation_id = "read_all_notifications",
    responses((status = 200, body = UnreadCount), Rejection))]
pub(super) async fn read_all(State(ctx): State<Ctx>, Caller(actor): Caller) -> Result<Json<UnreadCount>, Rejection> {
    notification::read_all(&ctx, &actor).await?;
    Ok(Json(UnreadCount { unread: notification::unread(&ctx, &actor).await? }))
}

/// Show which notifications the caller receives
#[utoipa::path(get, path = "/me/notifications/switches", tag = "notifications", operation_id = "get_notification_switches",
    responses((status = 200, body = NotificationSwitches), Rejection))]
pub(super) async fn switches(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
) -> Result<Json<NotificationSwitches>, Rejection> {
    Ok(Json(notification::switches(&ctx, &actor).await?))
}

/// Set which notifications the caller receives
#[utoipa::path(put, path = "/me/notifications/switches", tag = "notifications", operation_id = "set_notification_switches", request_body = NotificationSwitches,
    responses((status = 200, body = NotificationSwitches), Rejection))]
pub(super) async fn set_switches(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Json(switches): Json<NotificationSwitches>,
) -> Result<Json<NotificationSwitches>, Rejection> {
    Ok(Json(notification::set_switches(&ctx, &actor, &switches).await?))
}
