//! Forms that a passkey fills in. Without the script, or in a browser without passkeys, they display a notice and send
//! nothing.

use leptos::prelude::*;

use crate::asset;

/// A use of a passkey in the browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PasskeyCeremony {
    /// Sign-in by a passkey alone.
    SignIn,
    /// Second step of a sign-in after the right password.
    SecondStep,
    /// Registration of a new passkey.
    Register,
    /// Repeated proof of identity.
    Prove,
}

impl PasskeyCeremony {
    /// Every ceremony.
    const ALL: [Self; 4] = [Self::SignIn, Self::SecondStep, Self::Register, Self::Prove];

    /// Returns the word in forms.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::SignIn => "sign_in",
            Self::SecondStep => "second_step",
            Self::Register => "register",
            Self::Prove => "prove",
        }
    }

    /// Returns the ceremony of a word.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|ceremony| ceremony.word() == word)
    }
}

/// Renders a form that posts a passkey's response in a ceremony to the server function `call`.
pub(crate) fn render_passkey_form(
    ceremony: PasskeyCeremony,
    call: &str,
    hidden: Vec<(&'static str, String)>,
    inner: impl IntoAny,
) -> AnyView {
    view! {
        <form class="stack" method="post" action=format!("/ui/{call}") data-passkey=ceremony.word()>
            {hidden.into_iter().map(|(name, value)| view! { <input type="hidden" name=name value=value/> }).collect_view()}
            <input type="hidden" name="passkey"/>
            {inner.into_any()}
            <p class="notice bad" role="alert" hidden></p>
        </form>
    }
    .into_any()
}

/// Returns the passkey script: once on a page with such forms.
pub(crate) fn render_passkey_script() -> AnyView {
    view! { <script type="module" src=asset::PASSKEY></script> }.into_any()
}
