//! The keys with which the member approves jobs: passkeys made here, and key files made at a terminal.

use leptos::prelude::*;
use time::OffsetDateTime;
use undertone_api::approval_key::OwnApprovalKey;
use undertone_api::member::Member;

use crate::component::copy::CopyField;
use crate::component::form::{Field, post};
use crate::component::said::RelativeTime;

/// Renders the section.
pub(super) fn render_section(member: &Member, keys: &[OwnApprovalKey], now: OffsetDateTime) -> AnyView {
    let rows = keys.iter().map(|key| {
        let remove = post(
            "remove-approval-key",
            vec![("key", key.id.to_string())],
            view! { <button type="submit" class="quiet">"Remove"</button> },
        );
        let command = format!("undertone-worker approval-keys add {}", key.line);
        view! {
            <li>
                <p><strong>{key.label.clone()}</strong>{format!(", {}, listed ", key.key.label())}<RelativeTime at=key.created_at now/></p>
                <p>"Fingerprint: "<code class="digest">{key.fingerprint.to_string()}</code></p>
                <CopyField text=command label="Command for the site".to_owned()/>
                {remove}
            </li>
        }
    });
    let account = serde_json::json!({ "user": hex::encode(member.id.0.as_bytes()), "name": member.name });
    view! {
        <section class="panel" id="approval-keys"><h2>"Approval keys"</h2>
            <p>"A site that verifies stewards’ signatures runs a job only if you have signed it with one of these keys."</p>
            <p class="hint">"A key is valid after your site’s operator has pinned it: send them the command, and read the fingerprint to them by telephone or in person. This server cannot pin a key."</p>
            <ul class="plain-list">{rows.collect_view()}</ul>
            <form class="stack" method="post" action="/ui/add-approval-key" data-make-passkey=account.to_string()>
                <input type="hidden" name="credential"/>
                <input type="hidden" name="algorithm"/>
                <input type="hidden" name="public_key"/>
                <input type="hidden" name="origin"/>
                <Field name="label" label="Name of the passkey" help="A passkey signs in this browser or on your phone, and verifies you by PIN, fingerprint or face."/>
                <button type="submit">"Create a passkey"</button>
                <p class="notice bad" role="alert" hidden></p>
            </form>
            <details class="more"><summary>"Add a key file"</summary>
                {post("add-approval-key", Vec::new(), view! {
                    <p class="hint">"Create it on your own machine: "<code>"undertone-worker steward-key make steward.key"</code>"."</p>
                    <Field name="label" label="Name of the key"/>
                    <Field name="line" label="Public key line (uak1.…)" most=4096/>
                    <button type="submit">"Add the key"</button>
                })}
            </details>
        </section>
    }
    .into_any()
}
