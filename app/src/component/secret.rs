//! Content that is displayed once: a secret for an authenticator, and recovery codes.

use leptos::prelude::*;

use super::copy::CopyField;
use super::form::{Field, post};
use super::qr::render_qr;

/// Renders a secret for an authenticator, with the form for its first code.
pub(crate) fn render_secret(secret: &str, uri: String) -> AnyView {
    let fours: Vec<_> = secret.as_bytes().chunks(4).map(|four| String::from_utf8_lossy(four).into_owned()).collect();
    view! {
        <div class="notice good" role="status">
            <p class="notice-title">"Scan this code with your authenticator"</p>
            {render_qr(&uri, "QR code of the secret below, for an authenticator")}
            <p>"Or enter the secret: "<code class="secret">{fours.join(" ")}</code></p>
            <details class="more"><summary>"Show as a URL"</summary><CopyField text=uri label="URL".to_owned()/></details>
            <p>"The secret is shown only once. Two-factor authentication is on after you enter the first code below."</p>
        </div>
    }
    .into_any()
}

/// Renders the form for the first code of a secret.
pub(crate) fn render_confirmation() -> AnyView {
    post(
        "confirm-factor",
        Vec::new(),
        view! {
            <Field name="code" label="Code" autocomplete="one-time-code" least=6 most=7 help="The current six digits of the authenticator."/>
            <button type="submit" class="primary">"Turn two-factor on"</button>
        },
    )
}

/// Renders recovery codes.
pub(crate) fn render_recovery_codes(codes: Vec<String>) -> AnyView {
    view! {
        <div class="notice good" role="status">
            <p class="notice-title">"Two-factor is on. Keep these recovery codes"</p>
            <p>"Each code signs you in once without the authenticator. The codes are shown only once: print them or store them with your passwords."</p>
            <ul class="recovery-codes">
                {codes.into_iter().map(|code| view! { <li><code>{code}</code></li> }).collect_view()}
            </ul>
        </div>
    }
    .into_any()
}
