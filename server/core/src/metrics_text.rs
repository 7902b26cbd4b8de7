//! The text of `/metrics`: counters and timings of [`Metrics`](crate::metrics::Metrics), with figures that are queried
//! here from the tables and the store.

use futures::TryStreamExt as _;

use crate::ctx::Ctx;
use crate::error::Error;
use crate::metrics::{CertificateDays, Figures};
use crate::tls::ServedCertificate;
use crate::view::statistics;

/// Renders all metrics as text. Unavailable figures are omitted and logged.
///
/// # Errors
/// If the text cannot be written.
pub async fn render(ctx: &Ctx) -> Result<String, std::fmt::Error> {
    let figures = match ctx.metrics.get_or_query_figures(query_figures(ctx)).await {
        Ok(figures) => Some(figures),
        Err(error) => {
            // The conversion logs the error.
            let _ = error.into_problem();
            None
        }
    };
    let rotation = ctx.tls.as_ref().and_then(ServedCertificate::rotates_at).map(|at| (at - ctx.now()).whole_days());
    let signing = ctx.signer.certified_until(ctx.now()).map(|until| (until - ctx.now()).whole_days());
    ctx.metrics.encode(figures.as_ref(), CertificateDays { rotation, signing })
}

/// Queries the figures of the tables and the store.
async fn query_figures(ctx: &Ctx) -> Result<Figures, Error> {
    let server = statistics::take(ctx).await?;
    let mut objects = 0;
    let mut bytes = 0;
    let mut listed = ctx.store.list(None);
    while let Some(object) =
        listed.try_next().await.map_err(|error| Error::internal("counting what is stored", error))?
    {
        objects += 1;
        bytes += object.size;
    }
    Ok(Figures { server, objects, bytes })
}
