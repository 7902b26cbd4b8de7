//! The certificates of the signing keys, and the external signer, when one is configured.

use time::{Duration, OffsetDateTime};

use super::report::Examination;
use undertone_server_core::config::{Config, SignerKind};
use undertone_server_core::keys::{ExternalSigner, ServerSigner, verifying_key};

const CERTIFICATES: &str = "signing keys";
const SIGNER: &str = "signer";
/// Certificates that end sooner are to be renewed now: their root is on a machine apart.
pub(super) const NOTICE: Duration = Duration::days(14);

/// Checks until when the signing keys are certified, and that an external signer signs.
pub(super) async fn check(config: &Config, now: OffsetDateTime, report: &mut Examination) {
    let remedy = "check `signer`, the PIN file and the connection to the module; nothing can be signed until then";
    let external = match ExternalSigner::open(&config.signer) {
        Ok(external) => external,
        Err(error) => return report.fail(SIGNER, error.to_string(), remedy),
    };
    if verifying_key(&config.data_dir).is_err() {
        // A result of the check of the keys already.
        return;
    }
    let signer = match ServerSigner::load_existing(&config.data_dir, external.clone(), now) {
        Ok(Some(signer)) => signer,
        // A new folder, which the check of the keys points out.
        Ok(None) => return check_new(external.as_ref(), report).await,
        Err(error) => {
            return report.fail(CERTIFICATES, error.to_string(), "restore the file from a backup or a replica");
        }
    };
    if let Some(until) = signer.certified_until(now) {
        judge_end(until, now, report);
    }
    match signer.probe(now).await {
        Ok(keys) if keys.is_empty() && config.signer.kind == SignerKind::File => {}
        Ok(keys) if keys.is_empty() => {
            let remedy = "have its key certified: `undertone-server keys request`, then `sign` and `install`";
            report.warn(SIGNER, "it is configured, but keys of the data folder sign", remedy);
        }
        Ok(keys) => report.pass(SIGNER, format!("it signs with {}", keys.join(", "))),
        // The ended certificate is a result already.
        Err(_) if signer.certified_until(now).is_some_and(|until| until <= now) => {}
        Err(error) => report.fail(SIGNER, error.to_string(), remedy),
    }
}

/// Checks that a signer names its key, before a server has begun.
async fn check_new(external: Option<&ExternalSigner>, report: &mut Examination) {
    let Some(external) = external else { return };
    match external.public_key().await {
        Ok(key) => report.pass(SIGNER, format!("its key is {}", hex::encode(key.as_bytes()))),
        Err(error) => report.fail(SIGNER, error.to_string(), "check `signer`; the server does not start without it"),
    }
}

/// Judges the earliest end of the certificates of signing keys.
pub(super) fn judge_end(until: OffsetDateTime, now: OffsetDateTime, report: &mut Examination) {
    let remedy = "renew them: `undertone-server keys request`, `sign` at the root, `install`";
    let days = (until - now).whole_days();
    if now >= until {
        report.fail(CERTIFICATES, format!("a certificate expired on {}: nothing is signed", until.date()), remedy);
    } else if until - now < NOTICE {
        report.warn(CERTIFICATES, format!("a certificate expires on {} ({days} days)", until.date()), remedy);
    } else {
        report.pass(CERTIFICATES, format!("certified until {} ({days} days)", until.date()));
    }
}
