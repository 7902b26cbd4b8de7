//! Monitoring of a server, and its shutdown.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use support::port;
use support::stage::{TestConsortium, TestDatabase, TestResult, wait_until_so};

use support::scene;

#[tokio::test(flavor = "multi_thread")]
async fn server_shutdown_is_bounded_with_workers_and_open_upload() -> TestResult<()> {
    let port = port::free()?;
    let metrics = format!("127.0.0.1:{port}");
    let mut stage = scene::set_with(TestDatabase::Sqlite, &[("UNDERTONE_METRICS", &metrics)]).await?;
    stage.open().await?;

    // Each worker counts as seen when it first waits for work.
    let all_seen = "undertone_workers{state=\"seen\"} 4";
    wait_until_so("every worker is seen", || read(&metrics).is_ok_and(|text| text.contains(all_seen))).await?;
    let text = read(&metrics)?;
    for line in [
        "undertone_grpc_call_duration_seconds_bucket",
        "undertone_http_request_duration_seconds_count",
        "undertone_transaction_duration_seconds_count",
        "undertone_process_resident_memory_bytes",
        // The workers' own polling rate reaches no limit.
        "undertone_requests_turned_away_total 0",
    ] {
        assert!(text.contains(line), "{line} is missing:\n{text}");
    }
    assert!(text.contains("method=\"/undertone.v1.WorkerGateway/SignIn\",code=\"Ok\""), "{text}");
    for site in &stage.sites {
        assert!(!text.contains(&site.organization.to_string()) && !text.contains(&site.name), "nobody is named");
    }

    // The workers wait for work, half a minute at a time; the shutdown does not wait for them.
    let start = Instant::now();
    let ended = stage.stop_server(Duration::from_secs(8))?;
    assert!(ended.success(), "it ended by itself: {ended:?}");
    let waiting = start.elapsed();

    stage.start_server()?;
    let mut upload = TcpStream::connect(stage.address().trim_start_matches("http://"))?;
    upload.write_all(
        b"POST /api/v1/session HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{",
    )?;
    // The server has read the upload's request once it answers a later request on another connection.
    let mut other = TcpStream::connect(stage.address().trim_start_matches("http://"))?;
    other.write_all(b"GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    other.read_to_string(&mut String::new())?;
    let start = Instant::now();
    let ended = stage.stop_server(Duration::from_secs(15))?;
    assert!(ended.success(), "{ended:?}");
    assert!(start.elapsed() < Duration::from_secs(13), "ten seconds are its grace: {:?}", start.elapsed());
    eprintln!("stopped after {waiting:?} with waiting workers, after {:?} with an endless upload", start.elapsed());
    Ok(())
}

#[test]
fn a_log_that_no_terminal_shows_has_no_colours() -> TestResult<()> {
    let (stage, _) = TestConsortium::vacant_with(TestDatabase::Sqlite, &[("NO_COLOR", "")])?;
    let output = stage.server()?.output();
    assert!(output.contains("serving") && !output.contains('\u{1b}'), "{output:?}");
    Ok(())
}

/// Returns the metrics that Prometheus would read.
fn read(address: &str) -> TestResult<String> {
    let mut watching = TcpStream::connect(address)?;
    watching.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    watching.read_to_string(&mut text)?;
    Ok(text)
}
