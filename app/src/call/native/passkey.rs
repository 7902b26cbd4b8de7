//! Parsing of passkey forms.

use http::StatusCode;
use leptos::prelude::use_context;
use leptos_axum::ResponseOptions;
use serde::de::DeserializeOwned;
use undertone_api::account::IdentityProof;
use undertone_api::passkey::PasskeyAssertion;
use undertone_api::problem::{Problem, Violation};

use crate::backend::{Answer, PasskeyCeremony, backend};

/// Parses the script's JSON in a form's field.
pub(crate) fn passkey_answer<T: DeserializeOwned>(text: &str) -> Answer<T> {
    let remedy =
        "this form is filled in by the browser's passkey: let the page run its script, and press the button again";
    serde_json::from_str(text).map_err(|_| Problem::validation(vec![Violation::new("passkey", remedy)]))
}

/// Parses the word of a ceremony.
pub(crate) fn passkey_ceremony(word: &str) -> Answer<PasskeyCeremony> {
    let remedy = "use `sign_in`, `second_step`, `register` or `prove`";
    PasskeyCeremony::parse(word).ok_or_else(|| Problem::validation(vec![Violation::new("ceremony", remedy)]))
}

/// Returns the proof of identity by a passkey.
pub(crate) fn passkey_proof(passkey: PasskeyAssertion) -> IdentityProof {
    IdentityProof { password: String::new(), code: String::new(), passkey: Some(passkey) }
}

/// Signs in with a passkey's assertion, and forwards the session's cookies.
pub(crate) async fn sign_in_by_passkey(ceremony: PasskeyCeremony, passkey: &str) -> Answer<()> {
    let cookies = backend()?.sign_in_by_passkey(ceremony, passkey_answer(passkey)?).await?;
    super::keep(cookies);
    Ok(())
}

/// Returns a problem's sentence, and sets its status on the response: for a script, which shows it in the form.
pub(crate) fn problem_text(problem: Problem) -> String {
    if let (Some(response), Ok(status)) = (use_context::<ResponseOptions>(), StatusCode::from_u16(problem.status)) {
        response.set_status(status);
    }
    problem.detail
}
