//! Members of a [`TestConsortium`](super::TestConsortium) with real sign-ins: rows, roles, tokens.

use object_store::ObjectStoreExt as _;
use sea_orm::{ActiveModelTrait as _, IntoActiveModel as _};
use sha2::{Digest as _, Sha256};
use undertone_api::id::{ArtifactId, JobId, MemberId};
use undertone_api::member::RoleGrant;

use crate::auth::Origin;
use crate::ctx::Ctx;
use crate::exchange::artifact as files;
use crate::model::{artifact, member};
use crate::service::{member as members, session};

/// Makes a member with these roles, with a random password.
pub async fn somebody(ctx: &Ctx, name: &str, operator: bool, grants: &[RoleGrant]) -> MemberId {
    let hash = ctx.passwords.hash(&ctx.random.secret(), ctx.random.bytes()).await.unwrap();
    let row = member::Model {
        id: ctx.id::<MemberId>().0,
        name: name.to_owned(),
        email: format!("{}@people.example.org", name.replace(' ', "-")),
        password_hash: hash,
        operator,
        created_at: ctx.now(),
        retired_at: None,
        address_confirmed_at: None,
    };
    ctx.db
        .write("test", async |tx| {
            let row = row.clone().into_active_model().insert(tx).await?;
            for grant in grants {
                members::grant(tx, MemberId(row.id), grant.scope, grant.role).await?;
            }
            Ok(MemberId(row.id))
        })
        .await
        .unwrap()
}

/// Returns the access token of a new session.
pub async fn token(ctx: &Ctx, member: MemberId) -> String {
    let here = Origin::from(std::net::IpAddr::from([127, 0, 0, 1]));
    let session = ctx.db.write("test", async |tx| session::begin(ctx, tx, member, &here).await).await;
    session.unwrap().access_token
}

/// Stores a file of a job, as its lead does.
pub async fn file(ctx: &Ctx, job: JobId) -> ArtifactId {
    let content = b"a model".as_slice();
    let digest = hex::encode(Sha256::digest(content));
    ctx.store.put(&files::path(job, &digest), content.to_vec().into()).await.unwrap();
    let row = artifact::Model {
        id: ctx.id::<ArtifactId>().0,
        job_id: job.0,
        name: "model.safetensors".to_owned(),
        size: content.len() as i64,
        digest,
        created_at: ctx.now(),
        deleted_at: None,
        deleted_by: None,
        deletion_reason: None,
    };
    let row = ctx.db.write("test", async |tx| Ok(row.clone().into_active_model().insert(tx).await?)).await.unwrap();
    row.id.into()
}
