//! Challenges, which a worker signs to prove its key. A challenge is a document that the server has signed for one
//! worker. It is valid for a minute at every replica of the server and after a restart.
//!
//! An open challenge is not stored, so that requests in a worker's name do not exhaust a limit of that worker; any
//! number may be open. The server stores only the challenges that the worker's key has answered, until their minute is
//! over: each is valid once. Callers of `spend` must have verified the worker's key.

use sea_orm::{ActiveModelTrait as _, EntityTrait as _, IntoActiveModel as _};
use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};
use undertone_api::id::WorkerId;
use undertone_api::problem::Code;
use undertone_api::signed::{Document, KeyPurpose, Signed};

use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::challenge;

/// The time in which a challenge must be answered.
pub const PATIENCE: Duration = Duration::minutes(1);
/// The highest number of accepted answers of one worker within [`PATIENCE`].
pub const MOST: usize = 16;

/// The content of a challenge.
#[derive(Serialize, Deserialize)]
struct WorkerChallenge {
    worker: WorkerId,
    /// 128 random bits, hex.
    nonce: String,
    asked_at_unix: i64,
}

impl Document for WorkerChallenge {
    const DOMAIN: &'static str = "undertone/challenge/1";
    const PURPOSE: Option<KeyPurpose> = Some(KeyPurpose::Connection);

    fn signed_at(&self) -> Option<OffsetDateTime> {
        OffsetDateTime::from_unix_timestamp(self.asked_at_unix).ok()
    }
}

/// Makes a new challenge for a worker, hex. An unknown id receives a challenge too, so that the response does not
/// reveal the registered workers.
///
/// # Errors
/// When the challenge cannot be signed.
pub async fn ask(ctx: &Ctx, worker: WorkerId) -> Result<String, Error> {
    let nonce = hex::encode(ctx.random.bytes::<16>());
    let challenge = WorkerChallenge { worker, nonce, asked_at_unix: ctx.now().unix_timestamp() };
    let signed = ctx.signer.sign(&challenge).await.map_err(|error| Error::internal("signing a challenge", error))?;
    let json = serde_json::to_vec(&signed).map_err(|error| Error::internal("writing a challenge", error))?;
    Ok(hex::encode(json))
}

/// Checks that a text is a challenge that this worker received within the last minute. It does not check for an earlier
/// answer.
///
/// # Errors
/// `unauthenticated` when it is not.
pub fn check(ctx: &Ctx, worker: WorkerId, text: &str) -> Result<(), Error> {
    read(ctx, worker, text).map(drop)
}

/// Marks a challenge as answered by the worker's key.
///
/// # Errors
/// `unauthenticated` when it is not valid, or was answered already; `rate_limited` for the 17th answer within a minute.
pub async fn spend(ctx: &Ctx, tx: &Tx, worker: WorkerId, text: &str) -> Result<(), Error> {
    let WorkerChallenge { nonce, asked_at_unix, .. } = read(ctx, worker, text)?;
    let name = format!("{asked_at_unix}:{nonce}");
    let before = challenge::Entity::find_by_id(worker.0).one(tx).await?;
    let challenges = before.as_ref().map_or("", |row| row.challenge.as_str());
    let mut spent: Vec<&str> = challenges.split(' ').filter(|name| is_young(ctx, name)).collect();
    if spent.contains(&name.as_str()) {
        return Err(none());
    }
    if spent.len() >= MOST {
        let detail = format!("a worker signs in at most {MOST} times a minute: come again later");
        return Err(Error::problem(Code::RateLimited, detail));
    }
    spent.push(&name);
    let row = challenge::Model { worker_id: worker.0, challenge: spent.join(" "), asked_at: ctx.now() };
    let row = row.into_active_model().reset_all();
    if before.is_some() {
        row.update(tx).await?
    } else {
        row.insert(tx).await?
    };
    Ok(())
}

fn read(ctx: &Ctx, worker: WorkerId, text: &str) -> Result<WorkerChallenge, Error> {
    let signed: Option<Signed> = hex::decode(text).ok().and_then(|json| serde_json::from_slice(&json).ok());
    let challenge: Option<WorkerChallenge> = signed.and_then(|signed| signed.open(&ctx.signer).ok());
    challenge.filter(|it| it.worker == worker && is_in_time(ctx, it.asked_at_unix)).ok_or_else(none)
}

/// Returns whether the minute of an answered challenge, given by its name, is not over.
fn is_young(ctx: &Ctx, name: &str) -> bool {
    let asked_at = name.split_once(':').and_then(|(asked_at, _)| asked_at.parse::<i64>().ok());
    asked_at.is_some_and(|asked_at| is_in_time(ctx, asked_at))
}

fn is_in_time(ctx: &Ctx, asked_at_unix: i64) -> bool {
    ctx.now().unix_timestamp().saturating_sub(asked_at_unix) < PATIENCE.whole_seconds()
}

fn none() -> Error {
    Error::problem(Code::Unauthenticated, "ask for a challenge first, and answer it once and within a minute")
}

#[cfg(test)]
mod tests {
    use sea_orm::EntityTrait as _;
    use time::Duration;
    use undertone_api::id::WorkerId;
    use undertone_api::problem::Code;
    use undertone_api::signed::{PresenceProof, Signed};

    use super::{MOST, PATIENCE, ask, check as look, spend};
    use crate::ctx::Ctx;
    use crate::model::challenge;
    use crate::service::presence;
    use crate::service::world::{TestConsortium, TestSite};
    use crate::testing::on_both;

    /// Returns the error code for a challenge, if it is refused.
    async fn spent(ctx: &Ctx, worker: WorkerId, text: &str) -> Option<Code> {
        let spent = ctx.db.write("test", async |tx| spend(ctx, tx, worker, text).await).await;
        spent.err().map(|error| error.code())
    }

    /// Returns the error code for a worker's answer, if it is refused.
    async fn answer_code(ctx: &Ctx, site: &TestSite, text: &str) -> Option<Code> {
        let answer = PresenceProof { worker: site.worker, challenge: text.to_owned() };
        let presence = Signed::new(&answer, &site.key).expect("it has a JSON form");
        presence::sign_in(ctx, site.worker, &presence, "1.0", &[]).await.err().map(|error| error.code())
    }

    on_both! {
        async fn challenge_is_valid_once_for_a_minute_at_any_replica(app: &TestApp) {
            let world = TestConsortium::new(&app.ctx, 2, 8.0).await;
            let (worker, neighbour) = (world.sites[1].worker, world.sites[2].worker);
            let other = app.restarted().await;
            let challenge = ask(&app.ctx, worker).await.expect("asked");
            assert_eq!(spent(&app.ctx, neighbour, &challenge).await, Some(Code::Unauthenticated), "another worker's");
            assert_eq!(spent(&other, worker, &challenge).await, None, "known there too");
            assert_eq!(spent(&app.ctx, worker, &challenge).await, Some(Code::Unauthenticated), "answered");
            let late = ask(&other, worker).await.expect("asked");
            app.clock.advance(PATIENCE - Duration::SECOND);
            look(&app.ctx, worker, &late).expect("there is a second left");
            app.clock.advance(Duration::SECOND);
            assert_eq!(spent(&app.ctx, worker, &late).await, Some(Code::Unauthenticated), "too late");
            for invented in ["", "00", "zz", &"ab".repeat(32)] {
                assert_eq!(spent(&app.ctx, worker, invented).await, Some(Code::Unauthenticated), "{invented}");
            }
        }

        async fn answer_without_the_key_spends_no_challenge(app: &TestApp) {
            let mut world = TestConsortium::new(&app.ctx, 1, 8.0).await;
            let challenge = ask(&app.ctx, world.sites[1].worker).await.expect("asked");
            let stranger = ed25519_dalek::SigningKey::from_bytes(&[3; 32]);
            let key = std::mem::replace(&mut world.sites[1].key, stranger);
            for _ in 0..2 * MOST {
                let theirs = ask(&app.ctx, world.sites[1].worker).await.expect("anybody may ask");
                for text in [&theirs, &challenge] {
                    assert_eq!(answer_code(&app.ctx, &world.sites[1], text).await, Some(Code::Unauthenticated));
                }
            }
            let rows = challenge::Entity::find().all(app.ctx.db.read()).await.expect("read");
            assert!(rows.is_empty(), "a stranger has written nothing");
            world.sites[1].key = key;
            assert_eq!(answer_code(&app.ctx, &world.sites[1], &challenge).await, None, "the first one asked still holds");
            assert_eq!(answer_code(&app.ctx, &world.sites[1], &challenge).await, Some(Code::Unauthenticated), "once");
        }

        async fn sixteen_answers_are_taken_in_a_minute_and_no_more(app: &TestApp) {
            let world = TestConsortium::new(&app.ctx, 1, 8.0).await;
            let worker = world.sites[1].worker;
            let mut open = Vec::new();
            for _ in 0..=MOST {
                open.push(ask(&app.ctx, worker).await.expect("asked"));
            }
            for text in &open[..MOST] {
                assert_eq!(spent(&app.ctx, worker, text).await, None);
            }
            assert_eq!(spent(&app.ctx, worker, &open[MOST]).await, Some(Code::RateLimited));
            assert_eq!(spent(&app.ctx, worker, &open[0]).await, Some(Code::Unauthenticated), "none is forgotten early");
            app.clock.advance(PATIENCE);
            let next = ask(&app.ctx, worker).await.expect("asked");
            assert_eq!(spent(&app.ctx, worker, &next).await, None, "a minute later there is room");
        }
    }
}
