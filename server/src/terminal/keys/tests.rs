mod certified;

use time::Duration;
use undertone_api::account::FactorCode;

use super::{KeysCommand, KeysError, PruneOptions, RotateOptions, SecretKind, execute};
use crate::App;
use crate::testing::{TestApp, code, on_both};
use undertone_server_core::ctx::Ctx;
use undertone_server_core::keys::{FACTOR_FILE, TOKEN_FILE};
use undertone_server_core::service::factor;
use undertone_server_core::service::session::{RenewedSession, refresh, signed_in};

/// Runs a command on the server's data folder.
async fn command(app: &TestApp, command: KeysCommand) -> Result<String, KeysError> {
    execute(&app.ctx.config, &command, &app.clock.clock(), &app.ctx.random).await
}

fn rotate(kind: SecretKind, after: u32, stolen: bool) -> KeysCommand {
    KeysCommand::Rotate(RotateOptions { kind, after, stolen })
}

fn prune(kind: SecretKind) -> KeysCommand {
    KeysCommand::Prune(PruneOptions { kind })
}

/// Starts a second server on the same database, with its own data folder and the same keys.
async fn replica(app: &TestApp, folder: &tempfile::TempDir) -> Ctx {
    for name in [TOKEN_FILE, FACTOR_FILE, "signing.key"] {
        copy(app, folder, name);
    }
    let mut config = app.ctx.config.clone();
    config.database_url = Some(config.database());
    config.data_dir = folder.path().to_owned();
    let App { ctx, .. } = app.restarted_with(config).await;
    ctx
}

fn copy(app: &TestApp, to: &tempfile::TempDir, name: &str) {
    std::fs::copy(app.data_dir().join(name), to.path().join(name)).expect("the server made it");
}

/// Returns the id of the key with which a server signs tokens.
fn signing_id(ctx: &Ctx) -> String {
    ctx.keys.token().current(ctx.now()).id().to_owned()
}

/// Returns the next access token of a session.
async fn renewed(ctx: &Ctx, refresh_token: &str) -> String {
    match refresh(ctx, refresh_token).await.expect("the session holds") {
        RenewedSession::Pair(_, tokens) => tokens.access_token,
        RenewedSession::Late(_) => panic!("it was not replaced yet"),
    }
}

on_both! {
    async fn token_key_rotates_over_two_servers_without_a_sign_out(app: &TestApp) {
        let tokens = app.operator().await.session.tokens;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let second = replica(app, &folder).await;
        signed_in(&second, &tokens.access_token).await.expect("both have the same key");

        let text = command(app, rotate(SecretKind::Token, 60, false)).await.expect("rotated");
        assert!(text.contains("2026-11-20T13:00:00Z"), "{text}");
        app.ctx.keys.reload(app.clock.now());
        copy(app, &folder, TOKEN_FILE);
        second.keys.reload(app.clock.now());
        let first = signing_id(&app.ctx);
        signed_in(&second, &tokens.access_token).await.expect("the old key is in force");
        app.clock.advance(Duration::hours(1));
        assert_ne!(signing_id(&app.ctx), first, "the new key is in force");
        assert_eq!(signing_id(&app.ctx), signing_id(&second));

        let token = renewed(&app.ctx, &tokens.refresh_token).await;
        signed_in(&second, &token).await.expect("made by the new key");
        app.clock.advance(Duration::seconds(1));
        command(app, rotate(SecretKind::Token, 0, false)).await.expect("the one before is in force");
        app.ctx.keys.reload(app.clock.now());
        signed_in(&app.ctx, &token).await.expect("its key was replaced a moment ago");
        second.db.clone().close().await.expect("closed");
    }

    async fn stolen_token_key_ends_every_token_at_once(app: &TestApp) {
        let tokens = app.operator().await.session.tokens;
        command(app, rotate(SecretKind::Token, 60, true)).await.expect("replaced");
        signed_in(&app.ctx, &tokens.access_token).await.expect("not read yet");
        app.ctx.keys.reload(app.clock.now());
        signed_in(&app.ctx, &tokens.access_token).await.expect_err("another key's");
        let token = renewed(&app.ctx, &tokens.refresh_token).await;
        signed_in(&app.ctx, &token).await.expect("sessions go on");
        let refused = command(app, rotate(SecretKind::Factor, 60, true)).await.expect_err("it seals what is stored");
        assert!(matches!(refused, KeysError::Stolen), "{refused}");
    }

    async fn second_factors_are_sealed_again_and_the_old_key_goes(app: &TestApp) {
        let actor = app.operator().await.actor(app).await;
        let offered = factor::offer(&app.ctx, &actor).await.expect("offered");
        let typed = FactorCode { code: code(&offered.secret, app) };
        factor::confirm(&app.ctx, &actor, &typed).await.expect("right");
        let first = app.ctx.keys.factor().keys()[0].id().to_owned();
        assert_eq!(factor::reseal(&app.ctx).await.expect("looked"), 0, "there is one key");

        command(app, rotate(SecretKind::Factor, 30, false)).await.expect("rotated");
        app.ctx.keys.reload(app.clock.now());
        assert_eq!(factor::reseal(&app.ctx).await.expect("looked"), 0, "it is not in force yet");
        app.clock.advance(Duration::minutes(30));
        let text = command(app, prune(SecretKind::Factor)).await.expect("looked");
        assert!(text.starts_with("0 keys") && text.contains(&first), "the old key is needed: {text}");
        assert_eq!(factor::reseal(&app.ctx).await.expect("sealed again"), 1);
        assert_eq!(factor::reseal(&app.ctx).await.expect("looked"), 0, "once");
        let current = app.ctx.keys.factor().keys()[1].id().to_owned();
        assert_eq!(factor::sealed_by(&app.ctx.db, &current, false).await.expect("counted"), 1);
        assert_eq!(factor::sealed_by(&app.ctx.db, &first, true).await.expect("counted"), 0);

        let text = command(app, prune(SecretKind::Factor)).await.expect("pruned");
        assert!(text.starts_with("1 keys") && text.contains(&current) && !text.contains(&first), "{text}");
        app.ctx.keys.reload(app.clock.now());
        let typed = FactorCode { code: code(&offered.secret, app) };
        factor::renew_codes(&app.ctx, &actor, &typed).await.expect("the new key opens it");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_listed_by_id_without_secrets() {
    let app = TestApp::sqlite().await;
    command(&app, rotate(SecretKind::Token, 60, false)).await.expect("rotated");
    let text = command(&app, KeysCommand::List).await.expect("listed");
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(text.contains("in force from 2026-11-20T13:00:00Z"), "{text}");
    let secrets = std::fs::read_to_string(app.data_dir().join(TOKEN_FILE)).expect("read");
    for line in secrets.lines() {
        assert!(!text.contains(&line[..64]), "a secret is shown");
    }
    let refused = command(&app, rotate(SecretKind::Token, 30, false)).await.expect_err("a later one is published");
    assert!(matches!(refused, KeysError::Ring { .. }), "{refused}");
    app.close().await;
}
