//! The lineage of the model with which a job begins, from the certificate of the job that made it.

use sea_orm::{ConnectionTrait, EntityTrait as _};
use undertone_api::signed::ModelOrigin;
use undertone_api::signed::certificate::{LineageJob, ModelLineage};

use crate::error::Error;
use crate::model::certificate;

/// Returns the lineage without sums.
///
/// # Errors
/// When the database fails, or the job that made the model has no certificate; a proposal makes one.
pub(super) async fn load_lineage(
    connection: &impl ConnectionTrait,
    origin: &ModelOrigin,
) -> Result<ModelLineage, Error> {
    let row = certificate::Entity::find_by_id(origin.job.0).one(connection).await?;
    let missing = || Error::internal("reading the lineage of a model", "the job that made it has no certificate");
    let row = row.ok_or_else(missing)?;
    let certificate = row.certificate()?;
    let file = (origin.file.clone(), origin.digest.clone());
    let job = LineageJob::from_certificate(file, origin.source, &certificate, row.digest);
    Ok(ModelLineage::continue_from(job, &certificate))
}
