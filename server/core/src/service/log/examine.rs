//! A quick check of the end of the log: its newest head, and the leaves that the head covers. `undertone-server verify`
//! checks the whole log.

use ed25519_dalek::VerifyingKey;
use sea_orm::{EntityTrait as _, QueryOrder as _};
use time::OffsetDateTime;
use undertone_api::signed::{LogHead, Signed, key_id};

use super::{frontier, newest};
use crate::db::{Db, Tx};
use crate::error::Error;
use crate::model::log_leaf;

/// The end of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogEnd {
    /// The log has no leaves.
    Empty,
    /// The newest head is signed by the key and covers the leaves.
    Sound {
        /// Number of leaves.
        size: u64,
        /// The time of the head's signature.
        at: OffsetDateTime,
    },
    /// The head is invalid.
    Broken(String),
}

/// Checks the newest head with the server's key and the hashes of the last leaves.
///
/// # Errors
/// When the database does not answer.
pub async fn examine_end(db: &Db, key: &VerifyingKey) -> Result<LogEnd, Error> {
    let snapshot = db.snapshot().await?;
    let end = end_of(&snapshot, key).await;
    snapshot.rollback().await?;
    end
}

async fn end_of(snapshot: &Tx, key: &VerifyingKey) -> Result<LogEnd, Error> {
    let last = log_leaf::Entity::find().order_by_desc(log_leaf::Column::Position).one(snapshot).await?;
    let leaves = last.map_or(0, |leaf| leaf.position as u64 + 1);
    let Some(row) = newest(snapshot).await? else {
        return Ok(if leaves == 0 {
            LogEnd::Empty
        } else {
            LogEnd::Broken(format!("no head covers its {leaves} leaves"))
        });
    };
    let ours = key_id(key);
    if row.server != ours {
        return Ok(LogEnd::Broken(format!("it was signed with key {}, and signing.key is {ours}", row.server)));
    }
    let head: LogHead = match (Signed { payload: row.payload, signature: row.signature }).open(key) {
        Ok(head) => head,
        Err(error) => return Ok(LogEnd::Broken(format!("its newest head is not signed by signing.key: {error}"))),
    };
    if (head.size, &head.root) != (row.size as u64, &row.root) || head.size != leaves {
        let detail = format!("its newest signed head has {} leaves, the tables have {leaves}", head.size);
        return Ok(LogEnd::Broken(detail));
    }
    match frontier(snapshot, head.size).await {
        Ok(edge) if hex::encode(edge.root()) == head.root => Ok(LogEnd::Sound { size: head.size, at: head.at }),
        Ok(_) => Ok(LogEnd::Broken("the stored hashes do not lead to its newest head".to_owned())),
        Err(Error::Internal { source, .. }) => Ok(LogEnd::Broken(source.to_string())),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use undertone_api::signed::Signed;

    use super::{LogEnd, examine_end};
    use crate::ctx::Random;
    use crate::service::world::TestConsortium;
    use crate::testing::{on_both, tamper};

    on_both! {
        async fn end_of_the_log_is_judged_by_key_and_leaves(app: &TestApp) {
            let (db, key) = (&app.ctx.db, app.ctx.signer.verifying_key());
            assert_eq!(examine_end(db, &key).await.expect("answered"), LogEnd::Empty);
            TestConsortium::new(&app.ctx, 1, 8.0).await;
            let end = examine_end(db, &key).await.expect("answered");
            assert!(matches!(end, LogEnd::Sound { size: 1.., .. }), "{end:?}");

            let folder = tempfile::tempdir().expect("a temporary folder");
            let other = crate::keys::signing_key(folder.path(), &Random::seeded(9)).expect("made").verifying_key();
            let end = examine_end(db, &other).await.expect("answered");
            assert!(matches!(&end, LogEnd::Broken(why) if why.contains("signing.key is")), "{end:?}");

            tamper(&app.ctx, "log_leaf", "DELETE FROM log_leaf WHERE position = (SELECT MAX(position) FROM log_leaf)").await;
            let end = examine_end(db, &key).await.expect("answered");
            assert!(matches!(&end, LogEnd::Broken(why) if why.contains("the tables have")), "{end:?}");
        }

        async fn head_with_another_signature_does_not_hold(app: &TestApp) {
            TestConsortium::new(&app.ctx, 1, 8.0).await;
            let Signed { signature, .. } = crate::service::log::newest_of(&app.ctx.db).await.expect("answered").expect("a head");
            let forged = format!("UPDATE log_head SET signature = '{}'", signature.chars().rev().collect::<String>());
            tamper(&app.ctx, "log_head", &forged).await;
            let end = examine_end(&app.ctx.db, &app.ctx.signer.verifying_key()).await.expect("answered");
            assert!(matches!(&end, LogEnd::Broken(why) if why.contains("not signed")), "{end:?}");
        }
    }
}
