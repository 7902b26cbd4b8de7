//! The form that sets a new password by an operator's link.

use leptos::prelude::*;
use undertone_server_core::service;

use crate::component::form::{Field, post};
use crate::page_context::{PageContent, PagePlace};
use crate::screen::render_page;
use crate::words;

/// Renders the page.
pub(crate) fn reset() -> AnyView {
    render_page(PagePlace::Outside, async |context| {
        let secret = context.text("secret");
        let preview = service::reset::preview(context.ctx(), context.request.origin().address, &secret).await?;
        let factor = if preview.clears_second_factor {
            "This also removes your second factor: set up a new one afterwards."
        } else {
            "If you have a second factor, you will still be asked for a code."
        };
        let form = post(
            "redeem-reset",
            vec![("secret", secret)],
            view! {
                <Field name="password" label="New password" kind="password" autocomplete="new-password" least=12 most=200 help="At least 12 characters; a sentence is best."/>
                <button type="submit" class="primary">"Set the password"</button>
            },
        );
        Ok(PageContent::new(
            "Set a new password",
            view! {
                <ul class="consequences">
                    <li>"All your sessions end."</li>
                    <li>"Your API keys are revoked: create new ones for the programs that need them."</li>
                    <li>{factor}</li>
                    <li>{format!("The link works once, until {}.", words::exact(preview.expires_at))}</li>
                </ul>
                {form}
            },
        ))
    })
}
