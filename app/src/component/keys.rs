//! The keyboard: `?` lists the keys, `g` and a letter go to a page. Everything is reachable with Tab without it.

#![expect(missing_docs, reason = "the island macro makes a struct without words beside the documented function")]

use leptos::ev::KeyboardEvent;
use leptos::prelude::*;

/// The list of keys and what they do. `places` are (letter, name, address).
#[island]
pub fn Keys(
    /// Where `g` and a letter lead.
    places: Vec<(String, String, String)>,
) -> impl IntoView {
    let open = RwSignal::new(false);
    let going = StoredValue::new(false);
    let destinations = StoredValue::new(places.clone());
    let press = move |event: KeyboardEvent| {
        if event.ctrl_key() || event.meta_key() || event.alt_key() || typing(&event) {
            return;
        }
        let key = event.key();
        let was_going = going.get_value();
        going.set_value(key == "g");
        match key.as_str() {
            "?" => open.update(|open| *open = !*open),
            "Escape" => open.set(false),
            key if was_going => {
                let places = destinations.get_value();
                if let Some((_, _, address)) = places.iter().find(|(letter, ..)| letter == key) {
                    // Leaving fails only while the browser is already leaving.
                    let _ = window().location().assign(address);
                }
            }
            _ => {}
        }
    };
    Effect::new(move |_| {
        let handle = window_event_listener(leptos::ev::keydown, press);
        on_cleanup(move || handle.remove());
    });
    view! {
        <div class="keys" role="dialog" aria-modal="false" aria-label="Keys" hidden=move || !open.get()>
            <h2>"Keys"</h2>
            <dl>
                {places.into_iter().map(|(letter, name, _)| view! {
                    <div><dt><kbd>"g"</kbd>" "<kbd>{letter}</kbd></dt><dd>{name}</dd></div>
                }).collect_view()}
                <div><dt><kbd>"←"</kbd>" "<kbd>"→"</kbd></dt><dd>"read a chart, when it has the focus"</dd></div>
                <div><dt><kbd>"?"</kbd></dt><dd>"open and close this list"</dd></div>
            </dl>
            <button type="button" class="quiet" on:click=move |_| open.set(false)>"Close"</button>
        </div>
    }
}

/// Whether the key belongs to a field that is being filled in.
fn typing(event: &KeyboardEvent) -> bool {
    use leptos::wasm_bindgen::JsCast;
    event
        .target()
        .and_then(|target| target.dyn_into::<leptos::web_sys::Element>().ok())
        .is_some_and(|element| matches!(element.tag_name().as_str(), "INPUT" | "TEXTAREA" | "SELECT"))
}
