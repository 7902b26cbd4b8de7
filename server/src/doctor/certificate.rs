//! The certificate of both listeners: its dates, its key, and the next one, which sites will pin.

use time::{Duration, OffsetDateTime};

use super::report::Examination;
use undertone_server_core::config::Config;
use undertone_server_core::tls::{self, CertificateView};

const CHECK: &str = "certificate";
/// The remaining time below which an own certificate must be replaced, so that sites learn of the next one in time.
pub(super) const NOTICE: Duration = Duration::days(30);

/// Checks the certificate's files at `now`.
pub(super) fn check(config: &Config, now: OffsetDateTime, report: &mut Examination) {
    if !config.speaks_tls() {
        let is_local = config.http.ip().is_loopback() && config.grpc.ip().is_loopback();
        if is_local {
            return report.pass(CHECK, "none: both addresses are on this machine");
        }
        let remedy = "make sure that a proxy terminates TLS for both addresses, or set `tls.mode = \"on\"`";
        return report.warn(CHECK, "`tls.mode` is off, and other machines can reach the server", remedy);
    }
    match tls::inspect(config) {
        Ok(Some(view)) => judge(&view, now, report),
        Ok(None) => report.warn(CHECK, "there is none yet", "start the server, which creates one"),
        Err(error) => {
            report.fail(CHECK, error.to_string(), "correct `tls.certificate`, `tls.key` and `tls.next_certificate`");
        }
    }
}

/// Judges a certificate by its dates at `now`.
pub(super) fn judge(view: &CertificateView, now: OffsetDateTime, report: &mut Examination) {
    let short = view.fingerprint.get(..16).unwrap_or_default();
    let until = view.not_after.date();
    let days = (view.not_after - now).whole_days();
    let next = match (&view.next, view.rotates_at) {
        (Some(next), _) => format!("the next is {}…", next.fingerprint.get(..16).unwrap_or_default()),
        (None, Some(at)) => format!("the next one replaces it on {}", at.date()),
        (None, None) => "no next certificate is configured".to_owned(),
    };
    let detail = format!("{short}… is valid until {until} ({days} days); {next}");
    if now < view.not_before {
        report.fail(
            CHECK,
            format!("{short}… is valid from {}", view.not_before.date()),
            "correct this machine's clock",
        );
    } else if now >= view.not_after {
        let remedy =
            "install the next certificate; sites that know it from `tls.next_certificate` continue without a change";
        report.fail(CHECK, format!("{short}… expired on {until}: browsers reject it"), remedy);
    } else if !view.is_generated && view.not_after - now < NOTICE && view.next.is_none() {
        let remedy = "set `tls.next_certificate` now, so that sites know the next certificate before the change";
        report.warn(CHECK, detail, remedy);
    } else {
        report.pass(CHECK, detail);
    }
}
