//! The second step of a sign-in: a code, or a passkey.

use leptos::prelude::*;
use undertone_api::account::SecondFactors;
use undertone_server_core::error::Error;
use undertone_server_core::service;

use crate::component::form::{Field, post};
use crate::component::passkey::{PasskeyCeremony, render_passkey_form, render_passkey_script};
use crate::page_context::{PageContent, PagePlace};
use crate::path;
use crate::screen::render_page;

/// Renders the page.
pub(crate) fn second_factor() -> AnyView {
    render_page(PagePlace::Outside, async |context| {
        let to = super::parse_destination(&context.query);
        // If the half session has expired, the posted form reports it.
        let factors = match context.request.half_token() {
            Ok(half_token) => {
                service::session::second_factors(context.ctx(), half_token).await.map_err(Error::into_problem)
            }
            Err(problem) => Err(problem),
        };
        let factors = factors.unwrap_or(SecondFactors { code: true, passkey: false });
        let passkey = factors.passkey.then(|| {
            let button = view! { <button type="submit" class="primary">"Use a passkey"</button> };
            let hidden = vec![("to", to.clone())];
            let form = render_passkey_form(PasskeyCeremony::SecondStep, "passkey-second-step", hidden, button);
            view! { {form}{render_passkey_script()} }
        });
        let code = factors.code.then(|| {
            post(
                "second-factor",
                vec![("to", to)],
                view! {
                    <Field name="code" label="Code" autocomplete="one-time-code" least=6 most=24 help="Six digits from your authenticator, or a recovery code."/>
                    <button type="submit" class=if factors.passkey { "" } else { "primary" }>"Sign in"</button>
                },
            )
        });
        let title = if factors.code { "Enter your code" } else { "Use your passkey" };
        Ok(PageContent::new(
            title,
            view! {
                <p class="lead">"Your password is right. This account also asks for a second factor."</p>
                {passkey}{code}
                <p class="hint">"You have five minutes. Without any of your second factors, ask the server's operator. "<a href=path::SIGN_IN>"Start again"</a></p>
            },
        ))
    })
}
