//! A page that keeps itself up to date without knowing what is on it: when the server says that something has changed, it
//! fetches itself and takes over the parts that are marked `data-live`, if they are others.
//!
//! Such a part is plain HTML: islands in it would not wake again, and what was typed into it would be lost.

#![expect(missing_docs, reason = "the island macro makes a struct without words beside the documented function")]

use std::rc::Rc;
use std::time::Duration;

use leptos::prelude::*;
use leptos::wasm_bindgen::JsCast as _;
use leptos::web_sys::{Document, Element, HtmlElement};
use web_sys::{DomParser, SupportedType};

use super::listen;
use crate::call::ask;

/// How long a page waits after it was told that something has changed: it is fetched whole.
const REST: Duration = Duration::from_secs(2);

/// Says whether the page is alive, and keeps it so. `events` is where the server says that something has changed.
#[island]
pub fn Follow(
    /// The address of the events.
    events: String,
) -> impl IntoView {
    let failed = RwSignal::new(0_u32);
    Effect::new(move |_| {
        let look = Rc::new(|| -> listen::Looking { Box::pin(look()) });
        listen::follow(events.clone(), REST, failed, look);
    });
    view! {
        <p class="connection" class:lost=move || failed.get() != 0 role="status">
            {move || match failed.get() {
                0 => "Live: what changes appears by itself.",
                _ => "The connection is lost. The page goes on by itself when the server answers.",
            }}
        </p>
    }
}

/// Fetches the page that is shown, and takes its parts over.
async fn look() -> Option<bool> {
    let text = ask::get(&window().location().href().ok()?).await?;
    let fetched = DomParser::new().ok()?.parse_from_string(&text, SupportedType::TextHtml).ok()?;
    let parts = document().query_selector_all("[data-live]").ok()?;
    for index in 0..parts.length() {
        if let Some(part) = parts.item(index).and_then(|part| part.dyn_into::<Element>().ok()) {
            take_over(&part, &fetched);
        }
    }
    Some(false)
}

/// Takes a part over from the page as it is now; whoever was at a link in it still is.
fn take_over(part: &Element, fetched: &Document) -> Option<()> {
    let found = fetched.query_selector(&format!("[data-live={}]", part.get_attribute("data-live")?)).ok()??;
    let html = found.inner_html();
    if html == part.inner_html() {
        return None;
    }
    let focus = document().active_element().filter(|focus| part.contains(Some(focus)));
    let link = focus.and_then(|focus| focus.get_attribute("href"));
    part.set_inner_html(&html);
    let again = part.query_selector(&format!("[href=\"{}\"]", link?)).ok()??;
    again.dyn_into::<HtmlElement>().ok()?.focus().ok()
}
