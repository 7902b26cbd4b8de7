//! A copyable text: a link, a token, a command. It can be selected; with wasm there is a button.

#![expect(missing_docs, reason = "the island macro makes a struct without words beside the documented function")]

use leptos::prelude::*;

/// Renders a text in a field with a button that copies it.
#[island]
pub fn CopyField(
    /// The text to copy.
    text: String,
    /// Its name for screen readers.
    label: String,
) -> impl IntoView {
    let live = RwSignal::new(false);
    let copied = RwSignal::new(false);
    // Browsers allow the clipboard only in secure contexts; elsewhere the text can be selected.
    Effect::new(move |_| live.set(window().is_secure_context()));
    let copy = {
        let text = text.clone();
        move |_| {
            // The promise fails if the user forbids it; then the text can still be selected.
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
