//! The renewal of the certificate while the server runs.

use std::io;
use std::time::Duration;

use crate::ctx::Ctx;
use crate::service::audit_log;
use crate::tls::ServedCertificate;

/// The interval of reading the files.
const LOOK_AGAIN: Duration = Duration::from_mins(1);

/// Reads the files every minute, and at SIGHUP, until shutdown.
///
/// # Errors
/// If the signal cannot be registered.
pub async fn keep(ctx: &Ctx) -> io::Result<()> {
    let Some(served) = &ctx.tls else {
        ctx.shutdown.cancelled().await;
        return Ok(());
    };
    // A certificate may have been replaced while the server did not run.
    note(ctx, served).await;
    #[cfg(unix)]
    let mut hangup = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())?;
    loop {
        #[cfg(unix)]
        let hangup = hangup.recv();
        #[cfg(not(unix))]
        let hangup = std::future::pending::<()>();
        tokio::select! {
            () = ctx.shutdown.cancelled() => return Ok(()),
            () = tokio::time::sleep(LOOK_AGAIN) => {}
            _ = hangup => {}
        }
        match served.look_again(&ctx.config, ctx.now()) {
            Ok(false) => {}
            Ok(true) => {
                tracing::info!(tls.fingerprint = served.fingerprint(), "another certificate is shown from now on");
                note(ctx, served).await;
            }
            Err(error) => tracing::error!(%error, "the certificate's files cannot be used: the one in force stays"),
        }
    }
}

/// Records a new certificate in the audit log. An unavailable database does not affect connections.
async fn note(ctx: &Ctx, served: &ServedCertificate) {
    if let Err(error) = audit_log::note_certificate(ctx, &served.fingerprint()).await {
        tracing::error!(error = &error as &dyn std::error::Error, "the audit log does not have the new certificate");
    }
}
