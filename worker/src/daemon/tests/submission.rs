//! Submissions: a newly stored vector is sent from memory, with the same bytes.

use undertone_api::dataset::Visibility;

use super::{OPEN, TestSite, make_open_job, sign};
use crate::daemon::{PartSession, Site};
use crate::dp::release::Outgoing;
use crate::fixture::{OURS, local};
use crate::gateway::fake::start;
use crate::site::admission::examine;
use crate::site::policy::TEMPLATE;

async fn countersign(site: &Site, session: &PartSession, round: u32) {
    let request = session.charge(site, "open", round).expect("it is stored").expect("the server does not know it");
    let answer = site.gateway.countersign("lease", &request.receipts).await.expect("the server answers");
    session.store_countersignatures(site, &request, &answer).expect("it holds");
    assert_eq!(session.charge(site, "open", round).expect("it is stored"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn submission_is_the_same_from_memory_and_from_disk() {
    let server = start(false).await;
    let place = TestSite::new(&server, &format!("{TEMPLATE}{OPEN}"));
    let site = place.open();
    let datasets = [local(Visibility::Open)];
    let examined =
        examine(&sign(&make_open_job()), OURS, &site.identity, &datasets, (site.clock)()).expect("it is honest");
    let mut session = PartSession::new(&site, examined).expect("the folder is writable");
    let pay_vector = |session: &mut PartSession, round: u32| {
        let clearance = session.clear(&site, "open", round).expect("the policy says open");
        let vector = (0..5000).map(|number| (number as f32 + round as f32).sin()).collect();
        let vector = Outgoing::exact(vector, clearance).expect("it was published");
        session.pay_vector(&site, "open", round, &vector).expect("the disk has room");
    };
    pay_vector(&mut session, 1);
    assert!(session.submission(&site, "open", 1).is_err(), "the server has not answered for its payment");
    countersign(&site, &session, 1).await;
    let from_memory = session.submission(&site, "open", 1).expect("it is stored");
    let from_disk = session.submission(&site, "open", 1).expect("it is stored");
    assert_eq!(from_memory, from_disk);
    assert!(from_disk.parcel.receipt.is_some() && from_disk.parcel.length == 5000);

    // The vector in memory belongs to one round, and is sent for no other.
    pay_vector(&mut session, 2);
    countersign(&site, &session, 2).await;
    assert_eq!(session.submission(&site, "open", 1).expect("it is stored"), from_disk);
    assert_ne!(session.submission(&site, "open", 2).expect("it is stored").parcel, from_disk.parcel);
}
