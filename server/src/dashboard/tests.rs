use axum::http::{StatusCode, header};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use time::Duration;
use undertone_api::consortium::NewConsortium;
use undertone_api::member::JoinRequest;
use undertone_api::organization::InvitationPurpose;
use undertone_api::session::{SignIn, TokenPair};

use crate::testing::{HERE, PASSWORD, newcomer, on_both};
use undertone_server_core::auth::cookie;
use undertone_server_core::service::session::SignInResult;
use undertone_server_core::service::{consortium, invitation, session};

on_both! {
    async fn a_visitor_is_asked_to_sign_in(app: &TestApp) {
        let page = app.server.get("/sign-in").await;
        page.assert_status_ok();
        assert!(page.text().contains("password"), "{}", page.text());
        let policy = page.header(header::CONTENT_SECURITY_POLICY);
        let policy = policy.to_str().expect("text");
        assert!(policy.contains("'nonce-") && !policy.contains("unsafe-inline"), "{policy}");
        assert_eq!(page.header(header::CACHE_CONTROL), "private, no-store");
    }

    async fn worker_of_the_verification_may_load_and_compile_its_code(app: &TestApp) {
        let policy = async |address: &str| {
            let file = app.server.get(address).await;
            file.assert_status_ok();
            file.header(header::CONTENT_SECURITY_POLICY).to_str().expect("text").to_owned()
        };
        let worker = policy("/assets/verify-worker.js").await;
        assert!(worker.contains("connect-src 'self'") && worker.contains("'wasm-unsafe-eval'"), "{worker}");
        assert!(!policy("/assets/verify.js").await.contains("connect-src"), "the page's policy holds for it");
    }

    async fn a_member_sees_the_consortium(app: &TestApp) {
        let founded = app.founded().await;
        let set = cookie::store_session(&app.ctx, &founded.north.1.session.tokens);
        let jar: Vec<&str> = set.iter().filter_map(|cookie| cookie.split(';').next()).collect();
        let address = format!("/c/{}/organizations", founded.consortium);
        let page = app.server.get(&address).add_header(header::COOKIE, jar.join("; ")).await;
        page.assert_status_ok();
        assert!(page.text().contains("North") && page.text().contains("South"));
        // A stranger sees none of it.
        let stranger = app.server.get(&address).await;
        assert!(!stranger.text().contains("South"));
    }

    async fn who_only_answers_questions_sees_nothing_else(app: &TestApp) {
        let founded = app.founded().await;
        let purpose = InvitationPurpose::Annotator { consortium: founded.consortium };
        let link = app.link(&founded.operator, purpose).await;
        let annotator = app.accept(&link, newcomer("Annotator", None)).await;
        let set = cookie::store_session(&app.ctx, &annotator.session.tokens);
        let jar: Vec<&str> = set.iter().filter_map(|cookie| cookie.split(';').next()).collect();
        let get = async |address: &str| {
            let request = app.server.get(address).add_header(header::COOKIE, jar.join("; "));
            request.add_header(header::ACCEPT, "text/html").await
        };
        let home = format!("/c/{}", founded.consortium);
        let questions = format!("{home}/questions");
        for address in ["/", &home] {
            let led = get(address).await;
            led.assert_status(StatusCode::FOUND);
            assert_eq!(led.header(header::LOCATION), questions.as_str(), "{address}");
        }
        let page = get(&questions).await;
        page.assert_status_ok();
        let rail = page.text();
        let rail = rail.split("aria-label=\"Pages\"").nth(1).and_then(|rest| rest.split("</nav>").next()).expect("a rail");
        assert_eq!(rail.matches("<a ").count(), 3, "questions, notifications and settings: {rail}");
        for other in ["jobs", "datasets", "organizations", "models", "ledger"] {
            let refused = get(&format!("{home}/{other}")).await;
            assert!(refused.status_code().is_client_error(), "{other}: {}", refused.status_code());
            assert!(!refused.text().contains("North"), "{other} tells of an organization");
        }
        assert!(get(&format!("{questions}/{}", founded.consortium)).await.status_code().is_client_error());
    }

    async fn every_page_links_to_the_members_other_consortium(app: &TestApp) {
        let founded = app.founded().await;
        let new = NewConsortium {
            name: "Second".to_owned(),
            description: String::new(),
            organization: None,
            organization_name: None,
        };
        let operator = founded.operator.actor(app).await;
        let second = consortium::create(&app.ctx, &operator, &new).await.expect("founded").id;
        let link = app.link(&founded.operator, InvitationPurpose::Organization { consortium: second }).await;
        let secret = link.rsplit('/').next().expect("a link has parts");
        let own = JoinRequest { organization: Some(founded.north.0), organization_name: None };
        invitation::join(&app.ctx, &founded.north.1.actor(app).await, secret, &own).await.expect("joined");
        let set = cookie::store_session(&app.ctx, &founded.north.1.session.tokens);
        let jar: Vec<&str> = set.iter().filter_map(|cookie| cookie.split(';').next()).collect();
        let get = async |address: String| app.server.get(&address).add_header(header::COOKIE, jar.join("; ")).await.text();
        let home = get("/".to_owned()).await;
        assert!(home.contains("Speech") && home.contains("Second"), "{home}");
        for (here, there) in [(founded.consortium, second), (second, founded.consortium)] {
            for page in ["", "/jobs", "/plan", "/datasets", "/organizations", "/models", "/questions", "/ledger"] {
                let html = get(format!("/c/{here}{page}")).await;
                assert!(html.contains(&format!("href=\"/c/{there}\"")), "{page} does not lead to the other");
                assert!(html.contains(&format!("href=\"/c/{here}/jobs\"")), "{page} does not lead to its own jobs");
            }
            let people = get(format!("/c/{here}/organizations/{}", founded.north.0)).await;
            assert!(people.contains("NorthAdmin") && people.contains("action=\"/ui/assign-roles\""), "{people}");
        }
        let south = get(format!("/c/{second}/organizations")).await;
        assert!(!south.contains("South"), "the second consortium is without it");
    }

    async fn an_address_of_nothing_is_not_found(app: &TestApp) {
        app.server.get("/no/such/page").await.assert_status(StatusCode::NOT_FOUND);
        app.server.get("/pkg/../../etc/passwd").await.assert_status(StatusCode::NOT_FOUND);
        app.server.get("/assets/nothing.css").await.assert_status(StatusCode::NOT_FOUND);
    }

    async fn a_file_is_sent_once(app: &TestApp) {
        let first = app.server.get("/assets/undertone.css").await;
        first.assert_status_ok();
        assert_eq!(first.header(header::CONTENT_TYPE), "text/css; charset=utf-8");
        let etag = first.header(header::ETAG);
        let again = app.server.get("/assets/undertone.css").add_header(header::IF_NONE_MATCH, etag).await;
        again.assert_status(StatusCode::NOT_MODIFIED);
        assert!(again.as_bytes().is_empty());
    }

    async fn a_form_from_another_site_is_refused(app: &TestApp) {
        let forged = app.server.post("/ui/sign_in").add_header("sec-fetch-site", "cross-site").await;
        forged.assert_status(StatusCode::FORBIDDEN);
    }
    async fn secret_for_next_page_is_sealed_for_its_session(app: &TestApp) {
        let person = app.operator().await;
        let jar = |tokens: &TokenPair, word: &str| {
            let set = cookie::store_session(&app.ctx, tokens);
            let pairs: Vec<&str> = set.iter().filter_map(|cookie| cookie.split(';').next()).collect();
            format!("{}; {word}", pairs.join("; "))
        };
        let own = &person.session.tokens;
        let post = app.server.post("/ui/offer-factor").add_header(header::COOKIE, jar(own, ""));
        let response = post.add_header(header::ACCEPT, "text/html").form(&Vec::<(String, String)>::new()).await;
        response.assert_status(StatusCode::FOUND);
        let mut set = response.headers().get_all(header::SET_COOKIE).iter().filter_map(|value| value.to_str().ok());
        let word = set.find(|cookie| cookie.starts_with("undertone-word=")).expect("word is left");
        let word = word.split(';').next().unwrap_or_default().to_owned();
        let get = async |tokens: &TokenPair, word: &str| {
            let request = app.server.get("/settings/security").add_header(header::COOKIE, jar(tokens, word));
            request.add_header(header::ACCEPT, "text/html").await.text()
        };
        let right = SignIn { email: "operator@example.org".to_owned(), password: PASSWORD.to_owned() };
        let Ok(SignInResult::Whole(other)) = session::sign_in(&app.ctx, HERE, &right).await else { panic!("signed in") };
        assert!(!get(&other.tokens, &word).await.contains("otpauth://"), "another session of the same member");
        let planted = URL_SAFE_NO_PAD.encode(r#"{"Done":"a word of another site"}"#);
        let planted = get(own, &format!("undertone-word={planted}")).await;
        assert!(!planted.contains("a word of another site"), "{planted}");
        let page = get(own, &word).await;
        assert!(page.contains("otpauth://"), "{page}");
        app.clock.advance(Duration::seconds(61));
        assert!(!get(own, &word).await.contains("otpauth://"), "it is over after a minute");
    }
}
