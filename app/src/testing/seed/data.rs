//! The datasets with their budgets, and the declaration about people in several organizations.

use undertone_api::budget::NewBudget;
use undertone_api::consortium::NewOverlap;
use undertone_api::dataset::{Dataset, DatasetContent, DatasetRegistration, SizeClass, Visibility, usual_units};
use undertone_api::signed::{ApprovalRule, SiteApproval};
use undertone_privacy::ledger::Overlap;
use undertone_privacy::{Delta, Epsilon, PrivacyUnit};
use undertone_server_core::service::{budget, consortium};

use super::Seeding;

impl Seeding {
    /// Registers every dataset and sets the budgets.
    pub(super) async fn register_datasets(&mut self) {
        let speech = [
            (0, "archive-20", Visibility::Public, 1000, 20, 200),
            (1, "ward-a", Visibility::Private, 500, 50, 0),
            (1, "ward-b", Visibility::Open, 500, 20, 0),
            (2, "memory-clinic", Visibility::Open, 2000, 100, 0),
        ];
        for (owner, name, visibility, records, speakers, test_records) in speech {
            let registration = DatasetRegistration {
                speakers: SizeClass(speakers),
                test_records,
                ..self.registration(name, visibility, records)
            };
            let dataset = self.workers[owner].register(self.ctx(), &registration).await;
            self.speech.push(dataset);
        }
        let logs = [
            (0, "sgd-turns", Visibility::Public, 100_000, 5, 20_000),
            (1, "helpdesk-north", Visibility::Private, 500_000, 0, 0),
            (2, "helpdesk-south", Visibility::Private, 1_000_000, 0, 0),
        ];
        for (owner, name, visibility, records, classes, test_records) in logs {
            let registration = DatasetRegistration {
                content: DatasetContent::Queries,
                inputs: 0,
                classes,
                test_records,
                users: Some(SizeClass::from_count(records / 20)),
                table: None,
                units: vec![PrivacyUnit::Record, PrivacyUnit::User],
                ..self.registration(name, visibility, records)
            };
            let dataset = self.workers[owner].register(self.ctx(), &registration).await;
            self.logs.push(dataset);
        }
        let recordings =
            [("readings", Visibility::Public, 200, 5_000), ("dictations", Visibility::Private, 2_000, 50_000)];
        for (owner, (name, visibility, records, seconds)) in recordings.into_iter().enumerate() {
            let registration = DatasetRegistration {
                content: DatasetContent::Recordings,
                inputs: 0,
                classes: 0,
                seconds: Some(SizeClass(seconds)),
                units: vec![PrivacyUnit::Words],
                ..self.registration(name, visibility, records)
            };
            let dataset = self.workers[owner].register(self.ctx(), &registration).await;
            self.recordings.push(dataset);
        }
        for (index, epsilon) in [(1, 6.0), (2, 12.0), (3, 12.0)] {
            self.set_budget(&self.speech[index], PrivacyUnit::Speaker, epsilon, 1e-6).await;
        }
        for log in &self.logs[1..] {
            self.set_budget(log, PrivacyUnit::User, 8.0, 1e-4).await;
        }
        self.set_budget(&self.recordings[1], PrivacyUnit::Words, 8.0, 1e-3).await;
    }

    /// Returns the registration of a speech dataset with one speaker. Its site trusts the server's word for an approval.
    fn registration(&self, name: &str, visibility: Visibility, records: u64) -> DatasetRegistration {
        DatasetRegistration {
            name: name.to_owned(),
            lineage: self.ctx().id(),
            visibility,
            content: DatasetContent::Speech,
            inputs: 13,
            classes: 2000,
            records: SizeClass(records),
            speakers: SizeClass(1),
            test_records: 0,
            seconds: None,
            users: None,
            table: None,
            units: usual_units(),
            approval: Some(SiteApproval { rule: ApprovalRule::Server, keys: Vec::new() }),
        }
    }

    /// Sets or raises a budget, as a steward of the owner.
    pub(super) async fn set_budget(&self, dataset: &Dataset, unit: PrivacyUnit, epsilon: f64, delta: f64) {
        let own = dataset.organization == self.people.organizations[1];
        let steward = if own { &self.people.steward } else { &self.people.other_steward };
        let epsilon = Epsilon::new(epsilon).expect("an epsilon");
        let new = NewBudget { unit, epsilon, delta: Delta::new(delta).expect("a delta"), filter: None };
        budget::set(self.ctx(), steward, dataset.id, new).await.expect("a steward may set a budget");
    }

    /// Declares in how many organizations one person may be.
    pub(super) async fn attest_overlap(&self) {
        let new = NewOverlap {
            overlap: Overlap::Overlapping { at_most: Some(2) },
            statement: "Patients are referred from North to South at most once; the archive holds nobody of either."
                .to_owned(),
        };
        let attested = consortium::attest(self.ctx(), &self.people.steward, self.people.consortium, &new).await;
        attested.expect("an admin may attest");
    }
}
