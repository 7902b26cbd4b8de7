//! Something to be copied: a link, a token, a command. Selectable as it is; with wasm there is a button.

#![expect(missing_docs, reason = "the island macro makes a struct without words beside the documented function")]

use leptos::prelude::*;

/// A text in a field of its own with a button that copies it.
#[island]
pub fn Copyable(
    /// What is copied.
    text: String,
    /// What it is, for those who hear the field.
    label: String,
) -> impl IntoView {
    let live = RwSignal::new(false);
    let copied = RwSignal::new(false);
    // Browsers give the clipboard only to pages that came safely or from this machine; elsewhere the text can be selected.
    Effect::new(move |_| live.set(window().is_secure_context()));
    let copy = {
        let text = text.clone();
        move |_| {
            // The promise fails where the user forbids it; the text stays selectable then.
            let _ = window().navigator().clipboard().write_text(&text);
            copied.set(true);
        }
    };
    view! {
        <div class="copyable">
            <input class="mono" type="text" readonly aria-label=label prop:value=text.clone() value=text/>
            <button type="button" class="quiet" hidden=move || !live.get() on:click=copy>
                {move || if copied.get() { "Copied" } else { "Copy" }}
            </button>
        </div>
    }
}
