//! Values for tests that render without a server: speech datasets with their accounts.

use time::OffsetDateTime;
use time::macros::datetime;
use undertone_api::budget::{Account, AccountStanding};
use undertone_api::dataset::{Dataset, DatasetContent, SizeClass, Visibility};
use undertone_api::id::{AccountId, ConsortiumId, DatasetId, LineageId, OrganizationId, WorkerId};
use undertone_api::table::{TableColumn, TableSchema};
use undertone_privacy::ledger::{Balance, Budget, GridKind, ReservationId};
use undertone_privacy::{Adjacency, Delta, Epsilon, Event, NoiseMultiplier, PrivacyUnit, SamplingRate};
use uuid::Uuid;

use crate::component::gauge::GaugeReading;

/// The present moment of the tests.
pub(crate) const NOW: OffsetDateTime = datetime!(2026-11-20 18:03:12 UTC);
/// The consortium in links.
pub(crate) const CONSORTIUM: ConsortiumId = ConsortiumId(Uuid::from_u128(0x0100));

const ORGANIZATIONS: [&str; 3] = ["Public speech archive", "North clinic", "South clinic"];
const DELTA: f64 = 1e-6;

fn organization(index: u128) -> OrganizationId {
    OrganizationId(Uuid::from_u128(0x0200 + index))
}

/// Returns the id of the `index`th dataset: 0 is public, 1 to 3 are not.
fn dataset(index: u128) -> DatasetId {
    DatasetId(Uuid::from_u128(0x0300 + index))
}

fn event(rate: f64, noise: f64) -> Event {
    Event::PoissonSampledGaussian {
        sampling_rate: SamplingRate::new(rate).expect("a rate between 0 and 1"),
        noise_multiplier: NoiseMultiplier::new(noise).expect("noise above 0"),
    }
}

/// Makes a balance with a limit, some releases spent and some reserved.
fn balance(limit: f64, spent: u64, reserved: u64) -> Balance {
    let epsilon = Epsilon::new(limit).expect("a limit above 0");
    let delta = Delta::new(DELTA).expect("a delta between 0 and 1");
    let budget = Budget::new(epsilon, delta, GridKind::for_epsilon(epsilon)).expect("a budget with room");
    let mut balance = Balance::new(Some(budget));
    let cost = balance.price(&event(0.1, 2.0), Adjacency::AddRemove).expect("the event has a price");
    let mut first = balance.reserve(ReservationId(1), &cost, spent).expect("what is spent fits");
    for _ in 0..spent {
        balance.commit(&mut first).expect("it was reserved");
    }
    balance.reserve(ReservationId(2), &cost, reserved).expect("what is reserved fits");
    balance
}

/// Returns the balances of the private datasets, for speakers.
pub(crate) fn standings() -> Vec<(DatasetId, Vec<AccountStanding>)> {
    [(1, balance(8.0, 60, 30)), (2, balance(4.0, 10, 0)), (3, balance(6.0, 0, 40))]
        .into_iter()
        .map(|(index, balance)| {
            (
                dataset(index),
                vec![AccountStanding { unit: PrivacyUnit::Speaker, adjacency: Adjacency::AddRemove, balance }],
            )
        })
        .collect()
}

/// Returns the datasets: one public that leads, two of one organization, one of another.
pub(crate) fn datasets() -> Vec<Dataset> {
    let rows = [
        (0_u128, 0_u128, "archive-20", Visibility::Public, 1000, 20, 200),
        (1, 1, "ward-a", Visibility::Private, 500, 50, 0),
        (2, 1, "ward-b", Visibility::Open, 500, 20, 0),
        (3, 2, "memory-clinic", Visibility::Private, 2000, 100, 0),
    ];
    let standings = standings();
    rows.into_iter()
        .map(|(index, owner, name, visibility, records, speakers, tests)| Dataset {
            id: dataset(index),
            lineage: LineageId(Uuid::from_u128(0x0600 + index)),
            organization: organization(owner),
            organization_name: ORGANIZATIONS[owner as usize].to_owned(),
            worker: WorkerId(Uuid::from_u128(0x0700 + owner)),
            name: name.to_owned(),
            visibility,
            content: DatasetContent::Speech,
            inputs: 13,
            classes: 2000,
            records: SizeClass(records),
            speakers: SizeClass(speakers),
            test_records: tests,
            seconds: None,
            users: None,
            table: None,
            units: undertone_api::dataset::usual_units(),
            approval: None,
            accounts: standings
                .iter()
                .filter(|(id, _)| *id == dataset(index))
                .flat_map(|(_, all)| all)
                .map(|standing| account(standing, index))
                .collect(),
            created_at: datetime!(2026-11-02 10:00 UTC),
        })
        .collect()
}

/// Returns the same datasets as tables of patients.
pub(crate) fn tables() -> Vec<Dataset> {
    let columns = r#"[{"name":"age","kind":"integer","least":0,"most":100},{"name":"returns","kind":"boolean"},
        {"name":"cost","kind":"real","least":0,"most":9000,"step":1}]"#;
    let columns: Vec<TableColumn> = serde_json::from_str(columns).expect("columns");
    let mut datasets = datasets();
    for dataset in &mut datasets {
        (dataset.content, dataset.inputs, dataset.classes, dataset.test_records) = (DatasetContent::Table, 0, 0, 0);
        (dataset.users, dataset.units) = (Some(SizeClass(1000)), vec![PrivacyUnit::User]);
        dataset.table =
            Some(TableSchema { unit_column: "patient".to_owned(), columns: columns.clone(), encoder: None });
    }
    datasets
}

fn account(standing: &AccountStanding, index: u128) -> Account {
    let summary = standing.balance.summary();
    let reading = GaugeReading::from_summary(&summary, standing.unit).expect("the balance has a budget");
    Account {
        id: AccountId(Uuid::from_u128(0x0800 + index)),
        unit: standing.unit,
        adjacency: standing.adjacency,
        epsilon: summary.limit.expect("the balance has a budget"),
        delta: summary.delta.expect("the balance has a budget"),
        filter: standing.balance.filter(),
        spent: reading.spent,
        committed: reading.committed,
        spent_fraction: summary.spent_fraction,
        reserved_fraction: summary.reserved_fraction,
        released_in_the_clear: 0,
        uncovered: Vec::new(),
    }
}
