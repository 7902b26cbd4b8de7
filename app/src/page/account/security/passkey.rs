//! The passkeys with which the member signs in.

use leptos::prelude::*;
use time::OffsetDateTime;
use undertone_api::passkey::Passkey;

use crate::component::form::{Field, post};
use crate::component::passkey::{PasskeyCeremony, render_passkey_form};
use crate::component::said::RelativeTime;

/// Renders the section.
pub(super) fn render_section(passkeys: &[Passkey], now: OffsetDateTime) -> AnyView {
    let rows = passkeys.iter().map(|passkey| {
        let used = match passkey.last_used_at {
            Some(at) => view! { ", last used "<RelativeTime at now/> }.into_any(),
            None => ", not used yet".into_any(),
        };
        let remove = post(
            "remove-passkey",
            vec![("key", passkey.id.to_string())],
            view! { <button type="submit" class="quiet">"Remove"</button> },
        );
        view! {
            <li><p><strong>{passkey.label.clone()}</strong>", registered "<RelativeTime at=passkey.created_at now/>{used}</p>{remove}</li>
        }
    });
    let add = render_passkey_form(
        PasskeyCeremony::Register,
        "add-passkey",
        Vec::new(),
        view! {
            <Field name="label" label="Name of the passkey"/>
            <button type="submit">"Register a passkey"</button>
        },
    );
    view! {
        <section class="panel" id="passkeys"><h2>"Passkeys"</h2>
            <p>"A passkey signs you in without a password, in this browser, on your phone or with a security key. It verifies you by PIN, fingerprint or face. After you register one, a password alone does not sign you in."</p>
            <p class="hint">"Register two on different devices, or also set up two-factor with recovery codes. If you lose them, an operator must reset your access."</p>
            <ul class="plain-list">{rows.collect_view()}</ul>
            {add}
        </section>
    }
    .into_any()
}
