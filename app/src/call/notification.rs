//! Server functions of the notification centre: targets of plain forms.

#![expect(missing_docs, reason = "the macro makes a struct of each function's arguments and gives its fields no words")]

use leptos::prelude::*;
use undertone_api::id::NotificationId;
use undertone_api::notification::NotificationKind;

use super::Fault;
#[cfg(feature = "ssr")]
use super::native;

/// Marks one notification as read.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "read-notification")]
pub async fn read_notification(notification: NotificationId) -> Result<(), Fault> {
    let answer = crate::backend::backend()?.read_notification(notification).await;
    native::land(answer, |_| native::came_from(), None)
}

/// Marks all notifications as read.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "read-all-notifications")]
pub async fn read_all_notifications() -> Result<(), Fault> {
    let answer = crate::backend::backend()?.read_all_notifications().await;
    native::land(answer, |_| native::came_from(), Some("All are marked as read.".to_owned()))
}

/// Sets the member's notifications: the ticked kinds.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "set-notifications")]
pub async fn set_notifications(#[server(default)] on: Vec<NotificationKind>) -> Result<(), Fault> {
    let off = NotificationKind::ALL.iter().copied().filter(|kind| !on.contains(kind)).collect();
    let switches = undertone_api::notification::NotificationSwitches { off };
    let answer = crate::backend::backend()?.set_notification_switches(switches).await;
    let notice = "You are told of these from now on.".to_owned();
    native::land(answer, |_| crate::path::NOTIFICATIONS.to_owned(), Some(notice))
}
