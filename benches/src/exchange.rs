//! A round of the paper's model over a slow line: bytes and seconds in every precision, packed and not, compared with
//! the earlier plain f32; and the cost of a broken connection.
//!
//! The server is the product's, the client is the worker's own gateway, the line is a loopback proxy. The sent vectors
//! resemble releases, which are mostly noise. The round's other participant has a fast line and is always first.

use std::time::{Duration, Instant};

use serde_json::json;
use sha2::{Digest as _, Sha256};
use support::line::{LineDirection, LineProxy, LineQuality};
use support::stage::{ArmRounds, JobPlan, TestConsortium, TestDatabase, TestResult, TestSite};
use undertone_api::dataset::{Dataset, DatasetRegistration};
use undertone_api::job::dp_sgd::Precision;
use undertone_privacy::PrivacyUnit;
use undertone_proto::vector::{VectorForm, code, write};
use undertone_worker::config::{Config, ServerEndpoint};
use undertone_worker::gateway::{AverageQuery, Download, Gateway, GatewayError, ServerOffer};
use undertone_worker::site::folder::Folder;
use undertone_worker::site::keys::SiteKey;
use undertone_worker::site::outbox::StoredVector;

use crate::report::{Outcome, Report};

/// 13 coefficients, 200 units, 9,096 classes.
const HIDDEN: u32 = 200;
const CLASSES: u32 = 9096;
const LINE: LineQuality = LineQuality { bits_per_second: Some(10_000_000), delay: Duration::from_millis(25) };
const WAIT: Duration = Duration::from_secs(20);

pub(crate) fn run(report: &mut Report) -> Outcome {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(measure(report)).map_err(|error| -> Box<dyn std::error::Error> { error })
}

/// A site at the end of a line.
struct SiteEnd {
    gateway: Gateway,
    dataset: Dataset,
    /// The leases of earlier jobs, whose last rounds stay open: the server offers a job again unless the site reports
    /// its lease.
    held: Vec<String>,
}

/// A running job with its two sites.
struct ExchangeRound<'a> {
    line: &'a LineProxy,
    near: &'a SiteEnd,
    far: &'a SiteEnd,
    leases: [String; 2],
    precision: Precision,
}

async fn measure(report: &mut Report) -> TestResult<()> {
    let stage = TestConsortium::set(TestDatabase::Sqlite, &["Library", "Mirror"]).await?;
    let line = LineProxy::lay(stage.gateway(), LINE).await?;
    let mut near = SiteEnd::open(&stage, &stage.sites[0], "library", None).await?;
    let mut far = SiteEnd::open(&stage, &stage.sites[1], "mirror", Some(&line)).await?;
    for precision in [Precision::F32, Precision::Bf16, Precision::Int8] {
        let leases = propose(&stage, &mut near, &mut far, precision).await?;
        let round = ExchangeRound { line: &line, near: &near, far: &far, leases, precision };
        if precision == Precision::F32 {
            round.measure_plain(report).await?;
        }
        for (number, packed) in [(1, false), (2, true)] {
            round.exchange(report, number, packed, None).await?;
        }
        // The third round's connection breaks when half of the vector is sent.
        round.exchange(report, 3, true, Some(0.5)).await?;
    }
    Ok(())
}

impl SiteEnd {
    async fn open(stage: &TestConsortium, site: &TestSite, name: &str, line: Option<&LineProxy>) -> TestResult<Self> {
        let folder = Folder::new(site.folder());
        let config = Config::load(&folder)?;
        let certificate = config.server.certificate().map(hex::encode);
        let scheme = config.server.address().split("://").next().unwrap_or_default();
        let server = match line {
            Some(line) => ServerEndpoint::new(&format!("{scheme}://{}", line.address), certificate.as_deref())?,
            None => config.server,
        };
        let gateway = Gateway::new(&server, config.worker, SiteKey::load(&folder.key())?)?;
        let registration: DatasetRegistration = serde_json::from_value(json!({
            "name": name, "lineage": uuid::Uuid::now_v7(), "visibility": "public", "inputs": 13, "classes": CLASSES,
            "records": 1000, "speakers": 50, "test_records": 0,
        }))?;
        gateway.register(&registration).await?;
        Ok(Self { gateway, dataset: stage.dataset(name).await?, held: Vec::new() })
    }

    async fn lease(&mut self) -> TestResult<String> {
        loop {
            match self.gateway.next_offer(WAIT, &[], &self.held).await? {
                ServerOffer::Work(work) if work.dataset == self.dataset.id => {
                    self.held.push(work.lease.clone());
                    return Ok(work.lease);
                }
                ServerOffer::Nothing => {}
                other => return Err(format!("no work: {other:?}").into()),
            }
        }
    }
}

/// Proposes a job of two public participants, which both take up. Its last round stays open, because otherwise the job
/// would end.
async fn propose(
    stage: &TestConsortium,
    near: &mut SiteEnd,
    far: &mut SiteEnd,
    precision: Precision,
) -> TestResult<[String; 2]> {
    let rounds = ArmRounds { rounds: 4, learning_rate: 1e-3, evaluate_every: 1, deadline_seconds: 3600, quorum: 2 };
    let plan = JobPlan::new("Exchange", PrivacyUnit::Record, HIDDEN, &near.dataset, 1)?
        .public_party(far.dataset.id, 0.1)?
        .test("library", near.dataset.id)
        .private(rounds)
        .exchange(1, precision);
    stage.operator.propose(stage.consortium, &plan.job()).await?;
    Ok([near.lease().await?, far.lease().await?])
}

/// Returns a vector like a release: noise, the same for all.
fn noise(length: usize) -> Vec<f32> {
    let mut chance = chance(7);
    let mut uniform = move || f64::from(chance()) / 4_294_967_296.0 - 0.5;
    (0..length).map(|_| ((0..12).map(|_| uniform()).sum::<f64>() * 0.01) as f32).collect()
}

/// Returns a generator (SplitMix64).
fn chance(seed: u64) -> impl FnMut() -> u32 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed >> 32) as u32
    }
}

fn parameters() -> usize {
    let (inputs, hidden, classes) = (13, HIDDEN as usize, CLASSES as usize);
    4 * hidden * (inputs + hidden + 1) + classes * (hidden + 1)
}

fn parcel(precision: Precision, packed: bool) -> TestResult<StoredVector> {
    let vector = noise(parameters());
    let bytes = if packed {
        write(&vector, precision, chance(8))?
    } else {
        let mut bytes = Vec::new();
        code::encode(&vector, precision, chance(8), &mut bytes);
        bytes
    };
    let (length, digest) = (vector.len() as u64, hex::encode(Sha256::digest(&bytes)));
    Ok(StoredVector { bytes, length, digest, receipt: None })
}

impl ExchangeRound<'_> {
    /// Measures the earlier format: plain f32, both ways. Files are still transferred in this format.
    async fn measure_plain(&self, report: &mut Report) -> TestResult<()> {
        let plain = parcel(Precision::F32, false)?;
        let (began, up, down) = self.begin();
        // Only the lead may store files, so the upload over the slow line is an unpacked vector.
        self.near.gateway.put(&self.leases[0], "plain", &plain.bytes).await?;
        let fast = began.elapsed();
        let began = Instant::now();
        let got = self.far.gateway.get(&self.leases[1], "plain", WAIT, &Download::default()).await?;
        let seconds = began.elapsed().as_secs_f64();
        if got.as_deref() != Some(plain.bytes.as_slice()) {
            return Err("what came is not what was sent".into());
        }
        let carried = (self.line.carried(LineDirection::Up) - up, self.line.carried(LineDirection::Down) - down);
        report.line(json!({
            "what": "one way, as every vector travelled before", "precision": "f32", "packed": false,
            "bytes": carried.1, "seconds": seconds, "a_round_would_take": 2.0 * seconds, "loopback_seconds": fast.as_secs_f64(),
        }))
        .map_err(|error| error.to_string().into())
    }

    fn begin(&self) -> (Instant, u64, u64) {
        (Instant::now(), self.line.carried(LineDirection::Up), self.line.carried(LineDirection::Down))
    }

    async fn exchange(&self, report: &mut Report, number: u32, packed: bool, cut: Option<f64>) -> TestResult<()> {
        let parcel = parcel(self.precision, packed)?;
        let (near, far) = (&self.near.gateway, &self.far.gateway);
        near.submit(&self.leases[0], "private", number, &parcel, &[]).await?;
        far.renew(&self.leases[1]).await?;
        let (began, up, down) = self.begin();
        if let Some(part) = cut {
            self.line.schedule_cut(LineDirection::Up, up + (parcel.bytes.len() as f64 * part) as u64);
        }
        let (breaks, _) = persist(|| far.submit(&self.leases[1], "private", number, &parcel, &[])).await?;
        let up_seconds = began.elapsed().as_secs_f64();
        let began = Instant::now();
        let download = Download::default();
        let query = AverageQuery { series: "private", round: number, precision: self.precision, wait: WAIT };
        let average = far.average(&self.leases[1], query, &download).await?;
        let average = average.ok_or("both have submitted, and the round is not closed")?;
        let down_seconds = began.elapsed().as_secs_f64();
        if average.mean.len() as u64 != parcel.length {
            return Err("the mean is of another length".into());
        }
        let form = VectorForm::new(self.precision, parcel.length)?;
        let carried = (self.line.carried(LineDirection::Up) - up, self.line.carried(LineDirection::Down) - down);
        report
            .line(json!({
                "what": if cut.is_some() { "a round whose connection breaks half way up" } else { "a round" },
                "precision": self.precision, "packed": packed, "breaks": breaks,
                "numbers": parcel.length, "encoded_bytes": form.bytes(), "sent_bytes": parcel.bytes.len(),
                "up_bytes": carried.0, "up_seconds": up_seconds, "down_bytes": carried.1, "down_seconds": down_seconds,
                "seconds": up_seconds + down_seconds,
                "line": { "bits_per_second": LINE.bits_per_second, "delay_ms": LINE.delay.as_millis() },
            }))
            .map_err(|error| error.to_string().into())
    }
}

/// Retries as long as it may help; returns the number of broken connections.
async fn persist<T, F: Future<Output = Result<T, GatewayError>>>(call: impl Fn() -> F) -> TestResult<(u32, T)> {
    let mut breaks = 0;
    loop {
        match call().await {
            Ok(answer) => return Ok((breaks, answer)),
            Err(error) if error.is_transient() && breaks < 10 => breaks += 1,
            Err(error) => return Err(error.into()),
        }
    }
}
