//! One account, replayed from its leaves: every event is priced again, every reservation is admitted again by the limit
//! of its time, every commit and settlement is applied. The result is then compared with the server's claim.

use std::collections::{BTreeMap, HashMap};

use undertone_api::budget::EntryKind;
use undertone_api::log::leaf;
use undertone_api::signed::Receipt;
use undertone_privacy::curve::Curve;
use undertone_privacy::ledger::{
    Balance, Budget, Cost, JobCertificate, JobCost, LedgerError, Reservation, ReservationId,
};
use undertone_privacy::mechanism::{EVALUATOR_VERSION, can_verify, charges_every_unit};
use undertone_privacy::{Adjacency, Delta, Epsilon, Event, PrivacyUnit};
use uuid::Uuid;

use super::NOTHING;
use super::manifest::ManifestParty;

/// The replayed state of an account.
#[derive(Debug)]
pub(super) struct ReplayedAccount {
    organization: Uuid,
    lineage: Uuid,
    unit: PrivacyUnit,
    adjacency: Adjacency,
    balance: Balance,
    in_the_clear: u64,
    entries: u64,
    head: String,
    parts: BTreeMap<(Uuid, Uuid), ReplayedPart>,
    /// The costs of events and certificates, with the number of releases of a whole job.
    prices: HashMap<(String, Option<String>, u64), JobCost>,
    /// The position at which the log first set its limit.
    limited_at: Option<u64>,
    /// The reservations of jobs that protect the account's own unit, under the rule that charges every limit, with
    /// their positions.
    own: Vec<((Uuid, Uuid), u64)>,
    /// Whether a row did not follow its predecessor: later rows cannot be verified.
    broken: bool,
    claimed: bool,
}

/// Returns whether an event is charged to another unit than the one that its job protects.
const fn is_substituted(event: &Event) -> bool {
    matches!(event, Event::Substituted { .. })
}

/// The remaining charge of a job.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ReplayedPart {
    event: String,
    cost: Option<JobCost>,
    releases: u64,
    committed: u64,
    settled: bool,
    claimed: bool,
}

impl ReplayedPart {
    /// Makes a part from the server's claim.
    pub(super) fn from_claim(event: &str, cost: &Cost, releases: u64, committed: u64, settled: bool) -> Self {
        let cost = Some(JobCost::PerRelease(cost.clone()));
        Self { event: event.to_owned(), cost, releases, committed, settled, claimed: true }
    }
}

/// The server's claim about an account.
#[derive(Debug)]
pub(super) struct AccountClaim<'a> {
    pub(super) balance: &'a Balance,
    pub(super) in_the_clear: u64,
    pub(super) entries: u64,
    pub(super) head: &'a str,
}

fn read<T: serde::de::DeserializeOwned>(text: &str, what: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| format!("its {what} cannot be read: {error}"))
}

fn word<T: serde::de::DeserializeOwned>(word: &str, what: &str) -> Result<T, String> {
    serde_json::from_value(word.into()).map_err(|error| format!("its {what} cannot be read: {error}"))
}

impl ReplayedAccount {
    /// Makes a new account.
    pub(super) fn new(began: &leaf::AccountRecord) -> Result<Self, String> {
        Ok(Self {
            organization: began.organization,
            lineage: began.lineage,
            unit: word(&began.unit, "unit")?,
            adjacency: word(&began.adjacency, "adjacency")?,
            balance: Balance::new(None),
            in_the_clear: 0,
            entries: 0,
            head: NOTHING.to_owned(),
            parts: BTreeMap::new(),
            prices: HashMap::new(),
            limited_at: None,
            own: Vec::new(),
            broken: false,
            claimed: false,
        })
    }

    /// Returns whether a receipt belongs to this account's lineage and unit.
    pub(super) fn is_for(&self, receipt: &Receipt) -> bool {
        (receipt.lineage.0, receipt.unit) == (self.lineage, self.unit)
            && receipt.adjacency.shares_account(self.adjacency)
    }

    /// Applies a limit that a steward set.
    pub(super) fn limit(&mut self, limit: &leaf::LimitRecord) -> Result<(), String> {
        let budget: Budget = read(&limit.limits, "limit")?;
        let epsilon = Epsilon::new(limit.epsilon).map_err(|error| error.to_string())?;
        let delta = Delta::new(limit.delta).map_err(|error| error.to_string())?;
        let again = Budget::new(epsilon, delta, budget.grid()).map_err(|error| error.to_string())?;
        if again != budget {
            return Err(format!("its limits are not those that ε {} at δ {} come to", limit.epsilon, limit.delta));
        }
        self.balance.set_budget(budget).map_err(|error| error.to_string())?;
        self.prices.clear();
        let nothing = Curve::zero(self.balance.grid());
        if let Err(LedgerError::Refused(refusal)) = self.balance.check(&nothing, 1) {
            return Err(format!("it is below what was spent and reserved by then: {refusal}"));
        }
        Ok(())
    }

    /// Records the position of its first limit, or of a reservation.
    pub(super) fn place(&mut self, position: u64, entry: Option<&leaf::EntryRecord>) {
        let Some(entry) = entry else {
            self.limited_at = self.limited_at.or(Some(position));
            return;
        };
        let is_own = entry.kind == "reserve" && charges_every_unit(&entry.evaluator);
        if is_own
            && read::<Event>(&entry.event, "event")
                .is_ok_and(|event| !is_substituted(&event) && event != Event::NonPrivate)
        {
            self.own.push(((entry.job, entry.dataset), position));
        }
    }

    /// Describes the first job that protects this account's unit but is not charged to `other`, another limited unit of
    /// the same lineage.
    pub(super) fn find_uncharged(&self, other: &Self) -> Option<String> {
        let is_sibling = (self.organization, self.lineage, self.adjacency)
            == (other.organization, other.lineage, other.adjacency)
            && self.unit != other.unit;
        let limited_at = other.limited_at.filter(|_| is_sibling && !self.broken && !other.broken)?;
        let sums =
            |account: &Self, key| account.parts.get(key).map(|part| (part.releases, part.committed, part.settled));
        let missing =
            self.own.iter().find(|(key, position)| *position > limited_at && sums(self, key) != sums(other, key));
        missing.map(|((job, dataset), _)| {
            let unit = other.unit;
            format!(
                "job {job}, dataset {dataset} was not charged to the account of the unit {unit:?}, which had a limit"
            )
        })
    }

    /// Applies the next row.
    pub(super) fn entry(&mut self, entry: &leaf::EntryRecord, party: Option<&ManifestParty>) -> Result<(), String> {
        if self.broken {
            return Ok(());
        }
        let followed = self.follow(entry, party);
        self.broken = followed.is_err();
        followed
    }

    fn follow(&mut self, entry: &leaf::EntryRecord, party: Option<&ManifestParty>) -> Result<(), String> {
        if entry.sequence != self.entries as i64 + 1 || entry.previous != self.head {
            return Err(format!("it does not follow row {}: the account's chain is broken", self.entries));
        }
        (self.entries, self.head) = (self.entries + 1, entry.hash());
        if !can_verify(&entry.evaluator) {
            return Err(format!(
                "it was priced by {}, this program prices by {EVALUATOR_VERSION}: examine it with the version that it names",
                entry.evaluator
            ));
        }
        let event: Event = read(&entry.event, "event")?;
        let count = u64::try_from(entry.count).map_err(|_| "its count is negative".to_owned())?;
        match word(&entry.kind, "kind")? {
            EntryKind::Reserve => self.reserve(entry, &event, count, party),
            EntryKind::Commit => self.commit(entry, &event, count),
            EntryKind::Settle => self.settle(entry, count),
        }
    }

    fn reserve(
        &mut self,
        entry: &leaf::EntryRecord,
        event: &Event,
        count: u64,
        party: Option<&ManifestParty>,
    ) -> Result<(), String> {
        let key = (entry.job, entry.dataset);
        if self.parts.contains_key(&key) {
            return Err("it reserves a second time for one dataset of a job".to_owned());
        }
        if let Some(party) = party {
            // The charge of another limited unit of the lineage follows from the manifest's charge.
            let expected = party.charge.as_ref().and_then(|charge| charge.for_unit(self.unit).ok());
            let is_charged = expected.is_some_and(|charge| {
                charge.is_on(self.unit, self.adjacency) && (&charge.event, charge.releases) == (event, count)
            });
            if !is_charged || (party.organization, party.lineage) != (self.organization, self.lineage) {
                return Err("it reserves something else than the signed manifest charges this dataset".to_owned());
            }
        }
        let cost = if *event == Event::NonPrivate {
            None
        } else {
            let cost = self.price(entry, event, count)?;
            self.balance
                .reserve_job(ReservationId(u128::from(self.entries)), &cost, count)
                .map_err(|error| format!("the limit in force did not admit it: {error}"))?;
            Some(cost)
        };
        let event = entry.event.clone();
        let part = ReplayedPart { event, cost, releases: count, committed: 0, settled: false, claimed: false };
        self.parts.insert(key, part);
        Ok(())
    }

    /// Returns the cost that the row of a reservation states. A certificate is computed again from the event.
    fn price(&mut self, entry: &leaf::EntryRecord, event: &Event, count: u64) -> Result<JobCost, String> {
        let is_whole = entry.certificate.is_some() || event.whole_releases().is_some();
        let key = (entry.event.clone(), entry.certificate.clone(), if is_whole { count } else { 0 });
        if let Some(cost) = self.prices.get(&key) {
            return Ok(cost.clone());
        }
        let certificate = entry.certificate.as_deref().map(|text| read::<JobCertificate>(text, "certificate"));
        let certificate = certificate.transpose()?;
        if let Some(stated) = &certificate {
            stated.verify(event, self.adjacency).map_err(|error| error.to_string())?;
        }
        let cost = JobCost::from_row(event, count, self.adjacency, self.balance.grid(), certificate.as_ref());
        let cost = cost.map_err(|error| error.to_string())?;
        self.prices.insert(key, cost.clone());
        Ok(cost)
    }

    fn commit(&mut self, entry: &leaf::EntryRecord, event: &Event, count: u64) -> Result<(), String> {
        // Only the row of the unit that the job protects names the receipt.
        if count != 1 || entry.receipt.is_none() != is_substituted(event) {
            return Err("a commit is one release that one receipt pays for".to_owned());
        }
        let Some(part) = self.parts.get_mut(&(entry.job, entry.dataset)).filter(|part| !part.settled) else {
            return Err("nothing is reserved for it".to_owned());
        };
        if *event == Event::NonPrivate {
            self.in_the_clear += 1;
            part.committed += u64::from(part.cost.is_none());
            return Ok(());
        }
        let Some(cost) = part.cost.clone().filter(|_| part.event == entry.event) else {
            return Err("it commits another release than was reserved".to_owned());
        };
        let mut reservation = Reservation::from_job(ReservationId(0), cost, part.releases, part.committed, false)
            .map_err(|error| error.to_string())?;
        self.balance.commit(&mut reservation).map_err(|error| error.to_string())?;
        part.committed += 1;
        Ok(())
    }

    fn settle(&mut self, entry: &leaf::EntryRecord, count: u64) -> Result<(), String> {
        let Some(part) = self.parts.get_mut(&(entry.job, entry.dataset)).filter(|part| !part.settled) else {
            return Err("nothing is left to settle".to_owned());
        };
        let open = match part.cost.clone() {
            None => part.releases.saturating_sub(part.committed),
            Some(cost) => {
                let reservation = Reservation::from_job(ReservationId(0), cost, part.releases, part.committed, false);
                let mut reservation = reservation.map_err(|error| error.to_string())?;
                self.balance.settle(&mut reservation).map_err(|error| error.to_string())?
            }
        };
        part.settled = true;
        if open == count { Ok(()) } else { Err(format!("it gives back {count} releases where {open} were left")) }
    }

    /// Compares the server's claim with the result of the rows.
    pub(super) fn compare(&mut self, claim: &AccountClaim<'_>) -> Result<(), String> {
        self.claimed = true;
        if self.broken {
            return Ok(());
        }
        if *claim.balance != self.balance {
            return Err("its balance is not what its rows come to".to_owned());
        }
        if claim.in_the_clear != self.in_the_clear {
            return Err(format!(
                "{} releases in the clear are claimed, its rows have {}",
                claim.in_the_clear, self.in_the_clear
            ));
        }
        if (claim.entries, claim.head) != (self.entries, &*self.head) {
            return Err(format!(
                "it claims {} rows and their hash; there are {} and another",
                claim.entries, self.entries
            ));
        }
        Ok(())
    }

    /// Compares the server's claim of a reservation with its rows.
    pub(super) fn compare_part(&mut self, key: (Uuid, Uuid), claim: &ReplayedPart) -> Result<(), String> {
        let Some(part) = self.parts.get_mut(&key) else {
            return if self.broken { Ok(()) } else { Err("no row of the account reserves it".to_owned()) };
        };
        part.claimed = true;
        if self.broken {
            return Ok(());
        }
        if part.cost.is_some() && part.cost.as_ref().map(JobCost::cost) != claim.cost.as_ref().map(JobCost::cost) {
            return Err("a release of it is not priced as its event costs".to_owned());
        }
        let sums = |part: &ReplayedPart| (part.event.clone(), part.releases, part.committed, part.settled);
        if sums(part) == sums(claim) { Ok(()) } else { Err("its counts are not what its rows come to".to_owned()) }
    }

    /// Describes a result of the rows that the server does not claim, if any.
    pub(super) fn find_unclaimed(&self) -> Option<String> {
        if !self.claimed {
            return Some("its row is missing".to_owned());
        }
        let (job, dataset) = self.parts.iter().find(|(_, part)| !part.claimed).map(|(key, _)| key)?;
        (!self.broken).then(|| format!("the reservation of job {job}, dataset {dataset} is missing"))
    }
}
