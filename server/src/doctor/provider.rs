//! The identity provider, if one is configured.

use tokio::time::timeout;

use super::PATIENCE;
use super::report::Examination;
use crate::auth::Provider;
use crate::config::Config;

const CHECK: &str = "provider";

/// Checks that the provider's metadata name the configured issuer.
pub(super) async fn check(config: &Config, report: &mut Examination) {
    let Some(issuer) = &config.oidc.issuer else { return };
    let remedy =
        "look at `oidc.issuer` (exactly as the provider calls itself) and at the way there; passwords go on working";
    let provider = match Provider::of(&config.oidc) {
        Ok(Some(provider)) => provider,
        Ok(None) => return,
        Err(error) => return report.fail(CHECK, error.to_string(), remedy),
    };
    match timeout(PATIENCE * 2, provider.discover()).await {
        Ok(Ok(())) => report.pass(CHECK, format!("{issuer} describes itself and its keys")),
        Ok(Err(error)) => report.fail(CHECK, error.to_string(), remedy),
        Err(_) => report.fail(CHECK, format!("{issuer} does not answer in time"), remedy),
    }
}
