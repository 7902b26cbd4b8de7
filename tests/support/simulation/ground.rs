//! The initial state of every schedule, made once by the real components: a server with one consortium of three
//! organizations, and their enrolled sites with registered datasets and budgets. A schedule works on a copy.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ed25519_dalek::SigningKey;
use tempfile::TempDir;
use time::OffsetDateTime;
use time::macros::datetime;
use undertone_api::budget::NewBudget;
use undertone_api::consortium::NewConsortium;
use undertone_api::dataset::{DatasetRegistration, Visibility};
use undertone_api::id::{ConsortiumId, DatasetId, WorkerId};
use undertone_api::member::{NewMember, RoleScope};
use undertone_api::organization::{InvitationPurpose, NewInvitation};
use undertone_api::signed::ApprovalKey;
use undertone_api::worker::NewEnrolment;
use undertone_privacy::ledger::{Balance, Budget, GridKind};
use undertone_privacy::{Adjacency, Delta, Epsilon, Event, NoiseMultiplier, PrivacyUnit, SamplingRate};
use undertone_server_core::auth::Actor;
use undertone_server_core::ctx::{Addresses, ManualClock, Random};
use undertone_server_core::service::{budget, consortium, dataset, invitation, session, setup, worker as workers};
use undertone_server_core::{Config, Ctx};
use undertone_worker::config::{CheckedToken, Config as SiteConfig, ServerEndpoint};
use undertone_worker::daemon::Site;
use undertone_worker::site::consent::pin_key;
use undertone_worker::site::datasets::note_registered;
use undertone_worker::site::folder::Folder;
use undertone_worker::site::keys::SiteKey;
use undertone_worker::site::policy::TEMPLATE;
use undertone_worker::speech::dataset::layout::VERSION;
use undertone_worker::speech::dataset::{Meta, SplitCounts};

use super::Failed;
use crate::stage::TestDatabase;

/// The time at which every schedule begins.
pub(super) const START: OffsetDateTime = datetime!(2026-11-20 12:00 UTC);
/// δ of every budget.
const DELTA: f64 = 1e-6;
/// The number of releases in a dataset's budget at the server; its site's policy permits [`AT_SITE`].
const AT_SERVER: u64 = 9;
/// One less than at the server, so that both ledgers refuse some jobs.
const AT_SITE: u64 = 8;
/// The password of every member.
const PASSWORD: &str = "a long enough password";

/// A dataset of a party.
#[derive(Debug, Clone)]
pub(super) struct PartyDataset {
    pub(super) id: DatasetId,
    pub(super) visibility: Visibility,
}

/// An organization with its one worker.
pub(super) struct SimulatedParty {
    pub(super) name: &'static str,
    pub(super) admin: Actor,
    pub(super) worker: WorkerId,
    pub(super) key: SiteKey,
    pub(super) config: SiteConfig,
    pub(super) holdings: Vec<PartyDataset>,
}

/// The initial state to copy.
pub struct SimulationTemplate {
    dir: TempDir,
    database: TestDatabase,
    pub(super) consortium: ConsortiumId,
    pub(super) parties: Vec<SimulatedParty>,
}

/// A copy for one schedule.
pub(super) struct SimulationCopy {
    dir: TempDir,
    pub(super) database: TestDatabase,
}

/// Name, the policy's approval, and datasets of each organization; the first is public and leads.
const PARTIES: [(&str, &str, &[&str]); 3] = [
    ("Library", "automatic", &["lead", "test"]),
    ("North", "automatic", &["ward", "clinic"]),
    ("South", "steward", &["station"]),
];

/// Returns the key with which the stewards approve jobs.
pub(super) fn approval_key() -> SigningKey {
    SigningKey::from_bytes(&[0xa9; 32])
}

/// Returns the event of every private release of a schedule: q = 1/8, z = 1.
pub(super) fn event() -> Result<Event, Failed> {
    Ok(Event::PoissonSampledGaussian {
        sampling_rate: SamplingRate::new(0.125)?,
        noise_multiplier: NoiseMultiplier::new(1.0)?,
    })
}

/// Returns the least ε, in steps of 1/16, whose budget permits so many releases.
pub(super) fn epsilon_for(releases: u64) -> Result<Epsilon, Failed> {
    for sixteenths in 1..=256_u32 {
        let epsilon = Epsilon::new(f64::from(sixteenths) / 16.0)?;
        let Ok(budget) = Budget::new(epsilon, Delta::new(DELTA)?, GridKind::for_epsilon(epsilon)) else { continue };
        let balance = Balance::new(Some(budget));
        if balance.headroom().releases(&balance.price(&event()?, Adjacency::ZeroOut)?) >= releases {
            return Ok(epsilon);
        }
    }
    Err("no epsilon up to 16 holds so many releases".into())
}

/// Returns δ of every budget.
pub(super) fn delta() -> Result<Delta, Failed> {
    Ok(Delta::new(DELTA)?)
}

/// Returns a policy that permits so many releases for records.
pub(super) fn policy(approval: &str, releases: u64, public: &[&str]) -> Result<String, Failed> {
    let epsilon = epsilon_for(releases)?.get();
    let text = TEMPLATE
        .replace("[budget.speaker]", "[budget.record]")
        .replace("approval = \"steward\"", &format!("approval = \"{approval}\""))
        .replace("most_epsilon_per_job = 4.0", "most_epsilon_per_job = 100.0")
        .replace("most_epsilon_automatic = 4.0\n", "")
        .replacen("epsilon = 8.0", &format!("epsilon = {epsilon:?}"), 1);
    let open = |name: &&str| format!("\n[datasets.\"{name}\"]\nvisibility = \"public\"\n");
    Ok(public.iter().map(open).fold(text, |text, section| text + &section))
}

/// Makes a folder in memory where possible, because a schedule syncs hundreds of times.
fn folder() -> Result<TempDir, Failed> {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { TempDir::with_prefix_in("undertone-", memory) } else { TempDir::new() };
    Ok(folder?)
}

pub(super) fn server_config(root: &Path, database: &TestDatabase) -> Config {
    Config { data_dir: root.join("server"), database_url: database.url(), ..Config::default() }
}

pub(super) fn addresses() -> Addresses {
    Addresses { http: "http://127.0.0.1:1".to_owned(), grpc: "http://127.0.0.1:1".to_owned() }
}

/// Opens a site with the given clock.
pub(super) fn open_site(
    root: &Path,
    config: &SiteConfig,
    clock: impl Fn() -> OffsetDateTime + Send + Sync + 'static,
) -> Result<Site, Failed> {
    Ok(Site::open(Folder::new(root), config, Arc::new(clock))?)
}

impl SimulationTemplate {
    /// Makes the initial state, on SQLite or on a PostgreSQL database.
    ///
    /// # Errors
    /// When a real component rejects a valid step.
    pub async fn lay(database: TestDatabase) -> Result<Self, Failed> {
        let dir = folder()?;
        let clock = ManualClock::starting_at(START);
        let config = server_config(dir.path(), &database);
        let ctx = undertone_server_core::open(config, clock.clock(), Random::seeded(7), None, addresses()).await?;
        let link = setup::operator_link(&ctx).await?.ok_or("there is an operator already")?;
        let operator = accept(&ctx, &link, "Operator", None).await?;
        let new = NewConsortium {
            name: "Speech".to_owned(),
            description: String::new(),
            organization: None,
            organization_name: None,
        };
        let consortium = consortium::create(&ctx, &operator, &new).await?.id;
        // The operator founded the consortium and has a role now.
        let operator = refreshed(&ctx, &operator).await?;
        let mut parties = Vec::new();
        for (name, approval, names) in PARTIES {
            let purpose = InvitationPurpose::Organization { consortium };
            let new = NewInvitation { purpose, label: name.to_owned() };
            let link = invitation::create(&ctx, &operator, &new).await?.link.ok_or("no link")?;
            let admin = accept(&ctx, &link, &format!("{name}Admin"), Some(name)).await?;
            parties.push(enrol(&ctx, dir.path(), name, approval, names, admin).await?);
        }
        let epsilon = epsilon_for(AT_SERVER)?;
        for party in &mut parties {
            // Organizations that joined later are in its consortium too.
            party.admin = refreshed(&ctx, &party.admin).await?;
            for holding in party.holdings.iter().filter(|holding| holding.visibility == Visibility::Private) {
                let new = NewBudget { unit: PrivacyUnit::Record, epsilon, delta: delta()?, filter: None };
                budget::set(&ctx, &party.admin, holding.id, new).await?;
            }
        }
        ctx.db.clone().close().await?;
        Ok(Self { dir, database, consortium, parties })
    }

    /// Copies everything for one schedule.
    pub(super) fn copy(&self) -> Result<SimulationCopy, Failed> {
        let dir = folder()?;
        copy_all(self.dir.path(), dir.path())?;
        Ok(SimulationCopy { dir, database: self.database.copy()? })
    }
}

impl SimulationCopy {
    pub(super) fn root(&self) -> &Path {
        self.dir.path()
    }

    pub(super) fn site(&self, number: usize) -> PathBuf {
        site(self.dir.path(), number)
    }
}

fn site(root: &Path, number: usize) -> PathBuf {
    root.join(format!("site-{number}"))
}

fn copy_all(from: &Path, to: &Path) -> std::io::Result<()> {
    for item in std::fs::read_dir(from)? {
        let item = item?;
        let target = to.join(item.file_name());
        if item.file_type()?.is_dir() {
            std::fs::create_dir(&target)?;
            copy_all(&item.path(), &target)?;
        } else {
            std::fs::copy(item.path(), target)?;
        }
    }
    Ok(())
}

async fn accept(ctx: &Ctx, link: &str, name: &str, organization: Option<&str>) -> Result<Actor, Failed> {
    let new = NewMember {
        name: name.to_owned(),
        email: format!("{}@example.org", name.to_lowercase()),
        password: PASSWORD.to_owned(),
        organization: organization.map(str::to_owned),
    };
    let secret = link.rsplit('/').next().unwrap_or_default();
    let session = invitation::accept(ctx, IpAddr::V4(Ipv4Addr::LOCALHOST), secret, &new).await?;
    Ok(session::authenticate(ctx, &session.tokens.access_token).await?)
}

async fn refreshed(ctx: &Ctx, actor: &Actor) -> Result<Actor, Failed> {
    match actor.session() {
        Some(session) => Ok(session::actor_of(ctx, session).await?),
        None => Ok(actor.clone()),
    }
}

async fn enrol(
    ctx: &Ctx,
    root: &Path,
    name: &'static str,
    approval: &str,
    names: &[&'static str],
    admin: Actor,
) -> Result<SimulatedParty, Failed> {
    let organization = admin
        .member
        .grants
        .iter()
        .find_map(|grant| match grant.scope {
            RoleScope::Organization(id) => Some(id),
            RoleScope::Consortium(_) => None,
        })
        .ok_or("the first member has no role")?;
    let number = PARTIES.iter().position(|(party, ..)| *party == name).unwrap_or_default();
    let folder = Folder::new(site(root, number));
    folder.create()?;
    let key = SiteKey::load_or_make(&folder.key())?;
    undertone_worker::site::store::Store::create(&folder.ledger())?;
    let new = NewEnrolment { name: format!("{name} worker") };
    let token = CheckedToken::parse(&workers::invite(ctx, &admin, organization, &new).await?.token)?;
    let kinds = ["dp_sgd".to_owned()];
    let enrolled = workers::enrol(ctx, &token.secret, &key.public_hex(), "0", &kinds).await?;
    let config = SiteConfig {
        server: ServerEndpoint::new("http://127.0.0.1:1", None)?,
        server_key: ctx.signer.verifying_key(),
        worker: enrolled.id,
        worker_name: enrolled.name,
        organization,
        organization_name: name.to_owned(),
        concurrent_runs: 4,
        rotate_key_days: 0,
        programs: undertone_worker::speech::sandbox::Programs::default(),
        anchor: None,
        compute: undertone_worker::dp::device::Compute::default(),
        queries: undertone_worker::config::queries::Queries::default(),
        transcription: undertone_worker::config::transcription::TranscriptionSettings::default(),
    };
    config.store(&folder)?;
    let public = number == 0;
    std::fs::write(folder.policy(), policy(approval, AT_SITE, if public { names } else { &[] })?)?;
    for dataset in names {
        describe(&folder.dataset(dataset)?, dataset)?;
    }
    let opened = open_site(folder.root(), &config, || START)?;
    let public_key = hex::encode(approval_key().verifying_key().to_bytes());
    pin_key(opened.store(), &ApprovalKey::Ed25519 { public_key }, name, START)?;
    let mut holdings = Vec::new();
    for local in opened.find_datasets()? {
        let approval = Some(opened.approval_rule(&local.name)?);
        let id =
            dataset::register(ctx, config.worker, &DatasetRegistration { approval, ..local.registration() }).await?.id;
        note_registered(opened.store(), &local.name, id)?;
        holdings.push(PartyDataset { id, visibility: local.visibility });
    }
    Ok(SimulatedParty { name, admin, worker: config.worker, key, config, holdings })
}

/// Writes a description, which is all that a site's own modules read of a dataset.
fn describe(at: &Path, name: &str) -> Result<(), Failed> {
    std::fs::create_dir_all(at)?;
    let counts = SplitCounts { utterances: 480, speakers: 48, frames: 480, users: 0 };
    let meta = Meta {
        format: VERSION,
        name: name.to_owned(),
        inputs: 13,
        classes: 40,
        utterances: 480,
        speakers: 48,
        frames: 480,
        train: counts,
        test: SplitCounts::default(),
        sample_rate: 16_000,
        features: String::new(),
        treatment: None,
        labels: String::new(),
        unit_column: None,
        units: undertone_api::dataset::usual_units(),
        preparation: Some(undertone_worker::speech::dataset::PreparationRecord::default()),
        created: String::new(),
        digest: String::new(),
    };
    std::fs::write(at.join("meta.json"), serde_json::to_string(&meta)?)?;
    Ok(())
}
