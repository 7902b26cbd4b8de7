//! All data that leave a site, read back from the bytes on its line: only permitted calls, with every byte accounted
//! for, and without queries below the gate, users, or unreadable rows.

use std::collections::BTreeSet;

use prost::Message;
use support::annotator::TestAnnotator;
use support::line::LineProxy;
use support::stage::{QueryLog, TestDatabase, TestResult};
use support::wire::{WireCall, calls};
use undertone_api::dataset::DatasetRegistration;
use undertone_proto::{question, v1};
use undertone_worker::queries::dataset::{Reader, Subset};

use super::JOB;
use support::scene::queries::{self as scene, PRIVATE, THRESHOLD};

/// Checks that a call is permitted for a site with private queries, and that each message contains nothing outside of
/// its declared fields.
fn is_whole(call: &WireCall) -> Result<(), String> {
    let name = call
        .path
        .strip_prefix("/undertone.v1.WorkerGateway/")
        .ok_or_else(|| format!("another service: {}", call.path))?;
    let message = |message: &Vec<u8>| match name {
        "Challenge" => whole::<v1::ChallengeRequest>(message),
        "SignIn" => whole::<v1::SignInRequest>(message),
        "Pins" => whole::<v1::PinsRequest>(message),
        "RotateKey" => whole::<v1::RotateKeyRequest>(message),
        "Receipts" => whole::<v1::ReceiptsRequest>(message),
        "RegisterDataset" => whole::<v1::RegisterDatasetRequest>(message),
        "NextOffer" => whole::<v1::NextOfferRequest>(message),
        "Decide" => whole::<v1::DecideRequest>(message),
        "Renew" => whole::<v1::RenewRequest>(message),
        "Ask" => whole::<v1::AskChunk>(message),
        // Numbers and enum values: the message has no field for a string.
        "Log" => whole::<v1::LogRequest>(message),
        "Finish" => whole::<v1::FinishRequest>(message),
        "Witness" => whole::<v1::WitnessRequest>(message),
        "Reconcile" => whole::<v1::ReconcileRequest>(message),
        "Countersign" => whole::<v1::CountersignRequest>(message),
        "ExchangeHeads" => whole::<v1::ExchangeHeadsRequest>(message),
        "CredentialNotices" => whole::<v1::CredentialNoticesRequest>(message),
        other => Err(format!("a site that asks has no business with {other}")),
    };
    call.messages.iter().try_for_each(message)?;
    if call.rest.is_empty() { Ok(()) } else { Err(format!("{} bytes of {name} are no message", call.rest.len())) }
}

/// Checks that bytes are exactly a message of this type: encoded again, they are the same.
fn whole<M: Message + Default>(bytes: &[u8]) -> Result<(), String> {
    let read = M::decode(bytes).map_err(|error| error.to_string())?;
    if read.encode_to_vec() == bytes {
        Ok(())
    } else {
        Err("a message holds fields that its form does not know".to_owned())
    }
}

/// The number of users in the search for hashes.
const USERS: usize = 50;

/// Headers that reveal nothing about the data.
const HEADERS: [&str; 5] = ["te", "content-type", "user-agent", "authorization", "grpc-timeout"];

#[tokio::test(flavor = "multi_thread")]
async fn nothing_below_the_gate_is_on_the_wire() -> TestResult<()> {
    let mut stage = scene::set(TestDatabase::Sqlite).await?;
    let line = LineProxy::tap(stage.gateway()).await?;
    stage.sites[1].connect_over(&line)?;
    stage.open().await?;
    scene::set_budgets(&stage, 2.5).await?;
    let job = scene::propose(&stage).await?;
    let _person = TestAnnotator::start(stage.annotator("reader").await?, job, scene::answer);
    stage.finish(job, JOB).await?;
    stage.sites[1].stop()?;

    let raw = line.uploads();
    let mut all: Vec<WireCall> = Vec::new();
    for connection in raw.clone() {
        all.extend(calls(connection).await?);
    }
    for call in &all {
        is_whole(call).map_err(|error| format!("{}: {error}", call.path))?;
        for (name, _) in &call.headers {
            assert!(HEADERS.contains(&name.as_str()), "{}: a header {name}", call.path);
        }
    }
    assert!(!all.is_empty(), "the site was heard");
    let calls_to = |name: &str| all.iter().filter(|call| call.path.ends_with(&format!("/{name}"))).collect::<Vec<_>>();
    let log = QueryLog::generate(PRIVATE[0]);

    // The pool: the texts that pass, no counts, nothing else.
    let submissions = calls_to("Ask");
    assert_eq!(submissions.len(), 1, "one pool, once");
    let mut packed = Vec::new();
    for message in &submissions[0].messages {
        if let Some(v1::ask_chunk::Part::Data(data)) = v1::AskChunk::decode(&message[..])?.part {
            packed.extend(data);
        }
    }
    let posed: Vec<question::QuestionLine> = question::read(&packed)?.collect::<Result<_, _>>()?;
    let texts: BTreeSet<&str> = posed.iter().map(|posed| posed.text.as_str()).collect();
    assert_eq!(texts, log.often.iter().map(String::as_str).collect(), "what is asked often, and nothing else");
    assert!(posed.iter().all(|posed| posed.count.is_none()), "the job pays for the set, not for counts");
    for text in &texts {
        let rows = log.csv.lines().filter(|row| row.split(',').next() == Some(text)).count() as u64;
        assert!(rows >= THRESHOLD, "{text}: {rows} rows");
    }
    // The site reports size classes only: its registration contains exactly the declared fields, and no count of the
    // log.
    for call in calls_to("RegisterDataset") {
        for message in &call.messages {
            let registration = v1::RegisterDatasetRequest::decode(&message[..])?.registration;
            let read: DatasetRegistration = serde_json::from_str(&registration)?;
            assert_eq!(serde_json::to_string(&read)?, registration, "nothing beside the form");
            assert_eq!((read.records.0, read.classes), (10_000, 0));
        }
    }

    // No byte contains a secret, packed or not.
    let unpacked = posed.iter().map(|posed| &*posed.text).collect::<Vec<_>>().join("\n");
    let mut everything: Vec<u8> = raw.concat();
    everything.extend(all.iter().flat_map(|call| call.messages.concat()));
    everything.extend(
        all.iter().flat_map(|call| &call.headers).flat_map(|(name, value)| format!("{name}: {value}\n").into_bytes()),
    );
    everything.extend(unpacked.into_bytes());
    assert!(holds(&everything, &log.often[0]), "what is looked for is found where it is");
    let hashed: Vec<u128> = Reader::open(&stage.sites[1].folder().join("data").join(PRIVATE[0]))?
        .rows(Subset::Train)
        .take(USERS)
        .map(|row| row.map(|row| row.user.unwrap_or_default()))
        .collect::<Result<_, _>>()?;
    for user in hashed {
        let bytes = user.to_be_bytes();
        assert!(
            user != 0 && everything.windows(bytes.len()).all(|window| window != bytes),
            "the hash of a user left the site"
        );
        assert!(!holds(&everything, &hex::encode(bytes)), "the hash of a user left the site, in hexadecimal");
    }
    let folder = stage.sites[1].folder().to_string_lossy().into_owned();
    for secret in log.secret.iter().chain([&folder]) {
        assert!(!holds(&everything, secret), "{secret} left the site");
        assert!(!holds(&everything, &hex::encode(secret)), "{secret} left the site, in hexadecimal");
    }
    Ok(())
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}
