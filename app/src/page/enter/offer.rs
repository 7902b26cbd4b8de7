//! Accounts that the sign-in offers by button. Only a demonstration has some: its people and passwords are made up, and
//! it prints both.

use std::sync::OnceLock;

use leptos::prelude::*;

use crate::component::form::post;

/// An account with its password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedAccount {
    /// The text of its button, such as `Enter as North Clinic`.
    pub label: String,
    /// What its holder can do.
    pub roles: String,
    /// The e-mail address.
    pub email: String,
    /// The password.
    pub password: String,
}

static OFFERED: OnceLock<Vec<OfferedAccount>> = OnceLock::new();

/// Offers accounts to whoever opens the sign-in of this process. Later calls change nothing.
pub fn offer_accounts(accounts: Vec<OfferedAccount>) {
    // A second demonstration in the same process keeps the accounts of the first.
    let _ = OFFERED.set(accounts);
}

/// Renders a button for each offered account.
pub(super) fn render_offered(to: &str) -> Option<AnyView> {
    OFFERED.get().map(|accounts| render_accounts(accounts, to))
}

fn render_accounts(accounts: &[OfferedAccount], to: &str) -> AnyView {
    let buttons = accounts.iter().map(|account| {
        let hidden =
            vec![("to", to.to_owned()), ("email", account.email.clone()), ("password", account.password.clone())];
        let button = view! {
            <button type="submit" class="primary">{account.label.clone()}</button>
            <span class="hint">{account.roles.clone()}</span>
        };
        view! { <li>{post("sign-in", hidden, button)}</li> }
    });
    view! {
        <section class="panel"><h2>"Demonstration"</h2>
            <ul class="offered">{buttons.collect_view()}</ul>
        </section>
    }
    .into_any()
}

#[cfg(test)]
mod tests {
    use leptos::prelude::{Owner, RenderHtml as _};

    use super::{OfferedAccount, render_accounts};

    #[test]
    fn each_account_has_a_form_with_its_credentials() {
        let account = OfferedAccount {
            label: "Enter as North Clinic".to_owned(),
            roles: "Data steward".to_owned(),
            email: "north@example.org".to_owned(),
            password: "demo-1".to_owned(),
        };
        let page = Owner::new().with(|| render_accounts(&[account], "/c/1").to_html());
        for text in [
            "Enter as North Clinic",
            "Data steward",
            r#"value="north@example.org""#,
            r#"value="demo-1""#,
            r#"value="/c/1""#,
        ] {
            assert!(page.contains(text), "{text}: {page}");
        }
    }
}
