use axum::http::{HeaderValue, header};

use crate::testing::on_both;

on_both! {
    async fn page_with_an_invented_cookie_takes_no_writer(app: &TestApp) {
        let first = app.operator().await.session.tokens;
        let (id, _) = first.refresh_token.split_once('.').expect("two parts");
        let cookie = HeaderValue::from_str(&format!("undertone-refresh={id}.{}", "0".repeat(96))).expect("a header");
        for path in ["/sign-in", "/api/v1/me"] {
            app.server.get(path).add_header(header::COOKIE, cookie.clone()).await;
        }
        assert_eq!(app.ctx.db.timings().statements("refresh session"), 0);
    }
}
