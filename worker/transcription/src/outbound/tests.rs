#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::path::Path;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use undertone_privacy::Event;

use super::deliver::deliver;
use super::draft::BatchDraft;
use super::error::OutboundError;
use super::sealed::sounds;
use super::sealed::{BatchPermit, SealedSounds};
use crate::provider::line::ProviderLine;
use crate::provider::loopback::{CloudFault, Ear, FakeCloud, KEY};
use crate::provider::settings::ProviderSettings;
use crate::wav;
use undertone_worker_site::clearance::{Clearance, DepartureProof, PublicProof, ReleaseGrant};
use undertone_worker_site::clock::system;

fn sound(number: u32) -> Vec<u8> {
    wav::write(&vec![number as f32 / 1_000.0 + 0.001; 800])
}

/// A permission as if the batch were paid and countersigned.
fn departure(batch: &SealedSounds) -> DepartureProof {
    DepartureProof::in_test(batch.digest())
}

fn permit() -> BatchPermit {
    BatchPermit::new(Clearance::Granted(ReleaseGrant::in_test(Event::NonPrivate)), &Event::NonPrivate).unwrap()
}

fn draft(folder: &Path, recipient: &str, count: u32) -> BatchDraft {
    let mut draft = BatchDraft::begin(folder, vec![(recipient.to_owned(), count)]).unwrap();
    // Added in another order than they are sent.
    for place in (0..count).rev() {
        draft.add(0, place, &sound(place)).unwrap();
    }
    draft
}

/// A server that answers with the loudness of a sound, as one word.
async fn cloud_server() -> FakeCloud {
    let ear: Ear = Arc::new(|wav: &[u8]| {
        let level = i16::from_le_bytes([wav[44], wav[45]]);
        vec![(format!("level{level}"), 0.0, 0.025)]
    });
    FakeCloud::start(ear).await.unwrap()
}

fn line(cloud: &FakeCloud, more: &str) -> ProviderLine {
    let text = format!(
        "name = \"one\"\nprotocol = \"deepgram\"\nurl = \"{}\"\nkey_variable = \"K\"\nrequests_per_minute = 60000\nattempts = 1\n{more}",
        cloud.url()
    );
    let settings: ProviderSettings = toml::from_str(&text).unwrap();
    settings.line(Path::new("."), |_| Some(KEY.into()), system()).unwrap().without_pauses()
}

#[tokio::test]
async fn batch_is_sent_in_order_and_answers_keep_their_places() {
    let folder = tempfile::tempdir().unwrap();
    let cloud = cloud_server().await;
    let stop = CancellationToken::new();
    let line = line(&cloud, "concurrency = 1");
    let sealed = draft(&folder.path().join("out"), line.recipient(), 20).seal(permit()).unwrap();
    let sealed = Arc::new(sealed);
    let delivery = deliver(&sealed, 0, &line, &stop, &departure(&sealed)).await.unwrap();
    assert_eq!((delivery.answered, delivery.left), (20, 0));
    let received: Vec<Vec<u8>> = cloud.received().into_iter().map(|one| one.wav).collect();
    assert_eq!(received, (0..20).map(sound).collect::<Vec<_>>());
    let answers = sealed.answers();
    for (provider, place, recognition) in &answers {
        let wav = sound(*place);
        assert_eq!((*provider, recognition.text()), (0, format!("level{}", i16::from_le_bytes([wav[44], wav[45]]))));
    }
    assert_eq!((answers.len(), sealed.send_count(0)), (20, 20));
}

#[tokio::test]
async fn interrupted_delivery_resumes_with_same_bits_and_charge() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let cloud = cloud_server().await;
    let stop = CancellationToken::new();
    let line = line(&cloud, "concurrency = 1");
    let sealed = Arc::new(draft(&out, line.recipient(), 6).seal(permit()).unwrap());
    cloud.order([CloudFault::Status(503), CloudFault::Status(400)]);
    let first = deliver(&sealed, 0, &line, &stop, &departure(&sealed)).await.unwrap();
    assert_eq!((first.answered, first.left), (4, 2));
    drop(sealed);
    // A crash in the middle of a line.
    let journal = out.join("answers");
    let mut text = std::fs::read(&journal).unwrap();
    text.extend(b"{\"heard\":[0,0,{\"wor");
    std::fs::write(&journal, text).unwrap();

    let sealed = Arc::new(SealedSounds::open(&out).unwrap().unwrap());
    assert_eq!((sealed.unanswered(0), sealed.event().is_some()), (vec![0, 1], true));
    let second = deliver(&sealed, 0, &line, &stop, &departure(&sealed)).await.unwrap();
    assert_eq!((second.answered, second.left, sealed.send_count(0)), (2, 0, 8));
    let received = cloud.received();
    assert_eq!((received.len(), &received[6].wav, &received[7].wav), (8, &sound(0), &sound(1)));
    drop(sealed);
    let sealed = SealedSounds::open(&out).unwrap().unwrap();
    assert_eq!((sealed.unanswered(0), sealed.answers().len()), (vec![], 6), "all is on disk");
    sealed.clear().unwrap();
    assert!(SealedSounds::open(&out).unwrap().is_none());
}

#[tokio::test]
async fn changed_bits_are_not_sent() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let cloud = cloud_server().await;
    let stop = CancellationToken::new();
    let line = line(&cloud, "concurrency = 1");
    drop(draft(&out, line.recipient(), 3).seal(permit()).unwrap());
    let mut file = std::fs::read(sounds(&out, 0)).unwrap();
    let last = file.len() - 1;
    file[last] ^= 1;
    std::fs::write(sounds(&out, 0), file).unwrap();
    let sealed = Arc::new(SealedSounds::open(&out).unwrap().unwrap());
    assert!(matches!(deliver(&sealed, 0, &line, &stop, &departure(&sealed)).await, Err(OutboundError::Damaged(_))));
    assert!(cloud.received().is_empty(), "the first place lies last in the file");
    // A changed index is refused too.
    let index = std::fs::read_to_string(out.join("index")).unwrap();
    std::fs::write(out.join("index"), index.replace("\"place\":2", "\"place\":1")).unwrap();
    assert!(matches!(SealedSounds::open(&out), Err(OutboundError::Damaged(_))));
}

#[tokio::test]
async fn delivery_to_another_recognizer_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let cloud = cloud_server().await;
    let other = cloud_server().await;
    let stop = CancellationToken::new();
    let sealed_line = line(&cloud, "");
    let other_line = line(&other, "");
    let sealed = Arc::new(draft(&folder.path().join("out"), sealed_line.recipient(), 2).seal(permit()).unwrap());
    assert!(matches!(
        deliver(&sealed, 0, &other_line, &stop, &departure(&sealed)).await,
        Err(OutboundError::Recipient { provider: 0, .. })
    ));
    assert!(matches!(
        deliver(&sealed, 1, &sealed_line, &stop, &departure(&sealed)).await,
        Err(OutboundError::Recipient { provider: 1, .. })
    ));
    assert!(cloud.received().is_empty() && other.received().is_empty());
}

#[tokio::test]
async fn unreachable_provider_and_refused_key_end_delivery() {
    let folder = tempfile::tempdir().unwrap();
    let cloud = cloud_server().await;
    let stop = CancellationToken::new();
    let line = line(&cloud, "concurrency = 1");
    let sealed = Arc::new(draft(&folder.path().join("out"), line.recipient(), 30).seal(permit()).unwrap());
    cloud.order([CloudFault::Status(503); 10]);
    let unreachable = deliver(&sealed, 0, &line, &stop, &departure(&sealed)).await.unwrap();
    assert_eq!((unreachable.answered, unreachable.left, unreachable.problem.is_some()), (0, 30, true));
    assert_eq!(cloud.received().len(), 10);
    cloud.order([CloudFault::Status(401)]);
    assert!(matches!(deliver(&sealed, 0, &line, &stop, &departure(&sealed)).await, Err(OutboundError::Line { .. })));
    stop.cancel();
    let stopped = deliver(&sealed, 0, &line, &stop, &departure(&sealed)).await.unwrap();
    assert_eq!((stopped.answered, stopped.left, stopped.problem.is_none()), (0, 30, true));
    assert_eq!(cloud.received().len(), 11);
}

#[test]
fn draft_seals_once_complete_and_for_granted_event() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let mut half = BatchDraft::begin(&out, vec![("one".to_owned(), 2), ("two".to_owned(), 0)]).unwrap();
    half.add(0, 1, &sound(1)).unwrap();
    for (provider, place) in [(0, 1), (0, 2), (1, 0), (2, 0)] {
        assert!(matches!(half.add(provider, place, &sound(0)), Err(OutboundError::Place { .. })), "{provider} {place}");
    }
    assert!(matches!(half.seal(permit()), Err(OutboundError::Incomplete { missing: 1 })));
    assert!(SealedSounds::open(&out).unwrap().is_none(), "it counts for nothing");
    drop(draft(&out, "one", 2).seal(permit()).unwrap());
    assert!(matches!(BatchDraft::begin(&out, vec![("one".to_owned(), 2)]), Err(OutboundError::Sealed(_))));

    let granted = || Clearance::Granted(ReleaseGrant::in_test(Event::NonPrivate));
    let other = Event::Repeated { count: 2, of: Box::new(Event::NonPrivate) };
    assert!(matches!(BatchPermit::new(granted(), &other), Err(OutboundError::WrongEvent { .. })));
    assert!(BatchPermit::new(Clearance::Public(PublicProof::in_test()), &other).is_ok_and(|free| free.event.is_none()));
}

#[test]
fn site_reads_charged_samples_without_sending() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let sealed = draft(&out, "one", 3).seal(permit()).unwrap();
    assert_eq!(sealed.samples(0, 2).unwrap(), wav::read(&sound(2)).unwrap());
    assert_eq!((sealed.send_count(0), sealed.unanswered(0)), (0, vec![0, 1, 2]));
    for (provider, place) in [(0, 3), (1, 0)] {
        assert!(matches!(sealed.samples(provider, place), Err(OutboundError::Place { .. })), "{provider} {place}");
    }
    let mut bytes = std::fs::read(sounds(&out, 0)).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(sounds(&out, 0), bytes).unwrap();
    let damaged = (0..3).filter(|place| matches!(sealed.samples(0, *place), Err(OutboundError::Damaged(_))));
    assert_eq!(damaged.count(), 1, "a sound that is another by one bit");
}

#[cfg(unix)]
#[test]
fn batch_files_are_private_to_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    drop(draft(&out, "one", 1).seal(permit()).unwrap());
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&out), 0o700);
    for entry in std::fs::read_dir(&out).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}
