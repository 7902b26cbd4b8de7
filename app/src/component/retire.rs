//! The forms for retirement and restoration, each with its reason, and the line that shows a current retirement.

use leptos::prelude::*;
use time::OffsetDateTime;
use undertone_api::retirement::{LONGEST_REASON, Retirement};
use undertone_api::worker::Worker;

use super::form::{Field, post};
use super::said::RelativeTime;

/// Returns the form that retires `name`, by the server function `call`, with its consequences.
pub(crate) fn render_retire_form(
    call: &str,
    hidden: Vec<(&'static str, String)>,
    name: &str,
    consequences: &'static [&'static str],
) -> AnyView {
    let form = post(
        call,
        hidden,
        view! {
            <ul class="consequences">{consequences.iter().map(|line| view! { <li>{*line}</li> }).collect_view()}</ul>
            <Field name="reason" label="Reason" most=LONGEST_REASON as u32 help="Shown in the audit log and in the notification."/>
            <button type="submit" class="danger">"Retire"<span class="visually-hidden">{format!(" {name}")}</span></button>
        },
    );
    view! { <details class="more"><summary>"Retire"<span class="visually-hidden">{format!(" {name}")}</span></summary>{form}</details> }
        .into_any()
}

/// Returns the form that writes off the worker `name`, with its consequences.
pub(crate) fn render_write_off_form(hidden: Vec<(&'static str, String)>, name: &str) -> AnyView {
    let form = post(
        "write-off-worker",
        hidden,
        view! {
            <ul class="consequences">
                <li>"Use this for a site that will not return. Its parts in jobs end, and it gets no new work."</li>
                <li>"Its reservations stay spent."</li>
                <li>"A site that returns with its key and sends its receipts again undoes this."</li>
            </ul>
            <Field name="reason" label="Reason" most=LONGEST_REASON as u32 help="Shown in the audit log and in the notification."/>
            <button type="submit" class="danger">"Write off"<span class="visually-hidden">{format!(" {name}")}</span></button>
        },
    );
    view! { <details class="more"><summary>"Write off"<span class="visually-hidden">{format!(" {name}")}</span></summary>{form}</details> }
        .into_any()
}

/// Returns the lines about a worker's write-off and about its receipts since the server was restored.
pub(crate) fn render_reconciliation(worker: &Worker, now: OffsetDateTime) -> AnyView {
    let written_off = worker.write_off.as_ref().map(|write_off| {
        view! {
            <span class="state over">"– written off "<RelativeTime at=write_off.at now/></span>
            <p class="hint">{write_off.reason.clone()}</p>
        }
    });
    let reconciled = worker.reconciliation.as_ref().map(|state| {
        let text = match state.finished_at {
            Some(_) => format!("{} receipts recovered", state.receipts),
            None => {
                format!("{} receipts recovered; its datasets join no new job until the others arrive", state.receipts)
            }
        };
        view! { <p class="hint">"Server restored "<RelativeTime at=state.restored_at now/>": "{text}</p> }
    });
    view! { {written_off}{reconciled} }.into_any()
}

/// Returns the form that restores `name`, by the server function `call`.
pub(crate) fn render_restore_form(call: &str, hidden: Vec<(&'static str, String)>, name: &str) -> AnyView {
    let form = post(
        call,
        hidden,
        view! {
            <Field name="reason" label="Reason" most=LONGEST_REASON as u32 help="Shown in the audit log and in the notification."/>
            <button type="submit">"Restore"<span class="visually-hidden">{format!(" {name}")}</span></button>
        },
    );
    view! { <details class="more"><summary>"Restore"<span class="visually-hidden">{format!(" {name}")}</span></summary>{form}</details> }
        .into_any()
}

/// Returns the state of a current retirement: its time and the reason.
pub(crate) fn render_retirement(retirement: &Retirement, now: OffsetDateTime) -> AnyView {
    view! {
        <span class="state over">"– retired "<RelativeTime at=retirement.at now/></span>
        <p class="hint">{retirement.reason.clone()}</p>
    }
    .into_any()
}
