//! Rounds: each contributor submits one vector, the server averages them, and all contributors
//! and the lead receive the mean.
//!
//! Round 1 of a series opens with its first submission (before that the lead may still be in its warm start); each
//! later round opens when the previous one closes. A round closes when all contributors have submitted, or at its
//! deadline if the quorum is met; without a quorum it stays open. Charges are counted whether or not the vector is
//! accepted.

mod clear;
mod close;
mod masked;
mod mean;
mod step;
#[cfg(test)]
mod tests;

use object_store::path::Path;
use sea_orm::sea_query::OnConflict;
use sea_orm::{ActiveModelTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _};
use time::Duration;
use undertone_api::id::WorkerId;
use undertone_api::problem::{Code, Violation};
use undertone_api::signed::Signed;
use undertone_proto::question::QuestionError;
use undertone_proto::vector::{MAX_LENGTH, VectorError, VectorForm};

use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::exchange::object::{self, ObjectError};
use crate::exchange::upload::{ResumableUpload, UploadForm, UploadPlace};
use crate::model::planned_series::PlannedSeries;
use crate::model::{job, round, submission};
use crate::rule::job::load_job;
use crate::service::lease::{self, ActiveLease};
use crate::service::receipt;

pub(crate) use clear::clear;
pub(crate) use clear::clear_all;
pub(super) use masked::find_lost_round;
pub use masked::{MaskedInput, MaskedMessage};
pub use mean::LONGEST_WAIT;
pub use mean::{RoundMean, average};
pub use step::{StepHeader, masked_step};

/// The header of a vector's upload.
#[derive(Debug, Clone, PartialEq)]
pub struct VectorHeader {
    /// Fencing token.
    pub lease: String,
    /// The series.
    pub series: String,
    /// The round, from 1.
    pub round: u32,
    /// Receipts that the server does not know yet, oldest first.
    pub receipts: Vec<Signed>,
    /// The number of elements in the vector.
    pub length: u64,
    /// SHA-256 of its wire format, hex.
    pub digest: String,
    /// The size of its wire format, bytes.
    pub size: u64,
    /// The number of bytes that are not sent, because the server has them.
    pub offset: u64,
}

/// An upload of a vector in progress.
pub struct VectorUpload {
    header: VectorHeader,
    worker: WorkerId,
    held: ActiveLease,
    /// The state at the start of the upload; only unchanging columns are read from it.
    row: job::Model,
    planned: PlannedSeries,
    form: UploadForm,
    object: Path,
    place: UploadPlace,
    upload: ResumableUpload,
}

/// The response to an accepted submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedSubmission {
    /// Whether it had been accepted before.
    pub repeated: bool,
    /// The server's countersignature of each receipt that came with it, in their order.
    pub countersignatures: Vec<Signed>,
}

/// The result for a submission.
enum SubmissionOutcome {
    New,
    Repeated,
    Closed,
    Other,
    NotYet,
    Length(i64),
    Unpaid,
}

/// Begins the upload of a vector, and makes every check that does not need its bytes.
///
/// # Errors
/// `validation_failed` with every invalid field, `too_large`, `lease_lost`; `unavailable` when the server has fewer
/// bytes of it than the offset.
pub async fn begin(ctx: &Ctx, worker: WorkerId, header: VectorHeader) -> Result<VectorUpload, Error> {
    let mut violations = Vec::new();
    if !object::is_digest(&header.digest) {
        violations.push(Violation::new("digest", "give a SHA-256 as 64 hex digits"));
    }
    if header.offset > header.size {
        violations.push(Violation::new("offset", format!("at most the {} bytes of the whole", header.size)));
    }
    let (held, row) = lease::at_work(ctx.db.read(), worker, &header.lease).await?;
    let planned = contributes(&row, &held, &header.series);
    match &planned {
        None => violations.push(Violation::new("series", "this dataset contributes to no series of this name")),
        Some(planned) if !(1..=planned.series.last_round(held.dataset)).contains(&header.round) => {
            let last = planned.series.last_round(held.dataset);
            violations.push(Violation::new("round", format!("this dataset takes part in rounds 1 to {last}")));
        }
        Some(_) => {}
    }
    let formed = planned.map(|planned| Ok::<_, Error>((form_of(&planned, &held, &header)?, planned))).transpose()?;
    let Some((form, planned)) = formed.filter(|_| violations.is_empty()) else {
        return Err(Error::validation(violations));
    };
    if header.size > form.bytes() {
        let most = form.bytes();
        return Err(Error::problem(Code::TooLarge, format!("a vector of this series has at most {most} bytes")));
    }
    lease::extend(ctx, &held, &header.lease).await?;
    let name = header.digest.to_ascii_lowercase();
    let round = format!("{}/{}/{}", held.job, header.series, header.round);
    // Not in a folder per round: a new folder and its parents would have to be synced.
    let object = Path::from(format!("submissions/{round}-{}-{name}", held.dataset));
    let place = UploadPlace::new(Path::from(format!("uploads/{round}/{}", held.dataset)), &name);
    let upload = ResumableUpload::resume(&ctx.store, place.clone(), header.size, header.offset, ctx.now()).await;
    let mut upload = upload.map_err(object_error)?;
    if upload.is_none() && stands(ctx, &row, &held, &header.series, header.round, &name).await? {
        // It was accepted before, so its bytes are not needed.
        upload = Some(ResumableUpload::new_complete(&ctx.store, place.clone(), header.size));
    }
    let upload = upload.ok_or_else(|| {
        Error::problem(
            Code::Unavailable,
            "the server has less of this vector than that: ask again how much it received",
        )
    })?;
    // Masked numbers are uniform: the sum has the bound.
    let most_norm = planned.most_norm_of(held.dataset).filter(|_| !matches!(form, UploadForm::Masked(_)));
    let upload = upload.with_most_norm(most_norm);
    Ok(VectorUpload { header, worker, held, row, planned, form, object, place, upload })
}

/// Returns the form of a contributor's vector in a series.
fn form_of(planned: &PlannedSeries, held: &ActiveLease, header: &VectorHeader) -> Result<UploadForm, Error> {
    let VectorHeader { length, size, .. } = *header;
    if let Some(group) = planned.series.masked.as_ref().filter(|group| group.index(held.dataset).is_some()) {
        let (numbers, bytes) = (group.length, group.bytes());
        if (length, size) != (numbers, bytes) {
            let message = format!("a masked vector of this series has {numbers} numbers in {bytes} bytes");
            return Err(Error::validation(vec![Violation::new("length", message)]));
        }
        return Ok(UploadForm::Masked(bytes));
    }
    let most = planned.series.length.unwrap_or(MAX_LENGTH).min(MAX_LENGTH);
    if length > most {
        return Err(Error::problem(Code::TooLarge, format!("a vector of this series has at most {most} numbers")));
    }
    VectorForm::new(planned.series.precision, length)
        .map(UploadForm::Numbers)
        .map_err(|_| Error::validation(vec![Violation::new("length", "a vector has at least one number")]))
}

/// Returns whether exactly this vector was accepted.
async fn stands(
    ctx: &Ctx,
    row: &job::Model,
    held: &ActiveLease,
    series: &str,
    round: u32,
    digest: &str,
) -> Result<bool, Error> {
    let key = (row.id, series.to_owned(), round as i32, held.dataset.0);
    let earlier = submission::Entity::find_by_id(key).one(ctx.db.read()).await?;
    Ok(earlier.is_some_and(|earlier| earlier.digest == digest))
}

/// Returns the number of leading bytes that the server has of the vector with this digest: from earlier attempts to
/// submit it, or all of them (`u64::MAX`) when it was accepted.
///
/// # Errors
/// `validation_failed` when the dataset contributes to no such series, `lease_lost`.
pub async fn received(
    ctx: &Ctx,
    worker: WorkerId,
    lease: &str,
    series: &str,
    round: u32,
    digest: &str,
) -> Result<u64, Error> {
    let (held, row) = lease::at_work(ctx.db.read(), worker, lease).await?;
    if contributes(&row, &held, series).is_none() || !object::is_digest(digest) {
        let what = "this dataset contributes to no series of this name, or the digest is none";
        return Err(Error::validation(vec![Violation::new("series", what)]));
    }
    let digest = digest.to_ascii_lowercase();
    if stands(ctx, &row, &held, series, round, &digest).await? {
        return Ok(u64::MAX);
    }
    let folder = Path::from(format!("uploads/{}/{series}/{round}/{}", held.job, held.dataset));
    UploadPlace::new(folder, &digest).received(&ctx.store, ctx.now()).await.map_err(object_error)
}

impl VectorUpload {
    /// Takes the next bytes.
    ///
    /// # Errors
    /// `bad_signature`, `too_large` or `validation_failed` when they do not match the header.
    pub async fn write(&mut self, data: &[u8]) -> Result<(), Error> {
        self.upload.write(data).await.map_err(object_error)
    }

    /// Returns the time at which the received bytes must be stored, even without further ones.
    pub fn due(&self) -> Option<tokio::time::Instant> {
        self.upload.due()
    }

    /// Stores the received bytes, for the next attempt if this one is interrupted.
    ///
    /// # Errors
    /// When the object store fails; then the next attempt begins a little earlier.
    pub async fn keep(&mut self) -> Result<(), Error> {
        self.upload.keep().await.map_err(object_error)
    }

    /// Commits the charges and accepts the vector, in one transaction.
    ///
    /// # Errors
    /// `round_closed` when it is too late (its receipts are counted all the same), `already_exists` when another vector
    /// was accepted for this round, `bad_signature` when no receipt pays for it, `unavailable` when another attempt to
    /// submit it has finished and the bytes that this one continues are deleted.
    pub async fn accept(self, ctx: &Ctx) -> Result<AcceptedSubmission, Error> {
        let Self { header, worker, held, row, planned, form, object, place, upload } = self;
        if !upload.is_over() {
            upload.finish(ctx.uploads().turns(), form, &object).await.map_err(object_error)?;
        }
        // Signatures and manifests are verified before the writer's turn; a receipt that is invalid now is verified
        // again in it, and rejected.
        let proven = receipt::prove(ctx, ctx.db.read(), worker, &header.receipts).await.ok();
        let (accepted, countersignatures) = ctx
            .db
            .write("accept submission", async |tx| {
                // The receipts are accepted even when the vector is not: charges are counted. So from here on a refusal
                // is a value.
                let (header, proven) = (&header, proven.as_ref());
                let countersignatures = receipt::accept_proven(ctx, tx, worker, &header.receipts, proven).await?;
                lease::still_at_work(tx, &held, &header.lease).await?;
                let is_paid = proven.is_some_and(|proven| proven.pay_for(&held, &header.series, header.round));
                Ok((accept(ctx, tx, (&row, &planned), &held, header, &object, is_paid).await?, countersignatures))
            })
            .await?;
        if !matches!(accepted, SubmissionOutcome::New | SubmissionOutcome::Repeated) {
            object::remove(&ctx.store, &object).await.map_err(object_error)?;
        }
        if !matches!(accepted, SubmissionOutcome::NotYet) {
            place.forget(&ctx.store).await.map_err(object_error)?;
        }
        match accepted {
            SubmissionOutcome::New => {
                // Workers that wait for the round are notified of its end, not of every vector.
                close::if_due(ctx, held.job, &header.series, header.round).await?;
                ctx.changes().notify_job_display(held.job);
                Ok(AcceptedSubmission { repeated: false, countersignatures })
            }
            SubmissionOutcome::Repeated => {
                let row = load_job(ctx.db.read(), held.job).await?;
                let open = find(ctx.db.read(), &row, &header.series, header.round).await?;
                // While the round is open, this object will be averaged; afterwards it is not needed.
                if open.is_some_and(|open| open.closed_at.is_some()) {
                    object::remove(&ctx.store, &object).await.map_err(object_error)?;
                }
                Ok(AcceptedSubmission { repeated: true, countersignatures })
            }
            SubmissionOutcome::Closed => Err(Error::problem(
                Code::RoundClosed,
                format!("round {} of `{}` closed without this vector; it stays paid", header.round, header.series),
            )),
            SubmissionOutcome::Other => Err(Error::problem(
                Code::AlreadyExists,
                format!(
                    "another vector was accepted for round {} of `{}`: only one counts",
                    header.round, header.series
                ),
            )),
            SubmissionOutcome::NotYet => Err(Error::problem(
                Code::NotReady,
                format!(
                    "round {} of `{}` is not open yet: fetch the average before it first",
                    header.round, header.series
                ),
            )),
            SubmissionOutcome::Length(length) => Err(Error::validation(vec![Violation::new(
                "length",
                format!("the other vectors of this round have {length} numbers, not {}", header.length),
            )])),
            SubmissionOutcome::Unpaid => {
                Err(Error::problem(Code::BadSignature, "no receipt pays for this vector: send the one that does"))
            }
        }
    }
}

/// Accepts a vector, or returns the refusal; `paid` when one of the receipts in the same request pays for it.
async fn accept(
    ctx: &Ctx,
    tx: &Tx,
    (row, planned): (&job::Model, &PlannedSeries),
    held: &ActiveLease,
    header: &VectorHeader,
    object: &Path,
    paid: bool,
) -> Result<SubmissionOutcome, Error> {
    let digest = header.digest.to_ascii_lowercase();
    let refused = refusal(ctx, tx, (row, planned), held, header, paid).await?;
    if refused.is_none() {
        let row = submission::Model {
            job_id: row.id,
            series: header.series.clone(),
            round: header.round as i32,
            dataset_id: held.dataset.0,
            digest: digest.clone(),
            object: object.to_string(),
            length: header.length as i64,
            counted: false,
            accepted_at: ctx.now(),
        };
        use submission::Column;
        let once = OnConflict::columns([Column::JobId, Column::Series, Column::Round, Column::DatasetId])
            .do_nothing()
            .to_owned();
        let new = submission::Entity::insert(row.into_active_model()).on_conflict(once);
        if new.exec_without_returning(tx).await? == 1 {
            return Ok(SubmissionOutcome::New);
        }
    }
    // Whatever the refusal, an earlier acceptance stays valid.
    let key = (row.id, header.series.clone(), header.round as i32, held.dataset.0);
    match (submission::Entity::find_by_id(key).one(tx).await?, refused) {
        (Some(before), _) if before.digest == digest => Ok(SubmissionOutcome::Repeated),
        (Some(_), _) => Ok(SubmissionOutcome::Other),
        (None, Some(refused)) => Ok(refused),
        (None, None) => Err(Error::internal("accepting a vector", "it is there and is not")),
    }
}

/// Returns the reason against a vector that was not accepted before. Opens round 1.
async fn refusal(
    ctx: &Ctx,
    tx: &Tx,
    (row, planned): (&job::Model, &PlannedSeries),
    held: &ActiveLease,
    header: &VectorHeader,
    paid: bool,
) -> Result<Option<SubmissionOutcome>, Error> {
    let is_charged = planned.release_of(held.dataset).is_some();
    let is_paid = paid || !is_charged || receipt::pays_for(tx, held, &header.series, header.round).await?;
    if !is_paid {
        return Ok(Some(SubmissionOutcome::Unpaid));
    }
    let Some(open) = opened(ctx, tx, row, planned, header.round).await? else {
        return Ok(Some(SubmissionOutcome::NotYet));
    };
    if open.closed_at.is_some() {
        return Ok(Some(SubmissionOutcome::Closed));
    }
    if let Some(outcome) = masked::refusal(tx, row, planned, held, header.round).await? {
        return Ok(Some(outcome));
    }
    match open.length {
        Some(length) if length != header.length as i64 => Ok(Some(SubmissionOutcome::Length(length))),
        Some(_) => Ok(None),
        None => {
            let open = round::Model { length: Some(header.length as i64), ..open };
            open.into_active_model().reset_all().update(tx).await?;
            Ok(None)
        }
    }
}

/// Returns the round's row. Opens round 1 on request, once every earlier series with a contributor of this one is over.
async fn opened(
    ctx: &Ctx,
    tx: &Tx,
    row: &job::Model,
    planned: &PlannedSeries,
    number: u32,
) -> Result<Option<round::Model>, Error> {
    let series = &planned.series;
    if let Some(found) = find(tx, row, &series.name, number).await? {
        return Ok(Some(found));
    }
    if number != 1 {
        return Ok(None);
    }
    let all = &*row.series;
    // Series without a common contributor go on beside each other.
    let is_common = |before: &&PlannedSeries| {
        before.series.weights.iter().any(|(id, _)| series.weights.iter().any(|(other, _)| other == id))
    };
    for before in all.iter().take_while(|before| before.series.name != series.name).filter(is_common) {
        let last = find(tx, row, &before.series.name, before.series.rounds).await?;
        if last.is_none_or(|last| last.closed_at.is_none()) {
            return Ok(None);
        }
    }
    Ok(Some(open(ctx, tx, row, planned, 1).await?))
}

/// Opens a round.
async fn open(
    ctx: &Ctx,
    tx: &Tx,
    row: &job::Model,
    planned: &PlannedSeries,
    number: u32,
) -> Result<round::Model, Error> {
    let now = ctx.now();
    let open = round::Model {
        job_id: row.id,
        series: planned.series.name.clone(),
        round: number as i32,
        opened_at: now,
        deadline: now + Duration::seconds(i64::from(planned.series.deadline_seconds)),
        closed_at: None,
        contributors: 0,
        length: None,
        digest: None,
        object: None,
    };
    Ok(open.into_active_model().insert(tx).await?)
}

async fn find(
    connection: &impl ConnectionTrait,
    row: &job::Model,
    series: &str,
    number: u32,
) -> Result<Option<round::Model>, Error> {
    Ok(round::Entity::find_by_id((row.id, series.to_owned(), number as i32)).one(connection).await?)
}

/// Returns the series with this name, if the lease's dataset contributes to it.
fn contributes(row: &job::Model, held: &ActiveLease, series: &str) -> Option<PlannedSeries> {
    let contributes =
        |planned: &&PlannedSeries| planned.series.name == series && planned.weight_of(held.dataset).is_some();
    row.series.iter().find(contributes).cloned()
}

/// Converts an error for the sender of bytes.
pub(crate) fn object_error(error: ObjectError) -> Error {
    match error {
        ObjectError::Turn(refusal) => *refusal,
        ObjectError::Size { .. } | ObjectError::Digest => Error::problem(Code::BadSignature, error.to_string()),
        // The sender can query the received bytes and continue; its data was valid.
        ObjectError::Lost => Error::problem(Code::Unavailable, error.to_string()),
        ObjectError::Vector(VectorError::TooLong { .. } | VectorError::Length(_))
        | ObjectError::Questions(QuestionError::TooMany | QuestionError::TooLong(_) | QuestionError::Unpacked) => {
            Error::problem(Code::TooLarge, error.to_string())
        }
        ObjectError::Vector(_) | ObjectError::Norm { .. } | ObjectError::Questions(_) => {
            Error::validation(vec![Violation::new("data", error.to_string())])
        }
        ObjectError::Store(_) => Error::internal("keeping an object", error),
    }
}
