//! Requests of an island to the server: plain requests, plain texts. (The clients that the server function macro
//! generates add an encoder and a decoder for every type to the bundle.)

use leptos::prelude::window;
use leptos::wasm_bindgen::{JsCast as _, JsValue};
use leptos::web_sys::{FormData, HtmlFormElement, RequestInit, Response, UrlSearchParams};

/// The response to a request.
pub(crate) struct ServerReply {
    /// Whether the request succeeded.
    pub(crate) done: bool,
    /// The response's text.
    pub(crate) text: String,
}

/// Fetches an address of this site; `None` if the server is unreachable or refuses.
pub(crate) async fn get(address: &str) -> Option<String> {
    let reply = read(window().fetch_with_str(address).await.ok()?).await?;
    reply.done.then_some(reply.text)
}

/// Returns whether every number of a form can be parsed and is in its field's range. A field is empty for a moment while
/// a visitor types over it; the server would refuse such a form.
#[cfg(any(feature = "ssr", feature = "planner"))]
pub(crate) fn has_valid_numbers(form: &HtmlFormElement) -> bool {
    form.query_selector("input[type=number]:invalid").is_ok_and(|first| first.is_none())
}

/// Posts like [`post_pressed`], without a button.
#[cfg(any(feature = "ssr", feature = "planner"))]
pub(crate) async fn post(address: &str, form: &HtmlFormElement) -> Option<ServerReply> {
    post_pressed(address, form, None).await
}

/// Posts a form's fields to a server function as the browser itself would, with the name and value of the pressed
/// button; `None` if the server is unreachable. The text is the function's value, decoded from JSON.
pub(crate) async fn post_pressed(
    address: &str,
    form: &HtmlFormElement,
    pressed: Option<(&str, &str)>,
) -> Option<ServerReply> {
    let fields = FormData::new_with_form(form).ok()?;
    let fields = UrlSearchParams::new_with_str_sequence_sequence(fields.as_ref()).ok()?;
    if let Some((name, value)) = pressed {
        fields.append(name, value);
    }
    let request = RequestInit::new();
    request.set_method("POST");
    request.set_body(&fields);
    let mut reply = read(window().fetch_with_str_and_init(address, &request).await.ok()?).await?;
    reply.text = serde_json::from_str(&reply.text).ok()?;
    Some(reply)
}

async fn read(response: JsValue) -> Option<ServerReply> {
    let response: Response = response.dyn_into().ok()?;
    let text = response.text().ok()?.await.ok()?.as_string()?;
    Some(ServerReply { done: response.ok(), text })
}
