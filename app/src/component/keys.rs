//! Keyboard shortcuts: `?` lists the keys, `g` and a letter open a page, and a key that an element declares
//! (`aria-keyshortcuts`) presses it. Everything is also reachable with Tab.

#![expect(missing_docs, reason = "the island macro makes a struct without words beside the documented function")]

use leptos::ev::KeyboardEvent;
use leptos::prelude::*;
use leptos::wasm_bindgen::JsCast as _;
use leptos::web_sys::HtmlElement;

/// Renders the list of keys with their actions. `places` are (letter, name, address).
#[island]
pub fn Keys(
    /// The destinations of `g` and a letter.
    places: Vec<(String, String, String)>,
    /// Keys of this page alone, with their actions.
    own: Vec<(String, String)>,
) -> impl IntoView {
    let open = RwSignal::new(false);
    let going = StoredValue::new(false);
    let destinations = StoredValue::new(places.clone());
    let press = move |event: KeyboardEvent| {
        if event.ctrl_key() || event.meta_key() || event.alt_key() || event.repeat() {
            return;
        }
        let key = event.key();
        if let Some(field) = find_focused_field(&event) {
            if key == "Escape" {
                // Leaving a field fails only if it no longer exists.
                let _ = field.blur();
            }
            return;
        }
        let was_going = going.get_value();
        going.set_value(false);
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
            key if press_shortcut(key) => event.prevent_default(),
            key => going.set_value(key == "g"),
        }
    };
    Effect::new(move |_| {
        let handle = window_event_listener(leptos::ev::keydown, press);
        on_cleanup(move || handle.remove());
    });
    view! {
        <div class="keys" role="dialog" aria-modal="false" aria-label="Keyboard shortcuts" hidden=move || !open.get()>
            <h2>"Keyboard shortcuts"</h2>
            <dl>
                {own.into_iter().map(|(key, what)| view! {
                    <div><dt><kbd>{key}</kbd></dt><dd>{what}</dd></div>
                }).collect_view()}
                {places.into_iter().map(|(letter, name, _)| view! {
                    <div><dt><kbd>"g"</kbd>" "<kbd>{letter}</kbd></dt><dd>{name}</dd></div>
                }).collect_view()}
                <div><dt><kbd>"←"</kbd>" "<kbd>"→"</kbd></dt><dd>"read values of the focused chart"</dd></div>
                <div><dt><kbd>"?"</kbd></dt><dd>"show or hide this list"</dd></div>
            </dl>
            <button type="button" class="quiet" on:click=move |_| open.set(false)>"Close"</button>
        </div>
    }
}

/// Returns the focused form field, to which the key belongs.
fn find_focused_field(event: &KeyboardEvent) -> Option<HtmlElement> {
    let element = event.target()?.dyn_into::<HtmlElement>().ok()?;
    matches!(element.tag_name().as_str(), "INPUT" | "TEXTAREA" | "SELECT").then_some(element)
}

/// Presses the element with the key, or focuses its field; returns whether a visible element has it.
fn press_shortcut(key: &str) -> bool {
    let mut characters = key.chars();
    let (Some(one), None) = (characters.next(), characters.next()) else { return false };
    // Escape the key for CSS.
    let having = format!("[aria-keyshortcuts=\"\\{:x} \"]", u32::from(one.to_ascii_lowercase()));
    let Ok(Some(found)) = document().query_selector(&having) else { return false };
    let Ok(found) = found.dyn_into::<HtmlElement>() else { return false };
    if found.offset_parent().is_none() {
        return false;
    }
    if found.tag_name() == "INPUT" {
        return found.focus().is_ok();
    }
    found.click();
    true
}
