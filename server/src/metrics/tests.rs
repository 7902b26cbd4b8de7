use axum::http::StatusCode;

use undertone_server_core::metrics::table;
use undertone_server_core::metrics_text::render;

use crate::testing::{TestApp, newcomer, on_both};

on_both! {
    async fn what_is_told_counts_and_names_nobody(app: &TestApp) {
        let founded = app.founded().await;
        app.server.get("/api/v1/me").await.assert_status(StatusCode::UNAUTHORIZED);
        app.server.get(&format!("/api/v1/consortia/{}", founded.consortium)).await.assert_status(StatusCode::UNAUTHORIZED);
        let odd = axum::http::Method::from_bytes(b"INVENTED").expect("a method");
        app.server.method(odd, "/api/v1/me").await;
        let metrics = render(&app.ctx).await.expect("text");
        for line in [
            "undertone_http_request_duration_seconds_count{method=\"GET\",route=\"/api/v1/me\",status=\"401\"} 1",
            "undertone_workers{state=\"seen\"} 0",
            "undertone_rounds_open 0",
            "undertone_ledger_entries 0",
            "undertone_object_bytes 0.0",
            "method=\"other\"",
            "# EOF",
        ] {
            assert!(metrics.contains(line), "{line} is missing:\n{metrics}");
        }
        assert!(metrics.contains("route=\"/api/v1/consortia/{id}\""), "{metrics}");
        assert!(metrics.contains("undertone_transaction_duration_seconds_count{name=\"found consortium\"") || metrics.contains("outcome=\"committed\""), "{metrics}");
        for secret in [founded.consortium.to_string(), "example.org".to_owned(), newcomer("North", None).name] {
            assert!(!metrics.contains(&secret), "{secret} is told");
        }
    }
}

#[test]
fn every_metric_is_documented() {
    let operation = include_str!("../../OPERATION.md");
    assert!(
        operation.contains(&table()),
        "put the output of `undertone-server config --metrics` into server/OPERATION.md"
    );
    assert!(
        operation.contains(&undertone_server_core::config::keys::table()),
        "and that of `undertone-server config --table`"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alerts_and_dashboard_name_existing_metrics() {
    let documented = table();
    let app = TestApp::sqlite().await;
    // Jobs and workers have a line for each occurring state, and always a type.
    let metrics = render(&app.ctx).await.expect("text");
    for (file, text) in [
        ("undertone.rules.yml", include_str!("../../../packaging/server/monitoring/undertone.rules.yml")),
        ("grafana.json", include_str!("../../../packaging/server/monitoring/grafana.json")),
    ] {
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let words = text.split(|letter| !is_name(letter)).filter(|word| word.starts_with("undertone_"));
        let names: std::collections::BTreeSet<&str> = words.collect();
        assert!(names.len() >= 7, "{file} names few metrics: {names:?}");
        for name in names {
            // The suffixes of OpenMetrics belong to the samples, not to the metric.
            let metric = ["_bucket", "_count", "_total"].iter().find_map(|suffix| name.strip_suffix(suffix));
            let metric = metric.unwrap_or(name);
            let exists = documented.contains(&format!("`{metric}`")) || metrics.contains(&format!("# TYPE {metric} "));
            assert!(exists, "{file}: there is no metric `{metric}`");
        }
    }
    app.close().await;
}
