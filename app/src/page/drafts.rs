//! The drafts of a consortium that the viewer may see, and the form to begin one: a section of the jobs page.

use leptos::prelude::*;
use time::OffsetDateTime;
use undertone_api::id::ConsortiumId;
use undertone_api::job::{JobDraft, Spec};

use crate::component::form::post;
use crate::component::said::RelativeTime;
use crate::path;

/// Renders the section.
pub(super) fn render_section(consortium: ConsortiumId, drafts: &[JobDraft], now: OffsetDateTime) -> AnyView {
    let row = |draft: &JobDraft| {
        let title = Some(draft.content.title.clone()).filter(|title| !title.is_empty());
        let (class, ready) = if draft.violations.is_empty() {
            ("state done", "✓ ready to propose")
        } else {
            ("state waiting", "◌ incomplete")
        };
        view! {
            <tr>
                <th scope="row"><a href=path::draft(consortium, draft.id)>{title.unwrap_or_else(|| "Untitled draft".to_owned())}</a></th>
                <td data-label="kind">{draft.content.kind.clone()}</td>
                <td data-label="standing"><span class=class>{ready}</span></td>
                <td data-label="created by">{draft.author.clone()}</td>
                <td data-label="changed"><RelativeTime at=draft.updated_at now/></td>
            </tr>
        }
    };
    let table = (!drafts.is_empty()).then(|| {
        view! {
            <table class="cards">
                <thead><tr><th scope="col">"Draft"</th><th scope="col">"Kind"</th><th scope="col">"State"</th><th scope="col">"Created by"</th><th scope="col">"Changed"</th></tr></thead>
                <tbody>{drafts.iter().map(row).collect_view()}</tbody>
            </table>
        }
    });
    let kinds = Spec::KINDS.iter().map(|kind| view! { <option value=*kind>{*kind}</option> }).collect_view();
    let begin = post(
        "begin-draft",
        vec![("consortium", consortium.to_string())],
        view! {
            <p class="hint">"Only your organization's researchers see a draft. Write it as JSON here, save one from the planner, or clone a job."</p>
            <div class="field-row">
                <label class="field"><span>"Title"</span><input type="text" name="title" maxlength="100" autocomplete="off"/></label>
                <label class="field"><span>"Kind"</span><select name="kind">{kinds}</select></label>
            </div>
            <button type="submit">"Create a draft"</button>
        },
    );
    view! {
        <section class="panel"><h2>"Drafts"</h2>{table}
            <details class="more"><summary>"Create a draft"</summary>{begin}</details>
        </section>
    }
    .into_any()
}
