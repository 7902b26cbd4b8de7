//! One trace shows a round at the site and at the server: the site's trace headers, read back from its line.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message as _;
use support::line::LineProxy;
use support::port;
use support::stage::{TestDatabase, TestResult};
use support::wire::{WireCall, calls};
use undertone_proto::v1;

use support::scene;

const ROUNDS: u32 = 2;

/// Returns the series and round of a call, if it has one.
fn round(call: &WireCall) -> TestResult<Option<(String, u32)>> {
    let Some(first) = call.messages.first() else { return Ok(None) };
    Ok(match call.path.rsplit('/').next() {
        Some("Submit") => match v1::SubmitChunk::decode(&first[..])?.part {
            Some(v1::submit_chunk::Part::Header(header)) => Some((header.series, header.round)),
            _ => None,
        },
        Some("Average") => {
            let request = v1::AverageRequest::decode(&first[..])?;
            Some((request.series, request.round))
        }
        _ => None,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_a_round_share_one_trace_when_tracing_is_on() -> TestResult<()> {
    let mut stage = scene::set(TestDatabase::Sqlite).await?;
    let line = LineProxy::tap(stage.gateway()).await?;
    stage.sites[1].connect_over(&line)?;
    stage.open().await?;
    scene::set_budgets(&stage, 60.0).await?;
    stage.sites[1].stop()?;
    // No collector listens there: undelivered traces stop nothing.
    let collector = format!("http://127.0.0.1:{}", port::free()?);
    stage.sites[1].start(&[("OTEL_EXPORTER_OTLP_ENDPOINT", collector.as_str())])?;
    scene::run_small_job(&stage, ROUNDS).await?;
    stage.sites[1].stop()?;

    let (mut sent, mut taken) = (BTreeMap::<_, BTreeSet<String>>::new(), BTreeMap::<_, BTreeSet<String>>::new());
    for connection in line.uploads() {
        for call in calls(connection).await? {
            let borne = call.headers.iter().find(|(name, _)| name == "traceparent").map(|(_, value)| value.as_str());
            match (round(&call)?, borne) {
                (Some(round), Some(borne)) => {
                    let trace = borne.split('-').nth(1).filter(|trace| trace.len() == 32);
                    let trace = trace.ok_or_else(|| format!("{borne} is no traceparent"))?.to_owned();
                    let all = if call.path.ends_with("/Submit") { &mut sent } else { &mut taken };
                    all.entry(round).or_default().insert(trace);
                }
                (Some(round), None) => return Err(format!("{} of {round:?} bears no trace", call.path).into()),
                (None, Some(borne)) => assert!(!call.path.ends_with("/NextOffer"), "waiting is of no round: {borne}"),
                (None, None) => {}
            }
        }
    }
    assert!(sent.len() >= ROUNDS as usize, "{sent:?}");
    let mut earlier = BTreeSet::new();
    for (round, traces) in &sent {
        assert!(traces.is_subset(&taken[round]), "{round:?}: {traces:?} and {:?}", taken[round]);
        for trace in traces {
            assert!(earlier.insert(trace), "{round:?} has the trace of another round");
        }
    }
    Ok(())
}
