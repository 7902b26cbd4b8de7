//! Cloud recognition: directly, where only the words matter, and over loopback, with all protections of a batch.

use std::path::Path;
use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::json;
use support::clouds::{CloudRequest, Ear, FakeCloud, KEY};
use support::stage::TestResult;
use tokio_util::sync::CancellationToken;
use undertone_worker::site::clearance::{Clearance, DepartureProof, PublicProof};
use undertone_worker::site::clock::system;
use undertone_worker::site::gate::prove_public;
use undertone_worker::site::policy::Policy;
use undertone_worker::speech::transcribe::outbound::{BatchDraft, BatchPermit, deliver};
use undertone_worker::speech::transcribe::piece::{Recognition, TimedWord};
use undertone_worker::speech::transcribe::plan::Plan;
use undertone_worker::speech::transcribe::provider::line::ProviderLine;
use undertone_worker::speech::transcribe::provider::settings::ProviderSettings;

/// The protocols, in turn.
const PROTOCOLS: [&str; 3] = ["openai", "google", "deepgram"];
/// A policy that marks the published documents as public: a measurement spends no budget.
const POLICY: &str = "[jobs]\nkinds = [\"transcription\"]\nleast_noise_multiplier = 0.5\nmost_epsilon_per_job = 100.0\n\
                      [datasets.documents]\nvisibility = \"public\"\n";

/// Returns an ear's words in files, in their order.
///
/// # Errors
/// When a thread fails.
pub(super) async fn hear(ear: &Ear, files: &[Vec<u8>], at_once: usize) -> TestResult<Vec<Recognition>> {
    let hearing = files.iter().cloned().map(|file| {
        let ear = Arc::clone(ear);
        tokio::task::spawn_blocking(move || ear(&file))
    });
    let words = |(text, start, end)| TimedWord { text, start, end, confidence: None };
    let recognitions = stream::iter(hearing)
        .buffered(at_once)
        .map_ok(|told| Recognition { words: told.into_iter().map(words).collect() });
    Ok(recognitions.try_collect().await?)
}

/// The result of a batch.
pub(super) struct BatchResult {
    /// Provider, place, words.
    pub(super) answers: Vec<(u32, u32, Recognition)>,
    /// The requests that each cloud recorded.
    pub(super) received: Vec<Vec<CloudRequest>>,
}

/// Sends `files` (by provider, in the order of the plan) to as many clouds, each of which recognizes with `ear`.
///
/// # Errors
/// When a batch is not answered completely.
pub(super) async fn send(plan: &Plan, files: &[Vec<Vec<u8>>], ear: &Ear, at_once: usize) -> TestResult<BatchResult> {
    let folder = tempfile::tempdir()?;
    let (mut clouds, mut lines) = (Vec::new(), Vec::new());
    for (provider, _) in files.iter().enumerate() {
        let cloud = FakeCloud::start(Arc::clone(ear)).await?;
        let settings: ProviderSettings = serde_json::from_value(json!({
            "name": format!("cloud-{provider}"), "protocol": PROTOCOLS[provider % PROTOCOLS.len()], "url": cloud.url(),
            "key_variable": "KEY", "concurrency": at_once.min(64), "requests_per_minute": 60_000, "seconds": 600,
        }))?;
        lines.push(settings.line(folder.path(), |_| Some(KEY.into()), system())?);
        clouds.push(cloud);
    }
    let sizes = lines.iter().zip(files).map(|(line, files)| (line.recipient().to_owned(), files.len() as u32));
    let mut draft = BatchDraft::begin(&folder.path().join("batch"), sizes.collect())?;
    for (provider, files) in (0..).zip(files) {
        for (place, file) in (0..).zip(files) {
            draft.add(provider, place, file)?;
        }
    }
    let sealed = Arc::new(draft.seal(permit(plan, folder.path())?)?);
    let (stop, departure) = (CancellationToken::new(), DepartureProof::for_public(&public(folder.path())?));
    for (provider, line) in (0..).zip(&lines) {
        whole(&deliver(&sealed, provider, line, &stop, &departure).await?, line)?;
    }
    let received = clouds.iter().map(FakeCloud::received).collect();
    Ok(BatchResult { answers: sealed.answers(), received })
}

fn whole(done: &undertone_worker::speech::transcribe::outbound::DeliveryResult, line: &ProviderLine) -> TestResult<()> {
    if done.left == 0 {
        Ok(())
    } else {
        Err(format!("{} left {} sounds unanswered", line.recipient(), done.left).into())
    }
}

/// Returns the proof that the documents are public.
fn public(folder: &Path) -> TestResult<PublicProof> {
    let path = folder.join("policy.toml");
    std::fs::write(&path, POLICY)?;
    Ok(prove_public(&Policy::load(&path)?.rules("documents"))?)
}

/// Returns the permission for the plan's release.
fn permit(plan: &Plan, folder: &Path) -> TestResult<BatchPermit> {
    Ok(BatchPermit::new(Clearance::Public(public(folder)?), &plan.event()?)?)
}
