use axum::http::{StatusCode, header};
use undertone_server_core::service::report;
use undertone_server_core::service::world::TestConsortium;

use crate::testing::on_both;

on_both! {
    async fn a_report_is_taken_away_and_comes_back_over_rest(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let job = world.propose(world.spec(2)).await.expect("proposed").summary.id;
        app.server.get(&format!("/api/v1/jobs/{job}/report")).await.assert_status(StatusCode::UNAUTHORIZED);
        app.server.get(&format!("/api/v1/jobs/{job}/report.html")).await.assert_status(StatusCode::UNAUTHORIZED);
        let bearer = app.operator().await.bearer();
        let strange = app.server.get(&format!("/api/v1/jobs/{job}/report")).add_header(header::AUTHORIZATION, &bearer).await;
        strange.assert_status(StatusCode::NOT_FOUND);
        let file = report::get(&world.ctx, &world.sites[1].steward, job).await.expect("a party sees it");
        let again = app.server.post(&format!("/api/v1/consortia/{}/jobs/again", world.consortium));
        // An operator may know the consortium, and is not a researcher in it.
        again.add_header(header::AUTHORIZATION, &bearer).json(&file).await.assert_status(StatusCode::FORBIDDEN);
    }
}
