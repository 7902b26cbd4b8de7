use super::*;

/// Plays a round in which site 1's process ends whenever its disk fails. Returns each message of the site, as debug
/// text, in the order of the steps.
fn play_with_fault(group: &TestGroup, number: u32) -> (Vec<String>, Vec<i32>) {
    const CRASHING: usize = 1;
    let mut messages = Vec::new();
    let mut sites: Vec<Option<TestSiteRound<'_>>> = group.sites().map(|_| None).collect();
    /// Takes a step, at a new process after each failure of the disk.
    fn step<'a, T>(
        group: &'a TestGroup,
        number: u32,
        site: usize,
        round: &mut Option<TestSiteRound<'a>>,
        act: impl Fn(&mut TestSiteRound<'a>) -> Result<T, SiteError<DiskError>>,
    ) -> T {
        loop {
            let result = match round {
                Some(round) => act(round),
                None => match group.try_enter(site, number) {
                    Ok(entered) => act(round.insert(entered)),
                    Err(error) => Err(error),
                },
            };
            match result {
                Ok(message) => return message,
                Err(SiteError::Journal(DiskError)) => *round = None,
                Err(error) => panic!("site {site}: {error}"),
            }
        }
    }
    let mut phase = AdvertisementPhase::new(&group.roster, group.context(number));
    for (site, round) in sites.iter_mut().enumerate() {
        let message = step(group, number, site, round, |round| Ok(round.advertisement()));
        if site == CRASHING {
            messages.push(format!("{message:?}"));
        }
        phase.receive(message).unwrap();
    }
    let mut phase = phase.close().unwrap();
    let list = phase.advertisements().as_slice().to_vec();
    for (site, round) in sites.iter_mut().enumerate() {
        let message = step(group, number, site, round, |round| round.share(list.clone()));
        if site == CRASHING {
            messages.push(format!("{message:?}"));
        }
        phase.receive(site as SiteIndex, message).unwrap();
    }
    let mut phase = phase.close().unwrap();
    for (site, round) in sites.iter_mut().enumerate().take(3) {
        let shares = phase.shares_for(site as SiteIndex);
        let message = step(group, number, site, round, |round| round.mask(shares.clone(), &group.vector(site)));
        if site == CRASHING {
            messages.push(format!("{message:?}"));
        }
        phase.receive(&message).unwrap();
    }
    let mut phase = phase.close().unwrap();
    let survivors = phase.survivors();
    for (site, round) in sites.iter_mut().enumerate().take(3) {
        let message = step(group, number, site, round, |round| round.sign(survivors));
        if site == CRASHING {
            messages.push(format!("{message:?}"));
        }
        phase.receive(message).unwrap();
    }
    let mut phase = phase.close().unwrap();
    for (site, round) in sites.iter_mut().enumerate().take(3) {
        let signatures = phase.signatures().to_vec();
        let message = step(group, number, site, round, |round| round.reveal(&signatures));
        if site == CRASHING {
            messages.push(format!("{message:?}"));
        }
        phase.receive(message).unwrap();
    }
    (messages, phase.open().unwrap())
}

#[test]
fn failing_disk_at_each_step_never_changes_a_message() {
    let group = || TestGroup::new(4, 3, 0);
    let calm = group();
    let (mut expected, sum) = play_with_fault(&calm, 1);
    assert_eq!(sum, calm.sum(set([0, 1, 2])));
    let stores = calm.disks[1].0.borrow().stores;
    assert_eq!(stores, 5, "one record for the secret and one for each of four decisions");
    for number in 0..stores {
        for fault in [DiskFault::BeforeWriting, DiskFault::AfterWriting] {
            let group = group();
            group.disks[1].0.borrow_mut().fault = Some((number, fault));
            let (messages, sum) = play_with_fault(&group, 1);
            assert_eq!(sum, group.sum(set([0, 1, 2])), "{number}");
            if number == 0 && fault == DiskFault::BeforeWriting {
                // The secret was lost before anything left: the site drew another one, from which all follows.
                assert_ne!(messages, expected);
            } else {
                assert_eq!(messages, expected, "store {number}");
            }
        }
    }
    // Ed25519 signs deterministically, so that another process says the same.
    expected.dedup();
    assert_eq!(expected.len(), 5);
}

#[test]
fn site_that_starts_again_remembers_what_it_signed() {
    let group = TestGroup::new(4, 3, 0);
    let mut round = TestRound::masked(&group, 1);
    let all = set([0, 1, 2, 3]);
    let signatures = round.sign(all);
    round.sites[0].reveal(&signatures).unwrap();
    let mut again = group.enter(0, 1);
    assert!(again.record().is_revealed() && again.record().survivors() == Some(all));
    let other = set([0, 1, 2]);
    assert_eq!(refusal(again.sign(other)), Some(Refusal::SecondSurvivors { signed: all, shown: other }));
    let mut changed = group.vector(0);
    changed[0] += 1;
    assert_eq!(refusal(again.mask(round.shares_for(0), &changed)), Some(Refusal::SecondVector));
    assert_eq!(refusal(again.share(round.list[..3].to_vec())), Some(Refusal::SecondAdvertisements));
}

#[test]
fn closed_round_keeps_no_secret_and_never_opens_again() {
    let group = TestGroup::new(3, 2, 0);
    group.enter(0, 1).close().unwrap();
    assert_eq!(refusal(group.try_enter(0, 1)), Some(Refusal::RoundClosed));
    let content = group.disks[0].0.borrow();
    let record: serde_json::Value = serde_json::from_str(content.records.values().next().unwrap()).unwrap();
    assert!(record["secret"].is_null() && record["shares"].as_array().unwrap().is_empty());
}

#[test]
fn round_of_another_form_has_the_same_record() {
    let mut group = TestGroup::new(3, 2, 0);
    drop(group.enter(0, 1));
    group.length += 1;
    assert_eq!(refusal(group.try_enter(0, 1)), Some(Refusal::DifferentRound));
    group.length -= 1;
    assert!(group.try_enter(0, 1).is_ok());
}

#[test]
fn damaged_record_is_refused() {
    let group = TestGroup::new(3, 2, 0);
    drop(TestRound::shared(&group, 1));
    {
        let mut content = group.disks[0].0.borrow_mut();
        let text = content.records.values_mut().next().unwrap();
        let mut record: serde_json::Value = serde_json::from_str(text).unwrap();
        record["advertisements"][1]["mask_key"][0] = serde_json::json!(7);
        *text = record.to_string();
    }
    assert_eq!(refusal(group.try_enter(0, 1)), Some(Refusal::DamagedRecord));
}
