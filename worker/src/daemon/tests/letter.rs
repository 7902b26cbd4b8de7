//! Submissions: a newly stored vector is sent from memory, with the same bytes.

use undertone_api::dataset::Visibility;

use super::{OPEN, Place, open_job, sign};
use crate::daemon::{Errand, Site};
use crate::dp::release::Outgoing;
use crate::fixture::{OURS, local};
use crate::gateway::fake::start;
use crate::site::admission::examine;
use crate::site::policy::TEMPLATE;

async fn countersign(site: &Site, errand: &Errand, round: u32) {
    let asked = errand.charge(site, "open", round).expect("it is stored").expect("the server does not know it");
    let answer = site.gateway.countersign("lease", &asked.receipts).await.expect("the server answers");
    errand.countersigned(site, &asked, &answer).expect("it holds");
    assert_eq!(errand.charge(site, "open", round).expect("it is stored"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_is_the_same_from_memory_and_from_disk() {
    let server = start(false).await;
    let place = Place::new(&server, &format!("{TEMPLATE}{OPEN}"));
    let site = place.site();
    let known = [local(Visibility::Open)];
    let examined = examine(&sign(&open_job()), OURS, &site.identity, &known, (site.clock)()).expect("it is honest");
    let mut errand = Errand::new(&site, examined).expect("the folder is writable");
    let keep = |errand: &mut Errand, round: u32| {
        let clearance = errand.clear(&site, "open", round).expect("the policy says open");
        let vector = (0..5000).map(|number| (number as f32 + round as f32).sin()).collect();
        let vector = Outgoing::exact(vector, clearance).expect("it was published");
        errand.pay_vector(&site, "open", round, &vector).expect("the disk has room");
    };
    keep(&mut errand, 1);
    assert!(errand.letter(&site, "open", 1).is_err(), "the server has not answered for its payment");
    countersign(&site, &errand, 1).await;
    let from_memory = errand.letter(&site, "open", 1).expect("it is kept");
    let from_disk = errand.letter(&site, "open", 1).expect("it is kept");
    assert_eq!(from_memory, from_disk);
    assert!(from_disk.parcel.receipt.is_some() && from_disk.parcel.length == 5000);

    // The vector in memory belongs to one round, and is sent for no other.
    keep(&mut errand, 2);
    countersign(&site, &errand, 2).await;
    assert_eq!(errand.letter(&site, "open", 1).expect("it is kept"), from_disk);
    assert_ne!(errand.letter(&site, "open", 2).expect("it is kept").parcel, from_disk.parcel);
}
