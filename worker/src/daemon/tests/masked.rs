//! Masked rounds against the protocol's honest server, with two other sites: the opened sum, crashes at each step, a
//! dropout, servers that break the protocol, and keys that are not pinned.

use std::panic::{AssertUnwindSafe, catch_unwind};

use undertone_api::dataset::Visibility;
use undertone_api::signed::key_id;
use undertone_privacy::Event;
use undertone_proto::v1::masked_step_request::Step;
use undertone_secure_aggregation::roster::{GroupTerms, Roster};

use super::fault::count_paid;
use super::*;
use crate::daemon::part::{WorkExamination, examine_work};
use crate::dp::clip::{Clip, ClippedSum};
use crate::dp::randomness::{Purpose, Randomness};
use crate::dp::sampler::Sampler;
use crate::fault::{self, FailureKind, FailurePlan, SimulatedCrash};
use crate::fixture::{JOB, masked_manifest, peer_key};
use crate::gateway::OfferedWork;
use crate::gateway::fake::masked::{FakeGroup, GroupFault, peer_value};
use crate::run::MaskedAveraging as _;
use crate::site::datasets::note_registered;
use crate::site::group::{group_of, round_context};
use crate::site::peer_keys;

const KEY: RoundKey<'static> = RoundKey { series: "private", round: 1 };

/// Returns a policy that allows secure aggregation; nobody has to approve a job.
fn policy() -> String {
    let rules = "[jobs]\nsecure_aggregation = { allowed = true }";
    TEMPLATE.replacen("[jobs]", rules, 1).replacen("approval = \"steward\"", "approval = \"automatic\"", 1)
}

/// A site in a group at a server.
struct GroupSite {
    server: FakeServer,
    place: TestSite,
    manifest: Manifest,
}

impl GroupSite {
    async fn new(group_fault: GroupFault) -> Self {
        let server = start(false).await;
        let place = TestSite::new(&server, &policy());
        let own = SiteKey::load(&place.folder().key()).expect("it was made").public_hex();
        let manifest = masked_manifest(&own);
        let group = group_of(&manifest, &manifest.participants[1], 13).expect("the job has a group");
        let digest: [u8; 32] = hex::decode(sign(&manifest).digest()).expect("hex").try_into().expect("32 bytes");
        let keys = manifest.participants[1..].iter().map(|party| {
            let key = hex::decode(party.site_key.as_deref().unwrap_or_default()).expect("hex");
            <[u8; 32]>::try_from(key).expect("32 bytes")
        });
        let terms = GroupTerms { smallest_group: 2, colluding: 0 };
        let roster = Roster::new(digest, &keys.collect::<Vec<_>>(), terms).expect("a group");
        let context = |round| round_context(&roster, &group, "private", round).expect("vectors have a form");
        server.state.lock().expect("no test panicked").group =
            Some(FakeGroup::new(&roster, context(1), context(2), group_fault));
        Self { server, place, manifest }
    }

    /// Pins the keys of the other sites as the site's operator does at the terminal.
    fn pin_peers(&self) {
        let store = Store::open(&self.place.folder().ledger()).expect("it is there");
        for site in [1, 2] {
            let fingerprint = key_id(&peer_key(site).verifying_key());
            assert!(peer_keys::pin(&store, &fingerprint, "", time::OffsetDateTime::UNIX_EPOCH).expect("a fingerprint"));
        }
    }

    fn open_exchange(&self, site: &Arc<Site>) -> SiteExchange {
        open_exchange(site, &self.manifest, Visibility::Private)
    }

    /// Returns a number of the server's state.
    fn count(&self, count: impl FnOnce(&FakeState) -> usize) -> usize {
        count(&self.server.state.lock().expect("no test panicked"))
    }

    fn opened(&self) -> Option<Vec<i32>> {
        let state = self.server.state.lock().expect("no test panicked");
        state.group.as_ref().expect("there is a group").sum.clone()
    }
}

/// Makes the sum of an empty batch with the site's noise, as the run does.
fn make_sum(exchange: &mut SiteExchange, key: RoundKey<'static>) -> crate::dp::release::NoisySum {
    let noise = exchange.group_noise().expect("the group is accepted");
    let Spec::DpSgd(spec) = &exchange.manifest().spec else { panic!("it is of another kind") };
    let (party, steps) = (spec.participants[1], spec.masks().expect("a group").clip_steps);
    let length = exchange.masked_length();
    let batch = Sampler::new(0, party.sampling_rate).draw_fresh();
    let z = party.noise.expect("a member").noise_multiplier;
    let sum = ClippedSum::begin(&batch, Clip::on_grid(1.0, z, steps, noise.drawn.get()).expect("in range"), length);
    let clearance = exchange.clear(key).expect("it is reserved");
    sum.release_masked(noise, clearance, &Randomness::from_os(Purpose::Noise)).expect("it was granted")
}

/// Takes part in the first round, from the point where an earlier process stopped; returns the new sum if one was made.
fn take_part(exchange: &mut SiteExchange) -> Result<Option<Vec<i32>>, RunError> {
    if exchange.resume_masked(KEY)? {
        return Ok(None);
    }
    let sum = make_sum(exchange, KEY);
    let vector = sum.vector().to_vec();
    exchange.send_sum(KEY, sum)?;
    Ok(Some(vector))
}

#[tokio::test(flavor = "multi_thread")]
async fn group_opens_the_sum_and_each_site_pays_once() {
    let group = GroupSite::new(GroupFault::None).await;
    group.pin_peers();
    let site = group.place.open();
    let mut exchange = group.open_exchange(&site);
    let (vector, average) = run_blocking(move || {
        let vector = take_part(&mut exchange).expect("the group is honest").expect("a new sum");
        let average = exchange.fetch_average(KEY).expect("the sum is opened").mean;
        // The round has ended here, and needs nothing more.
        assert_eq!(take_part(&mut exchange).expect("it is over"), None);
        (vector, average)
    })
    .await;
    let expected: Vec<i32> = vector.iter().map(|value| value + peer_value(1) + peer_value(2)).collect();
    assert_eq!(group.opened(), Some(expected));
    assert_eq!(average.len(), vector.len());
    assert_eq!((group.count(|state| state.submissions.len()), count_paid(&site)), (1, 1));
    let state = group.server.state.lock().expect("no test panicked");
    assert!(matches!(
        &state.receipts[0].event,
        Event::PoissonSampledDistributedDiscreteGaussian { noise, .. } if noise.contributors.get() == 2
    ));
    assert_eq!(state.group.as_ref().expect("there is a group").messages.len(), 5, "no step came twice");
    // The sum under masks is not what the server received.
    assert_ne!(state.submissions[0].1.len(), 4 * vector.len(), "masked vectors have the width of the group");
}

#[tokio::test(flavor = "multi_thread")]
async fn crash_at_each_point_sends_the_same_bytes() {
    let mut crashes = 0;
    for after in 1.. {
        let group = GroupSite::new(GroupFault::None).await;
        group.pin_peers();
        let site = group.place.open();
        let mut first = group.open_exchange(&site);
        let crash = run_blocking(move || {
            fault::plan(Some(FailurePlan { accident: FailureKind::Crash, after }));
            let end = catch_unwind(AssertUnwindSafe(|| {
                take_part(&mut first).expect("the group is honest");
                first.fetch_average(KEY).expect("the sum is opened");
            }));
            fault::plan(None);
            end.err().map(|payload| payload.downcast_ref::<SimulatedCrash>().expect("a planned crash").point)
        })
        .await;
        drop(site);
        let Some(point) = crash else { break };
        crashes += 1;
        let site = group.place.open();
        let mut again = group.open_exchange(&site);
        run_blocking(move || {
            take_part(&mut again).expect("the group is honest");
            again.fetch_average(KEY).expect("the sum is opened");
        })
        .await;
        assert!(group.opened().is_some(), "{after} {point}");
        assert_eq!(count_paid(&site), 1, "{after} {point}");
        let state = group.server.state.lock().expect("no test panicked");
        assert!(state.submissions.iter().all(|sent| *sent == state.submissions[0]), "{after} {point}: to the bit");
        assert_eq!(state.receipts.iter().map(|receipt| receipt.attempt).collect::<Vec<_>>(), [1], "{after} {point}");
        let messages = &state.group.as_ref().expect("there is a group").messages;
        for message in messages {
            let mut others =
                messages.iter().filter(|other| std::mem::discriminant(*other) == std::mem::discriminant(message));
            assert!(others.all(|other| other == message), "{after} {point}: {message:?}");
        }
    }
    assert!(crashes > 20, "{crashes}");
}

#[tokio::test(flavor = "multi_thread")]
async fn dropout_of_another_site_leaves_the_sum_of_the_rest() {
    let group = GroupSite::new(GroupFault::Dropout).await;
    group.pin_peers();
    let site = group.place.open();
    let mut exchange = group.open_exchange(&site);
    let vector = run_blocking(move || take_part(&mut exchange).expect("two are a group").expect("a new sum")).await;
    let expected: Vec<i32> = vector.iter().map(|value| value + peer_value(1)).collect();
    assert_eq!(group.opened(), Some(expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn server_that_breaks_the_protocol_learns_no_sum() {
    for (group_fault, reason, remedy, paid) in [
        (GroupFault::ShrunkList, "1 sites are fewer than the smallest group of 2", "too small a group", 0),
        (
            GroupFault::ReplayedList,
            "the advertisement of site 1 is not signed for this round",
            "breaks the protocol",
            0,
        ),
        (GroupFault::ShrunkSurvivors, "1 sites are fewer than the smallest group of 2", "too small a group", 1),
    ] {
        let group = GroupSite::new(group_fault).await;
        group.pin_peers();
        let site = group.place.open();
        let mut exchange = group.open_exchange(&site);
        let end = run_blocking(move || take_part(&mut exchange)).await;
        let Err(RunError::Refused(problem)) = end else { panic!("{group_fault:?}: {end:?}") };
        let text = problem.to_string();
        assert!(text.contains(reason) && text.contains(remedy), "{group_fault:?}: {text}");
        assert_eq!(group.opened(), None, "{group_fault:?}");
        assert_eq!((count_paid(&site), group.count(|state| state.submissions.len())), (paid, paid as usize));
        let state = group.server.state.lock().expect("no test panicked");
        let messages = &state.group.as_ref().expect("there is a group").messages;
        assert!(!messages.iter().any(|step| matches!(step, Step::Sign(_) | Step::Reveal(_))), "{group_fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn round_that_closes_before_the_vector_costs_nothing() {
    let group = GroupSite::new(GroupFault::Closed).await;
    group.pin_peers();
    let site = group.place.open();
    let mut exchange = group.open_exchange(&site);
    run_blocking(move || take_part(&mut exchange).map(|_| ()).expect("the run continues with the average")).await;
    assert_eq!((count_paid(&site), group.count(|state| state.submissions.len())), (0, 0));
    assert_eq!(group.count(|state| state.receipts.len()), 0);
}

/// Asserts that the site has paid for one vector, sent no other one, and sent no other message of a step than its first.
fn assert_paid_and_sent_once(group: &GroupSite, site: &Site) {
    assert_eq!((count_paid(site), group.count(|state| state.receipts.len())), (1, 1));
    let state = group.server.state.lock().expect("no test panicked");
    assert!(state.submissions.iter().all(|sent| *sent == state.submissions[0]), "to the bit");
    let messages = &state.group.as_ref().expect("there is a group").messages;
    for message in messages {
        let mut others =
            messages.iter().filter(|other| std::mem::discriminant(*other) == std::mem::discriminant(message));
        assert!(others.all(|other| other == message), "{message:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn second_set_of_survivors_is_neither_signed_nor_paid() {
    for group_fault in [GroupFault::OtherSurvivors, GroupFault::RejectedSignature] {
        let group = GroupSite::new(group_fault).await;
        group.pin_peers();
        let site = group.place.open();
        // A later process refuses again.
        for refusals in 1..=2 {
            let mut exchange = group.open_exchange(&site);
            run_blocking(move || take_part(&mut exchange).map(|_| ()).expect("the job continues without the round"))
                .await;
            let conflict = i32::from(v1::MaskedConflict::Survivors);
            let state = group.server.state.lock().expect("no test panicked");
            let sent = &state.group.as_ref().expect("there is a group").refusals;
            assert_eq!(*sent, vec![(1, conflict); refusals], "{group_fault:?}");
        }
        assert_paid_and_sent_once(&group, &site);
        assert_eq!((group.opened(), group.count(|state| state.submissions.len())), (None, 1), "{group_fault:?}");
        let state = group.server.state.lock().expect("no test panicked");
        let messages = &state.group.as_ref().expect("there is a group").messages;
        assert_eq!(messages.iter().filter(|step| matches!(step, Step::Sign(_))).count(), 1, "{group_fault:?}");
        assert!(!messages.iter().any(|step| matches!(step, Step::Reveal(_))), "{group_fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_server_gets_lost_steps_again_and_opens_the_sum() {
    for (group_fault, submissions) in [(GroupFault::LostVector, 2), (GroupFault::LostShares, 1)] {
        let group = GroupSite::new(group_fault).await;
        group.pin_peers();
        let site = group.place.open();
        let mut exchange = group.open_exchange(&site);
        let vector = run_blocking(move || {
            let vector = take_part(&mut exchange).expect("the group is honest").expect("a new sum");
            exchange.fetch_average(KEY).expect("the sum is opened");
            vector
        })
        .await;
        let expected: Vec<i32> = vector.iter().map(|value| value + peer_value(1) + peer_value(2)).collect();
        assert_eq!(group.opened(), Some(expected), "{group_fault:?}");
        assert_eq!(group.count(|state| state.submissions.len()), submissions, "{group_fault:?}");
        assert_paid_and_sent_once(&group, &site);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn vector_that_both_sides_lost_is_not_made_again() {
    let group = GroupSite::new(GroupFault::None).await;
    group.pin_peers();
    let site = group.place.open();
    let mut exchange = group.open_exchange(&site);
    run_blocking(move || take_part(&mut exchange).map(|_| ()).expect("the group is honest")).await;
    std::fs::remove_dir_all(site.folder.work(JOB, OURS).join("outbox")).expect("the vector is there");
    let set_fault = |state: &mut FakeState| state.group.as_mut().map(|group| group.set_fault(GroupFault::LostVector));
    set_fault(&mut group.server.state.lock().expect("no test panicked"));
    let mut again = group.open_exchange(&site);
    run_blocking(move || take_part(&mut again).map(|_| ()).expect("the job continues without the round")).await;
    assert_paid_and_sent_once(&group, &site);
    let state = group.server.state.lock().expect("no test panicked");
    let refusals = &state.group.as_ref().expect("there is a group").refusals;
    assert_eq!(*refusals, [(1, i32::from(v1::MaskedConflict::Vector))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn round_that_has_ended_here_is_refused_when_it_is_open_again() {
    let group = GroupSite::new(GroupFault::None).await;
    group.pin_peers();
    let site = group.place.open();
    let mut exchange = group.open_exchange(&site);
    let mut exchange = run_blocking(move || {
        take_part(&mut exchange).expect("the group is honest");
        exchange.fetch_average(KEY).expect("the sum is opened");
        exchange
    })
    .await;
    let set_fault = |state: &mut FakeState| state.group.as_mut().map(|group| group.set_fault(GroupFault::LostRound));
    set_fault(&mut group.server.state.lock().expect("no test panicked"));
    run_blocking(move || {
        let next = RoundKey { round: 2, ..KEY };
        let sum = make_sum(&mut exchange, next);
        exchange.send_sum(next, sum).expect("the round continues without this site");
    })
    .await;
    assert_eq!(count_paid(&site), 1, "nothing of the second round left");
    let state = group.server.state.lock().expect("no test panicked");
    let refusals = &state.group.as_ref().expect("there is a group").refusals;
    assert_eq!(*refusals, [(1, i32::from(v1::MaskedConflict::Ended))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn job_waits_until_the_keys_of_its_group_are_pinned() {
    let group = GroupSite::new(GroupFault::None).await;
    let site = group.place.open();
    note_registered(&site.store, "ward-7", OURS).expect("it is open");
    site.find_datasets().expect("the folder can be read");
    let work = OfferedWork {
        manifest: sign(&group.manifest),
        dataset: OURS,
        lease: "lease".to_owned(),
        lease_time: std::time::Duration::from_mins(1),
        steward: None,
        approval: None,
    };
    let fingerprint = key_id(&peer_key(1).verifying_key());
    let examined = match examine_work(&site, &work, JOB).expect("the disk works") {
        WorkExamination::Waiting(examined) => examined,
        WorkExamination::Refused(reason) => panic!("refused: {reason}"),
        _ => panic!("it may not run"),
    };
    let reason = crate::daemon::decisions::waiting_reason(&site, &examined, &work).expect("the disk works");
    assert!(reason.contains(&format!("undertone-worker peers pin {fingerprint}")), "{reason}");
    let mut exchange = group.open_exchange(&site);
    let end = run_blocking(move || take_part(&mut exchange)).await;
    assert!(matches!(&end, Err(RunError::Refused(reason)) if reason.to_string().contains(&fingerprint)), "{end:?}");
    assert_eq!(group.count(|state| state.group.as_ref().map_or(0, |group| group.messages.len())), 0);
    group.pin_peers();
    assert!(matches!(examine_work(&site, &work, JOB).expect("the disk works"), WorkExamination::Ready(_)));
    // A policy that asks for more honest sites refuses the group.
    let strict = policy().replacen("allowed = true", "allowed = true, least_honest = 3", 1);
    std::fs::write(group.place.folder().policy(), strict).expect("the folder is writable");
    let refused = examine_work(&site, &work, JOB).expect("the disk works");
    assert!(matches!(&refused, WorkExamination::Refused(reason) if reason.contains("honest sites")));
}

#[tokio::test(flavor = "multi_thread")]
async fn group_with_another_key_of_this_site_is_refused() {
    let server = start(false).await;
    let place = TestSite::new(&server, &policy());
    let site = place.open();
    note_registered(&site.store, "ward-7", OURS).expect("it is open");
    site.find_datasets().expect("the folder can be read");
    let own = hex::encode(peer_key(9).verifying_key().to_bytes());
    let mut missing = masked_manifest(&own);
    missing.participants[2].site_key = None;
    missing.job = undertone_api::id::JobId(uuid::Uuid::from_u128(33));
    for (manifest, reason) in
        [(masked_manifest(&own), "its key was replaced"), (missing, "no valid identity key of `ward-1`")]
    {
        let crate::daemon::ProposalVerdict::Refused(text) =
            crate::daemon::judge(&site, &sign(&manifest), OURS).expect("the disk works")
        else {
            panic!("the site accepts: {reason}")
        };
        assert!(text.contains(reason), "{text}");
    }
}
