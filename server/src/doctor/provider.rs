//! The providers of sign-ins, when some are configured.

use tokio::time::timeout;

use super::PATIENCE;
use super::report::Examination;
use undertone_server_core::auth::Provider;
use undertone_server_core::config::Config;

const CHECK: &str = "provider";

/// Checks that each provider describes itself under its configured issuer.
pub(super) async fn check(config: &Config, report: &mut Examination) {
    let remedy =
        "look at the issuer (exactly as the provider calls itself) and at the way there; passwords go on working";
    let providers = match Provider::load_all(config) {
        Ok(providers) => providers,
        Err(error) => return report.fail(CHECK, error.to_string(), remedy),
    };
    // At the same time: each may take long to give no answer.
    let answers =
        futures::future::join_all(providers.iter().map(|provider| timeout(PATIENCE * 2, provider.discover())));
    for (provider, answer) in providers.iter().zip(answers.await) {
        let issuer = provider.issuer();
        match answer {
            Ok(Ok(())) => report.pass(CHECK, format!("{issuer} describes itself and its keys")),
            Ok(Err(error)) => report.fail(CHECK, error.to_string(), remedy),
            Err(_) => report.fail(CHECK, format!("{issuer} does not answer in time"), remedy),
        }
    }
}
