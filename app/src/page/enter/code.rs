//! The second step of a sign-in: a code.

use leptos::prelude::*;

use crate::component::form::{Field, post};
use crate::path;
use crate::screen::{Place, Sheet, screen};

/// The page.
pub(crate) fn second_factor() -> AnyView {
    screen(Place::Outside, async |desk| {
        let to = super::wanted(&desk.query);
        let form = post(
            "second-factor",
            vec![("to", to)],
            view! {
                <Field name="code" label="Code" autocomplete="one-time-code" least=6 most=24 help="Six digits from your authenticator, or a recovery code."/>
                <button type="submit" class="primary">"Sign in"</button>
            },
        );
        Ok(Sheet::new(
            "Enter your code",
            view! {
                <p class="lead">"Your password is right. This account also asks for a code."</p>
                {form}
                <p class="hint">"You have five minutes. Without the authenticator and the recovery codes, ask the server's operator. "<a href=path::SIGN_IN>"Begin again"</a></p>
            },
        ))
    })
}
