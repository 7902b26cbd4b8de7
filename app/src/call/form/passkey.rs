//! Parsing of passkey forms.

use serde::de::DeserializeOwned;
use undertone_api::account::IdentityProof;
use undertone_api::passkey::PasskeyAssertion;
use undertone_api::problem::{Problem, Violation};

use crate::component::passkey::PasskeyCeremony;
use crate::request::Answer;

/// Parses the script's JSON in a form's field.
pub(in crate::call) fn passkey_answer<T: DeserializeOwned>(text: &str) -> Answer<T> {
    let remedy =
        "this form is filled in by the browser's passkey: let the page run its script, and press the button again";
    serde_json::from_str(text).map_err(|_| Problem::validation(vec![Violation::new("passkey", remedy)]))
}

/// Parses the word of a ceremony.
pub(in crate::call) fn passkey_ceremony(word: &str) -> Answer<PasskeyCeremony> {
    let remedy = "use `sign_in`, `second_step`, `register` or `prove`";
    PasskeyCeremony::parse(word).ok_or_else(|| Problem::validation(vec![Violation::new("ceremony", remedy)]))
}

/// Returns the proof of identity by a passkey.
pub(in crate::call) fn passkey_proof(passkey: PasskeyAssertion) -> IdentityProof {
    IdentityProof { password: String::new(), code: String::new(), passkey: Some(passkey) }
}
