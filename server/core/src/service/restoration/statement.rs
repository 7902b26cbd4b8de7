//! The signed statement of a restoration, made before a server starts on the restored database.

use sea_orm::{EntityTrait as _, IntoActiveModel as _};
use serde_json::json;
use time::OffsetDateTime;
use undertone_api::log::leaf::RestorationRecord;
use undertone_api::log::{Frontier, LogLeaf};
use undertone_api::signed::{Restoration, key_id};

use crate::auth::Place;
use crate::config::Config;
use crate::ctx::Clock;
use crate::db::Db;
use crate::error::Error;
use crate::keys::{ExternalSigner, ServerSigner};
use crate::model::{account, restoration};
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};
use crate::service::log;

/// The length limit of a reason, in characters.
pub const LONGEST_REASON: usize = 500;

/// States in the log of `db` that it was restored to its present state. Returns the statement; `None` for a ledger from
/// before the log existed, which no site can know.
///
/// # Errors
/// `wrong_state` when another key signed the log, `validation_failed` for the reason.
pub async fn state_restoration(
    db: &Db,
    signer: &ServerSigner,
    now: OffsetDateTime,
    reason: &str,
) -> Result<Option<Restoration>, Error> {
    let reason = reason.trim();
    if reason.is_empty() || reason.chars().count() > LONGEST_REASON {
        let message = format!("give a reason of 1 to {LONGEST_REASON} characters");
        return Err(Error::validation(vec![undertone_api::problem::Violation::new("reason", message)]));
    }
    db.write("state a restoration", async |tx| {
        let newest = log::newest(tx).await?;
        let server = key_id(&signer.verifying_key());
        if newest.as_ref().is_some_and(|head| head.server != server) {
            return Err(Error::wrong_state(
                "another key than signing.key signed the log: put that key into the data folder",
            ));
        }
        if newest.is_none() && account::Entity::find().one(tx).await?.is_some() {
            return Ok(None);
        }
        let (size, root) =
            newest.map_or_else(|| (0, hex::encode(Frontier::default().root())), |head| (head.size as u64, head.root));
        let statement = Restoration { size, root, reason: reason.to_owned(), at: now, server };
        let signed = signer.sign(&statement).await.map_err(|error| Error::internal("signing a restoration", error))?;
        let leaf = LogLeaf::Restoration(RestorationRecord::new(signed.digest()));
        let row = restoration::Model {
            position: size as i64,
            digest: signed.digest(),
            payload: signed.payload,
            signature: signed.signature,
            at: now,
        };
        restoration::Entity::insert(row.into_active_model()).exec_without_returning(tx).await?;
        log::append_signed(signer, now, tx, &[leaf]).await?;
        let act = NewAuditEntry {
            by: AuditAuthor::Operator,
            what: AuditAction::BackupRestored,
            place: Place::Server,
            subject: None,
            detail: json!({ "log_entries": size, "reason": reason }),
        };
        audit_log::record_at(tx, now, act).await?;
        Ok(Some(statement))
    })
    .await
}

/// The reason why a restoration is not stated.
#[derive(Debug, thiserror::Error)]
pub enum StatementError {
    /// The key cannot be read.
    #[error("{path}: {source}", path = path.display())]
    Key {
        /// The data folder.
        path: std::path::PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The data folder has no key.
    #[error("the data folder {} has no signing.key: put the server's own key there first", .0.display())]
    NoKey(std::path::PathBuf),
    /// The database cannot be used.
    #[error("the database cannot be used: {0}")]
    Connect(#[from] sea_orm::DbErr),
    /// The statement is not written.
    #[error("the restoration is not stated: {0}")]
    Write(#[source] Error),
    /// The ledger is older than the log.
    #[error("the ledger is from before there was a log: start the server once, then state the restoration")]
    NoLog,
}

/// States that the configured database was restored by other means than `undertone-server restore`.
///
/// # Errors
/// [`StatementError`].
pub async fn command(config: &Config, reason: &str) -> Result<Restoration, StatementError> {
    let path = config.data_dir.clone();
    let now = Clock::system().now();
    let in_data = |source| StatementError::Key { path: path.clone(), source };
    let external = ExternalSigner::open(&config.signer).map_err(in_data)?;
    let signer = ServerSigner::load_existing(&path, external, now).map_err(in_data)?;
    let signer = signer.ok_or(StatementError::NoKey(path))?;
    let db = Db::connect(&config.database()).await?;
    db.migrate().await?;
    let stated = state_restoration(&db, &signer, now, reason).await;
    db.close().await?;
    stated.map_err(StatementError::Write)?.ok_or(StatementError::NoLog)
}
