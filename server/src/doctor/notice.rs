//! The ways of security notices: the mail server and the webhook, when they are configured. Nothing is sent.

use super::report::Examination;
use undertone_server_core::config::Config;
use undertone_server_core::outbound::{Mailer, OutboundError, Webhook};

const MAIL: &str = "mail";
const WEBHOOK: &str = "webhook";

/// Checks that the mail server greets and takes the account, and that the webhook's address accepts a connection.
pub(super) async fn check(config: &Config, report: &mut Examination) {
    let mailer = Mailer::new(&config.mail);
    if let Some(outcome) = outcome(mailer, async |mailer: &Mailer| mailer.examine().await).await {
        let server = config.mail.server.as_deref().unwrap_or_default();
        let remedy = "check `mail.server`, `mail.tls`, the account and the network; notices are queued";
        judge(MAIL, format!("{server} accepts the connection and the account"), outcome, remedy, report);
    }
    let webhook = Webhook::new(&config.webhook);
    if let Some(outcome) = outcome(webhook, async |webhook: &Webhook| webhook.examine().await).await {
        let remedy = "check `webhook.url`, `webhook.private_network` and the network; notices are queued";
        judge(WEBHOOK, "its address accepts connections".to_owned(), outcome, remedy, report);
    }
}

/// Returns the outcome of an examination; `None` where nothing is configured.
async fn outcome<C>(
    channel: Result<Option<C>, OutboundError>,
    examine: impl AsyncFnOnce(&C) -> Result<(), OutboundError>,
) -> Option<Result<(), OutboundError>> {
    match channel {
        Ok(None) => None,
        Ok(Some(channel)) => Some(examine(&channel).await),
        Err(error) => Some(Err(error)),
    }
}

fn judge(
    check: &'static str,
    detail: String,
    outcome: Result<(), OutboundError>,
    remedy: &str,
    report: &mut Examination,
) {
    match outcome {
        Ok(()) => report.pass(check, detail),
        Err(error) => report.fail(check, error.to_string(), remedy),
    }
}
