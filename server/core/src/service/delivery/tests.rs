use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use sea_orm::{EntityTrait as _, PaginatorTrait as _};
use time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use undertone_api::notification::NotificationKind;
use uuid::Uuid;

use super::{LONGEST_PAUSE, MOST_ATTEMPTS, MOST_WAITING, deliver_due, enqueue, pause};
use crate::config::{Config, MailConfig, MailTls, WebhookConfig};
use crate::ctx::Ctx;
use crate::model::notice_delivery;
use crate::model::notice_delivery::NoticeChannel;
use crate::outbound::{Channels, sign};
use crate::service::notification::credential::{self, CredentialChange};
use crate::testing::{Person, TestApp};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

type Lines = Arc<Mutex<Vec<String>>>;

/// Speaks SMTP with one client, and stores each received line.
async fn speak_smtp(stream: TcpStream, lines: Lines) -> std::io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader).lines();
    writer.write_all(b"220 mail.test ESMTP\r\n").await?;
    let mut in_data = false;
    while let Some(line) = reader.next_line().await? {
        let answer = match line.split([' ', ':']).next().unwrap_or_default() {
            "." if in_data => {
                in_data = false;
                "250 taken\r\n"
            }
            _ if in_data => "",
            "EHLO" => "250-mail.test\r\n250 8BITMIME\r\n",
            "DATA" => {
                in_data = true;
                "354 go on\r\n"
            }
            "QUIT" => "221 bye\r\n",
            _ => "250 ok\r\n",
        };
        lines.lock().expect("no test fails while it writes").push(line);
        writer.write_all(answer.as_bytes()).await?;
    }
    Ok(())
}

/// Starts a mail server on this machine.
async fn mail_server() -> (SocketAddr, Lines) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let lines = Lines::default();
    let shared_lines = Arc::clone(&lines);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(speak_smtp(stream, Arc::clone(&shared_lines)));
        }
    });
    (address, lines)
}

type Posts = Arc<Mutex<Vec<(HeaderMap, String)>>>;

/// Starts a receiver on this machine that answers 503 to the first `refused` posts.
async fn receiver(refused: usize) -> (SocketAddr, Posts) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let posts = Posts::default();
    let shared_posts = Arc::clone(&posts);
    let count = Arc::new(AtomicUsize::new(0));
    let take = move |headers: HeaderMap, body: String| {
        let (shared_posts, count) = (Arc::clone(&shared_posts), Arc::clone(&count));
        async move {
            shared_posts.lock().expect("no test fails while it writes").push((headers, body));
            let is_refused = count.fetch_add(1, Ordering::SeqCst) < refused;
            if is_refused { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::NO_CONTENT }
        }
    };
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/notices", post(take))).await });
    (address, posts)
}

fn with_webhook(config: &mut Config, address: SocketAddr) {
    config.webhook = WebhookConfig {
        url: Some(format!("http://{address}/notices")),
        secret: Some(SECRET.to_owned()),
        private_network: true,
    };
}

/// Announces a change of a person's credentials.
async fn announce(app: &TestApp, person: &Person) {
    let member = person.session.member.id;
    let work = app
        .ctx
        .db
        .write("test", async |tx| credential::announce(&app.ctx, tx, member, CredentialChange::RecoveryCodeUsed).await);
    work.await.expect("announced");
}

async fn waiting(ctx: &Ctx) -> u64 {
    notice_delivery::Entity::find().count(ctx.db.read()).await.expect("counted")
}

/// Sends the due notices and asserts that none remains.
async fn settle_all(app: &TestApp, channels: &Channels) {
    deliver_due(&app.ctx, channels).await.expect("sent");
    assert_eq!(waiting(&app.ctx).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn security_notice_is_sent_to_the_member_by_mail() {
    let (address, lines) = mail_server().await;
    let app = TestApp::sqlite_with(|config| {
        config.mail = MailConfig {
            server: Some(address.to_string()),
            tls: MailTls::None,
            from: "Undertone <undertone@example.org>".to_owned(),
            ..MailConfig::default()
        };
    })
    .await;
    let channels = Channels::new(&app.ctx.config).expect("made");
    let person = app.operator().await;
    settle_all(&app, &channels).await;
    lines.lock().expect("kept").clear();
    announce(&app, &person).await;
    assert_eq!(deliver_due(&app.ctx, &channels).await.expect("sent"), 1);
    let text = lines.lock().expect("kept").join("\n");
    for part in [
        "RCPT TO:<operator@example.org>",
        "From: Undertone <undertone@example.org>",
        "Subject: Undertone: credentials were reset or changed",
        "A recovery code of Operator was used in place of the second factor.",
    ] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
    assert_eq!(deliver_due(&app.ctx, &channels).await.expect("nothing is due"), 0);
    app.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_post_is_repeated_after_a_restart_with_its_id() {
    let (address, posts) = receiver(1).await;
    let app = TestApp::sqlite_with(|config| with_webhook(config, address)).await;
    let channels = Channels::new(&app.ctx.config).expect("made");
    let person = app.operator().await;
    announce(&app, &person).await;
    let queued = waiting(&app.ctx).await;
    assert!(queued > 0);
    assert_eq!(deliver_due(&app.ctx, &channels).await.expect("tried") as u64, queued);
    assert_eq!(waiting(&app.ctx).await, 1, "the first was refused");
    assert_eq!(deliver_due(&app.ctx, &channels).await.expect("not due"), 0);
    let replica = app.restarted().await;
    app.clock.advance(Duration::minutes(1));
    assert_eq!(deliver_due(&replica, &channels).await.expect("tried again"), 1);
    assert_eq!(waiting(&replica).await, 0);
    let posts = posts.lock().expect("kept").clone();
    let header = |post: &(HeaderMap, String), name: &str| post.0[name].to_str().expect("text").to_owned();
    let (first, last) = (&posts[0], &posts[posts.len() - 1]);
    assert_eq!(header(first, "webhook-id"), header(last, "webhook-id"));
    assert_eq!(first.1, last.1, "the body is the same");
    assert_ne!(header(first, "webhook-timestamp"), header(last, "webhook-timestamp"));
    for post in &posts {
        let (id, timestamp) = (header(post, "webhook-id"), header(post, "webhook-timestamp"));
        let expected = sign(SECRET, &id, &timestamp, &post.1).expect("signed");
        assert_eq!(header(post, "webhook-signature"), expected);
    }
    replica.shutdown.cancel();
    replica.db.clone().close().await.expect("closed");
    app.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn notice_that_never_arrives_is_given_up() {
    // No process listens at this port after the listener is dropped.
    let address =
        TcpListener::bind("127.0.0.1:0").await.and_then(|listener| listener.local_addr()).expect("a free port");
    let app = TestApp::sqlite_with(|config| with_webhook(config, address)).await;
    let channels = Channels::new(&app.ctx.config).expect("made");
    let person = app.operator().await;
    announce(&app, &person).await;
    for _ in 0..MOST_ATTEMPTS {
        assert!(waiting(&app.ctx).await > 0);
        deliver_due(&app.ctx, &channels).await.expect("tried");
        app.clock.advance(LONGEST_PAUSE);
    }
    assert_eq!(waiting(&app.ctx).await, 0);
    app.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_security_notices_are_queued_and_no_more_than_fit() {
    let (address, _) = receiver(0).await;
    let app = TestApp::sqlite_with(|config| with_webhook(config, address)).await;
    let member = app.operator().await.session.member.id.0;
    let queue = async |kind: NotificationKind| {
        app.ctx.db.write("test", async |tx| enqueue(&app.ctx, tx, member, kind, "a text").await).await.expect("queued");
    };
    let before = waiting(&app.ctx).await;
    for kind in NotificationKind::ALL.iter().filter(|kind| kind.can_be_switched_off()) {
        queue(*kind).await;
    }
    assert_eq!(waiting(&app.ctx).await, before);
    let rows = (before..MOST_WAITING - 1).map(|_| notice_delivery::Model {
        id: Uuid::now_v7(),
        member_id: member,
        channel: NoticeChannel::Webhook.into(),
        kind: NotificationKind::SignInNew.into(),
        text: "a text".to_owned(),
        at: app.ctx.now(),
        attempts: 0,
        due_at: app.ctx.now(),
    });
    let rows: Vec<notice_delivery::Model> = rows.collect();
    for part in rows.chunks(1000) {
        let part = part.iter().cloned().map(sea_orm::IntoActiveModel::into_active_model);
        let filled = app.ctx.db.write("test", async |tx| {
            notice_delivery::Entity::insert_many(part.clone()).exec_without_returning(tx).await?;
            Ok(())
        });
        filled.await.expect("filled");
    }
    queue(NotificationKind::SignInNew).await;
    assert_eq!(waiting(&app.ctx).await, MOST_WAITING, "the last that fits");
    queue(NotificationKind::SignInNew).await;
    assert_eq!(waiting(&app.ctx).await, MOST_WAITING, "one more is not sent");
    app.close().await;
}

#[test]
fn pauses_double_from_a_minute_to_six_hours() {
    let minutes: Vec<i64> = (0..12).map(|attempts| pause(attempts).whole_minutes()).collect();
    assert_eq!(minutes, [1, 2, 4, 8, 16, 32, 64, 128, 256, 360, 360, 360]);
}
