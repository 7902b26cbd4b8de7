//! All processes together: the random step, and the recovery at the end.

mod accident;

use time::Duration;
use undertone_api::budget::NewBudget;
use undertone_api::dataset::Visibility;
use undertone_api::id::JobId;
use undertone_api::job::dp_sgd::{
    AcousticModel, AverageWeights, Noise, Optimizer, Party as Part, Rounds, Spec, TestSet, WarmStart,
};
use undertone_api::job::{JobState, NewJob, RefuseRequest, Spec as AnySpec};
use undertone_api::problem::Code;
use undertone_api::signed::{ApprovalStatement, SignedApproval};
use undertone_privacy::{NoiseMultiplier, PrivacyUnit, SamplingRate};
use undertone_server_core::error::Error;
use undertone_server_core::service::{approval, budget, job as jobs};

use super::audit::server::ConsortiumAuditor;
use super::audit::{check_agreement, check_final_state};
use super::broken::BrokenRule;
use super::dice::ScheduleRng;
use super::ground::{SimulationCopy, SimulationTemplate, approval_key, delta, epsilon_for, policy};
use super::network::SimulatedNetwork;
use super::server::SimulatedServer;
use super::site::SiteProcess;
use super::trace::StepTrace;
use super::{EventCounts, Failed, ScheduleSettings, SimulationRun, StopReason};

/// The number of recovery rounds after which all processes must be at rest.
const RECOVERY: u32 = 80;

/// The highest number of open jobs: enough to compete for budgets, few enough to finish.
const MOST_OPEN: usize = 3;

/// The kinds of steps.
#[derive(Debug, Clone, Copy)]
enum StepKind {
    Propose,
    Answer,
    Cancel,
    Budget,
    Policy,
    Turn,
    Tell,
    Advance,
    Bury,
    Late,
    Clock,
    KillSite,
    KillServer,
    Start,
    Fill,
    Copy,
    Restore,
}

/// The kinds of steps with their weights.
const ACTS: [(u64, StepKind); 17] = [
    (8, StepKind::Propose),
    (16, StepKind::Answer),
    (2, StepKind::Cancel),
    (1, StepKind::Budget),
    (1, StepKind::Policy),
    (22, StepKind::Turn),
    (14, StepKind::Tell),
    (110, StepKind::Advance),
    (3, StepKind::Bury),
    (8, StepKind::Late),
    (5, StepKind::Clock),
    (3, StepKind::KillSite),
    (2, StepKind::KillServer),
    (12, StepKind::Start),
    (2, StepKind::Fill),
    (8, StepKind::Copy),
    (3, StepKind::Restore),
];

/// The state of one schedule.
pub(super) struct SimulationWorld<'g> {
    ground: &'g SimulationTemplate,
    plot: SimulationCopy,
    network: SimulatedNetwork,
    sites: Vec<SiteProcess>,
    tables: ConsortiumAuditor,
    /// The proposed jobs.
    jobs: Vec<JobId>,
    steps: u64,
    deaths: u64,
    restores: u64,
    broken: Option<BrokenRule>,
}

impl<'g> SimulationWorld<'g> {
    pub(super) async fn new(
        ground: &'g SimulationTemplate,
        seed: u64,
        setting: &ScheduleSettings,
    ) -> Result<Self, Failed> {
        let plot = ground.copy()?;
        let mut servers: Vec<_> = (0..setting.servers.max(1) as u64)
            .map(|number| SimulatedServer::new(&plot, seed.wrapping_mul(31).wrapping_add(number)))
            .collect();
        for server in &mut servers {
            server.start().await?;
        }
        let tables = if plot.database.url().is_none() {
            ConsortiumAuditor::from_file(servers[0].data())?
        } else {
            ConsortiumAuditor::from_service()
        };
        let network = SimulatedNetwork::new(servers, ScheduleRng::new(seed), StepTrace::new(setting.aloud));
        let mut sites = Vec::new();
        for (number, party) in ground.parties.iter().enumerate() {
            sites.push(SiteProcess::new(party, plot.site(number), setting.broken)?);
        }
        let broken = setting.broken;
        Ok(Self { ground, plot, network, sites, tables, jobs: Vec::new(), steps: 0, deaths: 0, restores: 0, broken })
    }

    /// Runs so many random steps, then the recovery and the final checks.
    pub(super) async fn live(&mut self, steps: u64) -> Result<(), StopReason> {
        for site in &mut self.sites {
            site.start()?;
        }
        while self.steps < steps {
            self.disorder().await?;
        }
        self.recover().await
    }

    /// Runs one random step, and checks all invariants.
    async fn disorder(&mut self) -> Result<(), StopReason> {
        let act = self.network.dice.weighted(&ACTS);
        self.accident();
        let alive = self.alive();
        if !self.act(act).await? {
            return Ok(());
        }
        self.deaths += alive.saturating_sub(self.alive());
        self.steps += 1;
        let seconds = self.network.dice.below(8) as i64;
        self.pass(Duration::seconds(seconds));
        if let Some(broken) = self.broken {
            let site = self.plot.site(1);
            if self.steps > 20 && broken.strike(self.network.servers[0].data(), &site)? {
                self.network.trace.note("a rule is broken on purpose".to_owned());
            }
        }
        self.check().await
    }

    fn alive(&self) -> u64 {
        let sites = self.sites.iter().filter(|site| site.is_alive()).count();
        (sites + self.network.servers.iter().filter(|server| server.ctx.is_some()).count()) as u64
    }

    /// Advances all clocks.
    fn pass(&self, time: Duration) {
        self.sites.iter().for_each(|site| site.pass(time));
        self.network.servers.iter().for_each(|server| server.pass(time));
    }

    /// Runs an action; returns false when it was not possible.
    async fn act(&mut self, act: StepKind) -> Result<bool, StopReason> {
        let which = self.network.dice.below(self.sites.len() as u64) as usize;
        match act {
            StepKind::Propose => self.propose().await,
            StepKind::Answer => self.answer().await,
            StepKind::Cancel => self.cancel_one().await,
            StepKind::Budget => self.budget().await,
            StepKind::Policy => self.policy(),
            StepKind::Turn => self.sites[which].turn(&mut self.network).await,
            StepKind::Tell => self.sites[which].tell(&mut self.network).await,
            StepKind::Advance => Box::pin(self.sites[which].advance(&mut self.network)).await,
            StepKind::Bury => self.sites[which].bury(&mut self.network).await,
            StepKind::Late => Ok(self.network.late().await?),
            StepKind::Clock => Ok(self.clock(which)),
            StepKind::KillSite => {
                let alive = self.sites[which].is_alive();
                if alive {
                    self.network.trace.note(format!("{} is killed", self.sites[which].name));
                    self.sites[which].kill();
                }
                Ok(alive)
            }
            StepKind::KillServer => {
                let server = self.network.somewhere();
                let alive = self.network.servers[server].ctx.is_some();
                if alive {
                    self.network.trace.note("a server is killed".to_owned());
                    self.network.servers[server].kill().await?;
                }
                Ok(alive)
            }
            StepKind::Start => self.start().await,
            StepKind::Fill => self.fill(which).await,
            StepKind::Copy => self.copy(which),
            StepKind::Restore => self.restore(which),
        }
    }

    async fn start(&mut self) -> Result<bool, StopReason> {
        let mut started = false;
        for server in &mut self.network.servers {
            if server.ctx.is_none() {
                server.start().await?;
                started = true;
            }
        }
        for site in &mut self.sites {
            if !site.is_alive() {
                site.start()?;
                site.books.verify()?;
                started = true;
            }
        }
        if started {
            self.network.trace.note("what is dead is started".to_owned());
        }
        Ok(started)
    }

    /// Proposes a job over some of the private datasets, two or three of which fit into a budget.
    async fn propose(&mut self) -> Result<bool, StopReason> {
        if self.tables.consortium.open_jobs().count() >= MOST_OPEN {
            return Ok(false);
        }
        let dice = &mut self.network.dice;
        let noise = Noise::flat(NoiseMultiplier::new(1.0)?, 1.0);
        let (lead, test) = (&self.ground.parties[0].holdings[0], &self.ground.parties[0].holdings[1]);
        let sampling_rate = SamplingRate::new(0.125)?;
        let mut participants = vec![Part { dataset: lead.id, sampling_rate, noise: None, rounds: None }];
        for holding in self.ground.parties[1..].iter().flat_map(|party| &party.holdings) {
            if dice.percent(60) {
                participants.push(Part { dataset: holding.id, sampling_rate, noise: Some(noise), rounds: None });
            }
        }
        let rounds = dice.range(1, 4) as u32;
        let private = Rounds {
            evaluate_every: 1,
            deadline_seconds: dice.range(30, 120) as u32,
            quorum: dice.range(1, participants.len() as u64) as u32,
            ..Rounds::new(rounds, Optimizer::Sgd { learning_rate: 0.1, momentum: 0.0 })
        };
        let spec = Spec {
            unit: PrivacyUnit::Record,
            model: AcousticModel::lstm(1, None),
            initial_model: None,
            participants,
            open_terms: Vec::new(),
            rehearsal: None,
            tests: vec![TestSet { name: "common".to_owned(), dataset: test.id }],
            warm_start: WarmStart { epochs: 1, batch: 1, learning_rate: 0.1, seed: 1 },
            open: None,
            private: Some(private),
            audit: None,
            selection: None,
            secure_aggregation: None,
            weights: AverageWeights::Equal,
            spare_releases: dice.below(4) as u32,
            checkpoint_every: dice.range(1, 3) as u32,
        };
        let parts = spec.participants.len();
        let new = NewJob { title: "a job".to_owned(), spec: AnySpec::DpSgd(spec) };
        let (consortium, actor) = (self.ground.consortium, &self.ground.parties[0].admin);
        let server = self.network.somewhere();
        self.network.trace.note(format!("a job of {parts} parts and {rounds} rounds is proposed"));
        let outcome = self.network.servers[server]
            .live(async |ctx| jobs::propose(ctx, actor, consortium, new).await.map(|job| job.summary.id))
            .await?;
        if let Some(Ok(job)) = &outcome {
            self.jobs.push(*job);
        }
        self.note_result(outcome);
        Ok(true)
    }

    /// Decides about a dataset as its steward.
    async fn answer(&mut self) -> Result<bool, StopReason> {
        let dice = &mut self.network.dice;
        let proposed: Vec<JobId> = self.tables.consortium.open_jobs().collect();
        let Some(which) = dice.index(proposed.len()) else { return Ok(false) };
        let party = &self.ground.parties[dice.range(1, 2) as usize];
        let Some(held) = dice.index(party.holdings.len()) else { return Ok(false) };
        let (job, dataset, yes) = (proposed[which], party.holdings[held].id, dice.percent(96));
        let server = self.network.somewhere();
        self.network.trace.note(format!("a steward of {} says {yes} to job {which}", party.name));
        let outcome = self.network.servers[server]
            .live(async |ctx| {
                if yes {
                    let manifest = jobs::get(ctx, &party.admin, job).await?.manifest;
                    let statement = ApprovalStatement::approve(&manifest, job, dataset);
                    // A statement always has a JSON form.
                    let signature = SignedApproval::sign(&statement, &approval_key()).ok();
                    approval::approve_signed(ctx, &party.admin, job, dataset, Some(&manifest), signature.as_ref()).await
                } else {
                    let refuse = RefuseRequest { reason: "no".to_owned() };
                    approval::refuse(ctx, &party.admin, job, dataset, &refuse).await
                }
            })
            .await?;
        self.note_result(outcome);
        Ok(true)
    }

    async fn cancel_one(&mut self) -> Result<bool, StopReason> {
        let Some(which) = self.network.dice.index(self.jobs.len()) else { return Ok(false) };
        self.network.trace.note(format!("job {which} is cancelled"));
        self.cancel(self.jobs[which]).await?;
        Ok(true)
    }

    async fn cancel(&mut self, job: JobId) -> Result<(), StopReason> {
        let (server, actor) = (self.network.somewhere(), &self.ground.parties[0].admin);
        let outcome = self.network.servers[server].live(async |ctx| jobs::cancel(ctx, actor, job).await).await?;
        self.note_result(outcome);
        Ok(())
    }

    /// Raises or lowers a limit at the consortium as a steward.
    async fn budget(&mut self) -> Result<bool, StopReason> {
        let dice = &mut self.network.dice;
        let party = &self.ground.parties[dice.range(1, 2) as usize];
        let Some(held) = dice.index(party.holdings.len()) else { return Ok(false) };
        let releases = dice.range(3, 16);
        let new =
            NewBudget { unit: PrivacyUnit::Record, epsilon: epsilon_for(releases)?, delta: delta()?, filter: None };
        let (server, dataset) = (self.network.somewhere(), party.holdings[held].id);
        self.network.trace.note(format!("a budget of {} becomes {releases} releases", party.name));
        let outcome =
            self.network.servers[server].live(async |ctx| budget::set(ctx, &party.admin, dataset, new).await).await?;
        self.note_result(outcome);
        Ok(true)
    }

    /// Edits a site's policy.
    fn policy(&mut self) -> Result<bool, StopReason> {
        let dice = &mut self.network.dice;
        let which = dice.range(1, 2) as usize;
        let (releases, approval) = (dice.range(2, 14), if dice.percent(50) { "automatic" } else { "steward" });
        self.network.trace.note(format!("{}'s policy: {approval}, {releases} releases", self.sites[which].name));
        std::fs::write(self.sites[which].root.join("policy.toml"), policy(approval, releases, &[])?)?;
        Ok(true)
    }

    fn note_result<T>(&mut self, outcome: Option<Result<T, Error>>) {
        let word = match outcome {
            None => "silence".to_owned(),
            Some(Ok(_)) => "done".to_owned(),
            Some(Err(error)) => {
                let problem = error.into_problem();
                self.network.trace.aside(&problem.detail);
                format!("no: {}", problem.code.slug())
            }
        };
        self.network.trace.more(&word);
    }

    /// Runs the auditors on the changed disks.
    async fn check(&mut self) -> Result<(), StopReason> {
        let ctx = self.network.servers.iter().find_map(|server| server.ctx.clone());
        let mut changed = self.tables.check(ctx.as_ref()).await?;
        for site in &mut self.sites {
            if site.books.check()? {
                changed = true;
                site.agrees()?;
            }
        }
        if changed {
            // The ledger of a restored site lacks rows until it is compared.
            for site in self.sites.iter().filter(|site| !site.outdated) {
                let worker = site.worker.0.simple().to_string();
                check_agreement(site.name, &site.books.standing, &self.tables.consortium, &worker)
                    .map_err(StopReason::Wrong)?;
            }
        }
        Ok(())
    }

    /// Starts all processes, with a perfect network and free disks: everything must come to rest.
    async fn recover(&mut self) -> Result<(), StopReason> {
        self.network.trace.note("recovery".to_owned());
        self.network.calm();
        while self.network.late().await? {}
        for server in &mut self.network.servers {
            server.planned = None;
            server.start().await?;
            server.fill(false).await?;
        }
        for site in &mut self.sites {
            site.planned = None;
            site.start()?;
            site.fill(false)?;
        }
        // Half of the schedules let their jobs run to the end, the other half cancels them now.
        let patient = self.network.dice.percent(50);
        for turn in 0..RECOVERY {
            if turn == RECOVERY / 2 || (turn == 0 && !patient) {
                // Includes jobs without an answer to their proposer.
                self.check().await?;
                let open: Vec<_> = self.tables.consortium.open_jobs().collect();
                for job in open {
                    self.network.trace.note("cancelled in the recovery".to_owned());
                    self.cancel(job).await?;
                }
            }
            self.steps += 1;
            self.pass(Duration::seconds(70));
            for site in &mut self.sites {
                site.turn(&mut self.network).await?;
                site.tell(&mut self.network).await?;
                for _ in 0..site.in_hand() * 8 {
                    Box::pin(site.advance(&mut self.network)).await?;
                }
                site.bury(&mut self.network).await?;
            }
            self.check().await?;
            if self.rests().is_ok() {
                break;
            }
        }
        self.rests().map_err(StopReason::Wrong)?;
        for site in &self.sites {
            site.books.verify()?;
        }
        self.proved().await
    }

    fn rests(&self) -> Result<(), String> {
        self.sites.iter().try_for_each(|site| {
            let worker = site.worker.0.simple().to_string();
            check_final_state(site.name, &site.books.standing, &self.tables.consortium, &worker)
        })
    }

    /// Runs the server's own verification of every account.
    async fn proved(&self) -> Result<(), StopReason> {
        let Some(ctx) = self.network.servers.iter().find_map(|server| server.ctx.as_ref()) else { return Ok(()) };
        for party in &self.ground.parties[1..] {
            for holding in party.holdings.iter().filter(|holding| holding.visibility == Visibility::Private) {
                let dataset = undertone_server_core::service::dataset::get(ctx, &party.admin, holding.id).await?;
                for account in dataset.accounts {
                    if let Err(error) =
                        undertone_server_core::service::ledger::rebuild(ctx.db.read(), account.id.0).await
                    {
                        let Code::Internal = error.code() else { return Err(error.into()) };
                        return Err(StopReason::Wrong(format!("an account cannot be rebuilt: {error}")));
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the result of the schedule.
    pub(super) fn played(&self, seed: u64, wrong: Option<String>) -> SimulationRun {
        let consortium = &self.tables.consortium;
        let tally = EventCounts {
            releases: self.sites.iter().map(|site| site.books.standing.receipts.len() as u64).sum(),
            counted: consortium.receipts.values().map(|chain| chain.len() as u64).sum(),
            jobs: self.jobs.len() as u64,
            finished: consortium.jobs.values().filter(|state| **state == JobState::Finished).count() as u64,
            deaths: self.deaths,
            restores: self.restores,
        };
        SimulationRun { seed, steps: self.steps, trace: self.network.trace.digest(), tally, wrong }
    }

    /// Returns the violation after the last lines of the trace.
    pub(super) fn story(&self, what: &str) -> String {
        format!("{}\n{what}", self.network.trace.tail().join("\n"))
    }

    /// Ends all processes.
    pub(super) async fn end(mut self) -> Result<(), Failed> {
        for server in &mut self.network.servers {
            server.kill().await?;
        }
        Ok(())
    }
}
