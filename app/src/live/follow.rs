//! A page that keeps itself up to date independent of its content. After a change event it fetches itself and replaces
//! the parts that are marked `data-live`, if they differ.
//!
//! Such a part must be plain HTML: islands in it would not be hydrated again, and input in it would be lost.

#![expect(missing_docs, reason = "the island macro makes a struct without words beside the documented function")]

use std::rc::Rc;
use std::time::Duration;

use leptos::prelude::*;
use leptos::wasm_bindgen::JsCast as _;
use leptos::web_sys::{Document, Element, HtmlElement};
use web_sys::{DomParser, SupportedType};

use super::listen;
use crate::fetch;

/// The delay of a page after a change event: the page is fetched as a whole.
const REST: Duration = Duration::from_secs(2);

/// Displays whether the page is live, and keeps it so. `events` is the address of the change events.
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
                0 => "Live updates",
                _ => "Connection lost. Updates resume when the server answers.",
            }}
        </p>
    }
}

async fn look() -> Option<bool> {
    refresh().await.map(|()| false)
}

/// Fetches the displayed page, and replaces its parts; `None` without an answer.
pub(super) async fn refresh() -> Option<()> {
    let text = fetch::get(&window().location().href().ok()?).await?;
    let fetched = DomParser::new().ok()?.parse_from_string(&text, SupportedType::TextHtml).ok()?;
    let parts = document().query_selector_all("[data-live]").ok()?;
    for index in 0..parts.length() {
        if let Some(part) = parts.item(index).and_then(|part| part.dyn_into::<Element>().ok()) {
            take_over(&part, &fetched);
        }
    }
    Some(())
}

/// Replaces a part with that of the fetched page; keeps the focus on a link in it.
fn take_over(part: &Element, fetched: &Document) -> Option<()> {
    let element = fetched.query_selector(&format!("[data-live={}]", part.get_attribute("data-live")?)).ok()??;
    let html = element.inner_html();
    if html == part.inner_html() {
        return None;
    }
    let focus = document().active_element().filter(|focus| part.contains(Some(focus)));
    let link = focus.and_then(|focus| focus.get_attribute("href"));
    part.set_inner_html(&html);
    let again = part.query_selector(&format!("[href=\"{}\"]", link?)).ok()??;
    again.dyn_into::<HtmlElement>().ok()?.focus().ok()
}
