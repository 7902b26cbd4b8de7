//! Server functions of the notification centre: targets of plain forms.

#![expect(missing_docs, reason = "the macro makes a struct of each function's arguments and gives its fields no words")]

use leptos::prelude::*;
use undertone_api::id::NotificationId;
use undertone_api::notification::NotificationKind;

use crate::fault::Fault;
#[cfg(feature = "ssr")]
use crate::reply;
#[cfg(feature = "ssr")]
use crate::request::DashboardRequest;
#[cfg(feature = "ssr")]
use undertone_server_core::service;

/// Marks one notification as read.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "read-notification")]
pub async fn read_notification(notification: NotificationId) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer = async { service::notification::read(request.ctx(), request.actor()?, notification).await }.await;
    reply::land(answer, |_| reply::came_from(), None)
}

/// Marks all notifications as read.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "read-all-notifications")]
pub async fn read_all_notifications() -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer = async { service::notification::read_all(request.ctx(), request.actor()?).await }.await;
    reply::land(answer, |_| reply::came_from(), Some("All are marked as read.".to_owned()))
}

/// Sets the member's notifications: the ticked kinds.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "set-notifications")]
pub async fn set_notifications(#[server(default)] on: Vec<NotificationKind>) -> Result<(), Fault> {
    let off = NotificationKind::ALL.iter().copied().filter(|kind| !on.contains(kind)).collect();
    let switches = undertone_api::notification::NotificationSwitches { off };
    let request = DashboardRequest::from_context()?;
    let answer = async { service::notification::set_switches(request.ctx(), request.actor()?, &switches).await }.await;
    let notice = "You are told of these from now on.".to_owned();
    reply::land(answer, |_| crate::path::NOTIFICATIONS.to_owned(), Some(notice))
}
