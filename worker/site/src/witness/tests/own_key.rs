//! The site's key in the server's log.

use undertone_api::log::LogLeaf;
use undertone_api::log::leaf::{KeyEvent, WorkerKeyRecord};
use undertone_api::log::witness::{WitnessAnswer, WitnessError};

use super::super::own_key::judge_own_key;
use super::super::{ServerContradiction, alarm};
use super::{AT, WORKER, WitnessSite};

const OWN: &str = "ab";
const OTHER: &str = "cd";

impl WitnessSite {
    /// Appends an event of the site's key to the server's log, and judges the answer that proves it.
    fn log_key(
        &mut self,
        event: KeyEvent,
        public_key: &str,
        change: impl FnOnce(&mut WitnessAnswer),
    ) -> Option<ServerContradiction> {
        let own = [WORKER.0, uuid::Uuid::nil()];
        let record = WorkerKeyRecord::new(own, 1, event, public_key.to_owned(), 0);
        self.log.push(LogLeaf::WorkerKey(record).content());
        let mut answer = self.log.answer(None, &[]);
        answer.key = Some(self.log.key_proof(self.log.size() - 1));
        change(&mut answer);
        judge_own_key(&self.store, &answer, WORKER, OWN, AT).expect("it is open")
    }
}

#[test]
fn own_key_in_the_log_is_accepted() {
    let mut site = WitnessSite::new();
    for event in [KeyEvent::Enrolled, KeyEvent::Rotated, KeyEvent::Restored] {
        assert_eq!(site.log_key(event, OWN, |_| ()), None);
    }
    assert!(site.is_quiet());
    assert_eq!(site.log_key(KeyEvent::Rotated, OTHER, |answer| answer.key = None), None, "a server that logs no keys");
}

#[test]
fn another_key_in_the_log_raises_an_alarm() {
    let mut site = WitnessSite::new();
    let contradiction = site.log_key(KeyEvent::Rotated, OTHER, |_| ()).expect("it is another key");
    assert_eq!(contradiction, ServerContradiction::Answer(WitnessError::Key(OTHER.to_owned())));
    let open = site.store.read(alarm::open).expect("it is open").expect("an alarm");
    assert!(open.problem.contains(OTHER) && !site.is_quiet(), "{}", open.problem);
}

#[test]
fn retired_key_in_the_log_raises_an_alarm() {
    let mut site = WitnessSite::new();
    let contradiction = site.log_key(KeyEvent::Retired, OWN, |_| ());
    assert_eq!(contradiction, Some(ServerContradiction::Answer(WitnessError::Key(OWN.to_owned()))));
}

#[test]
fn key_without_its_place_in_the_log_raises_an_alarm() {
    let mut site = WitnessSite::new();
    let moved = |answer: &mut WitnessAnswer| {
        if let Some(proof) = &mut answer.key {
            proof.position = 0;
        }
    };
    let contradiction = site.log_key(KeyEvent::Enrolled, OWN, moved);
    assert!(
        matches!(contradiction, Some(ServerContradiction::Answer(WitnessError::Malformed(_)))),
        "{contradiction:?}"
    );
}
