//! Plain forms: they post to a server function and work without wasm.

use leptos::prelude::*;

/// Renders a form that posts to the server function `call`, with hidden fields.
pub(crate) fn post(call: &str, hidden: Vec<(&'static str, String)>, inner: impl IntoAny) -> AnyView {
    view! {
        <form class="stack" method="post" action=format!("/ui/{call}")>
            {hidden.into_iter().map(|(name, value)| view! { <input type="hidden" name=name value=value/> }).collect_view()}
            {inner.into_any()}
        </form>
    }
    .into_any()
}

/// Renders a labelled text field.
#[component]
pub(crate) fn Field(
    /// Name in the form.
    name: &'static str,
    /// Its label.
    label: &'static str,
    /// Its initial value.
    #[prop(optional, into)]
    value: String,
    /// Its kind: `text`, `email`, `password`.
    #[prop(default = "text")]
    kind: &'static str,
    /// The browser's autocomplete hint.
    #[prop(default = "off")]
    autocomplete: &'static str,
    /// The fewest characters.
    #[prop(default = 1)]
    least: u32,
    /// The most characters.
    #[prop(default = 100)]
    most: u32,
    /// A sentence below.
    #[prop(optional)]
    help: &'static str,
) -> impl IntoView {
    let described = (!help.is_empty()).then(|| format!("{name}-help"));
    view! {
        <label class="field"><span>{label}</span>
            <input type=kind name=name value=value autocomplete=autocomplete minlength=least.to_string() maxlength=most.to_string()
                required=least != 0 aria-describedby=described.clone()/>
            {described.map(|id| view! { <small id=id>{help}</small> })}
        </label>
    }
}
