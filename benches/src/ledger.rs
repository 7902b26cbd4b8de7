//! The ledger under load: 32 clients reserve, then commit, then settle. Each release has its receipt, its place in the
//! log, a signed head that covers it, and a countersignature. The comparison is a bare durable insert of one row by the
//! same clients on the same connections, each in a transaction of its own.

use serde_json::json;
use support::stage::{TestDatabase, TestResult};
use undertone_server::build;
use undertone_server_core::Config;
use undertone_server_core::ctx::{Clock, Ctx, Random};
use undertone_server_core::service::ledger::bench::{BenchFigures, bare, durability, ledger};

use crate::report::{Outcome, Report};

/// Concurrent clients; a single one shows the time of a transaction without waiting.
const CLIENTS: [usize; 2] = [1, 32];
/// Jobs of each client, and releases of each job.
const JOBS: usize = 8;
const RELEASES: u64 = 16;
/// The number of measurements; every pass is printed.
const PASSES: usize = 3;

pub(crate) fn run(report: &mut Report) -> Outcome {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(measure(report)).map_err(|error| -> Box<dyn std::error::Error> { error })
}

async fn measure(report: &mut Report) -> TestResult<()> {
    on(report, "sqlite", None).await?;
    match TestDatabase::postgres()? {
        Some(database) => on(report, "postgres", database.url()).await,
        None => Err("there is no PostgreSQL: set UNDERTONE_TEST_DATABASE_URL, as .ci/with-postgres.sh does".into()),
    }
}

async fn on(report: &mut Report, name: &str, url: Option<String>) -> TestResult<()> {
    let folder = tempfile::tempdir()?;
    let config = Config {
        http: ([127, 0, 0, 1], 0).into(),
        grpc: ([127, 0, 0, 1], 0).into(),
        data_dir: folder.path().to_owned(),
        database_url: url,
        ..Config::default()
    };
    let app = build(config, Clock::system(), Random::system()).await?;
    let settings = durability(&app.ctx).await?;
    for pass in 1..=PASSES {
        for clients in CLIENTS {
            let place = json!({ "database": name, "durability": settings, "pass": pass });
            once(report, &app.ctx, &place, clients).await?;
        }
    }
    app.ctx.db.clone().close().await?;
    Ok(())
}

async fn once(report: &mut Report, ctx: &Ctx, place: &serde_json::Value, clients: usize) -> TestResult<()> {
    let bare = bare(ctx, clients, JOBS * RELEASES as usize).await?;
    let ledger = ledger(ctx, clients, JOBS, RELEASES).await?;
    for figures in std::iter::once(&bare).chain(&ledger) {
        print_figures(report, place, figures, figures.per_second / bare.per_second)?;
    }
    Ok(())
}

fn print_figures(
    report: &mut Report,
    place: &serde_json::Value,
    figures: &BenchFigures,
    of_bare_insert: f64,
) -> TestResult<()> {
    let mut line = place.clone();
    let (Some(fields), serde_json::Value::Object(more)) = (line.as_object_mut(), serde_json::to_value(figures)?) else {
        return Err("figures are an object".into());
    };
    fields.extend(more);
    fields.insert("of_bare_insert".to_owned(), json!(of_bare_insert));
    report.line(line).map_err(|error| error.to_string().into())
}
