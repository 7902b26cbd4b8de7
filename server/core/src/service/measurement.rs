//! Figures that the lead measured on the public test sets of the job. No other measurement is accepted: metrics are
//! releases too.

use sea_orm::sea_query::OnConflict;
use sea_orm::{EntityTrait as _, IntoActiveModel as _};
use undertone_api::id::WorkerId;
use undertone_api::job::{Measurement, Spec};
use undertone_api::problem::Violation;

use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::{measurement, participant};
use crate::service::lease;

/// Stores a figure. A lead that returned and measured again replaces its earlier figure.
///
/// # Errors
/// 403 for any worker but the lead's, `validation_failed` for a series, round or test set that the job does not measure
/// and for numbers out of range.
pub async fn measure(ctx: &Ctx, worker: WorkerId, token: &str, figure: &Measurement) -> Result<(), Error> {
    // The lead and the measured sets do not change; the job's state is checked again below.
    let (held, row) = lease::at_work(ctx.db.read(), worker, token).await?;
    let part = participant::Entity::find_by_id((held.job.0, held.dataset.0)).one(ctx.db.read()).await?;
    if part.is_none_or(|part| part.position != 0) {
        return Err(Error::forbidden("only the lead participant, on public data, measures"));
    }
    let violations = violations(&row.spec, figure);
    if !violations.is_empty() {
        return Err(Error::validation(violations));
    }
    ctx.db
        .write("measure", async |tx| {
            lease::still_at_work(tx, &held, token).await?;
            let row = measurement::Model {
                job_id: row.id,
                series: figure.series.clone(),
                round: figure.round as i32,
                test: figure.test.clone(),
                frames: figure.frames as i64,
                accuracy: figure.accuracy,
                loss: figure.loss,
                at: ctx.now(),
            };
            use measurement::Column;
            let key = OnConflict::columns([Column::JobId, Column::Series, Column::Round, Column::Test])
                .update_columns([Column::Frames, Column::Accuracy, Column::Loss, Column::At])
                .to_owned();
            measurement::Entity::insert(row.into_active_model()).on_conflict(key).exec_without_returning(tx).await?;
            Ok(())
        })
        .await?;
    ctx.changes().notify_job_display(held.job);
    Ok(())
}

fn violations(spec: &Spec, figure: &Measurement) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut say =
        |field: &str, message: String| violations.push(Violation::new(format!("measurement.{field}"), message));
    let measured = spec.allowed_measurements();
    match measured.series.iter().find(|(series, _)| *series == figure.series) {
        None => say("series", format!("the job measures no series `{}`", figure.series)),
        Some((_, last)) if figure.round > *last => say("round", format!("at most {last}, not {}", figure.round)),
        Some(_) => {}
    }
    if !measured.tests.contains(&figure.test) {
        say("test", format!("the job names no test set `{}`", figure.test));
    }
    if figure.frames == 0 || figure.frames > 1 << 40 {
        say("frames", "at least 1 and at most 2^40".to_owned());
    }
    if !(0.0..=1.0).contains(&figure.accuracy) {
        say("accuracy", "from 0 to 1".to_owned());
    }
    if !(figure.loss.is_finite() && figure.loss >= 0.0) {
        say("loss", "finite and at least 0".to_owned());
    }
    violations
}
