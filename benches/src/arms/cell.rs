//! The cells of the comparison, each a job.

use support::stage::TestResult;
use undertone_api::dataset::Dataset;
use undertone_api::job::JobKind as _;
use undertone_api::job::dp_sgd::{AuditOptions, Spec};
use undertone_api::plan::epsilon_alone;
use undertone_api::report::PartyCost;
use undertone_privacy::pld::Plan;
use undertone_privacy::{Delta, Epsilon, NoiseMultiplier, PrivacyUnit, level};

use super::recipe::TrainingRecipe;
use super::scene::{ArmsConsortium, PRIVATE};
use super::unit_word;

/// The z of *Sotto Voce*: a step of ε 100 at δ 10⁻⁶ by itself. The report contains the cost of all steps, at the δ of
/// the other cells.
const PAPER: f64 = 0.0978;
/// The paper's number of passes over the data.
const PASSES: u32 = 14;
const EPSILONS: [f64; 4] = [1.0, 3.0, 10.0, 100.0];

/// The tried changes of the recipe, at records and ε 10.
const TRIED: [&str; 26] = [
    "",
    "rate=0.4",
    "rate=0.15",
    "rounds=10",
    "rounds=40",
    "rounds=80",
    "ema=0.9",
    "train=output",
    "train=all",
    "train=all,rounds=48",
    "rank=4",
    "rank=8",
    "rank=16",
    "train=all,rank=8",
    "biases=true",
    "optimizer=dp_adam",
    "optimizer=sgd,lr=0.5",
    "clipping=automatic",
    "clipping=per_layer",
    "clip=0.3",
    "schedule=cosine",
    "local=4,rounds=6",
    "precision=int8",
    "group=3",
    "group=3,colluding=1",
    "rate=0.25,rounds=40,bands=4",
];

/// The choice of the noise.
#[derive(Debug, Clone, Copy)]
pub(super) enum NoiseChoice {
    /// The least noise with which all rounds together cost this ε, by the tight accountant.
    OfEpsilon(f64),
    /// A fixed noise multiplier, at any cost.
    Fixed(f64),
}

/// A job.
#[derive(Debug, Clone)]
pub(super) struct GridCell {
    pub(super) name: String,
    pub(super) unit: PrivacyUnit,
    pub(super) noise: NoiseChoice,
    pub(super) delta: f64,
    pub(super) recipe: TrainingRecipe,
    /// Whether it has all arms, canaries and the product's own attacks.
    pub(super) audited: bool,
}

impl GridCell {
    fn new(unit: PrivacyUnit, epsilon: f64, recipe: &TrainingRecipe) -> Self {
        Self {
            name: format!("{}:{epsilon}", unit_word(unit)),
            unit,
            noise: NoiseChoice::OfEpsilon(epsilon),
            delta: if unit == PrivacyUnit::Record { 1e-5 } else { 1e-3 },
            recipe: recipe.clone(),
            audited: false,
        }
    }

    /// Returns the job of the cell.
    ///
    /// # Errors
    /// When no noise gives the requested ε, or a number is out of range.
    pub(super) async fn spec(&self, scene: &ArmsConsortium) -> TestResult<Spec> {
        let recipe = &self.recipe;
        let mut spec = recipe.spec(scene, self.unit).await?;
        spec.private = Some(recipe.private_rounds(scene)?);
        spec.secure_aggregation = recipe.aggregation();
        let private = scene.stage.dataset(PRIVATE[0]).await?;
        let noise_multiplier = match self.noise {
            NoiseChoice::Fixed(z) => NoiseMultiplier::new(z)?,
            NoiseChoice::OfEpsilon(epsilon) => least_noise(epsilon, self.delta, recipe, &spec, &private)?,
        };
        set_noise(&mut spec, recipe, noise_multiplier);
        if self.audited {
            spec.open = Some(recipe.open_rounds(scene));
            spec.audit = Some(AuditOptions { canaries: 1000, guesses: 500, recordings: 200 });
        }
        Ok(spec)
    }
}

/// Returns the selected cells, each once.
///
/// # Errors
/// When the selection contains an unknown cell.
pub(super) fn select_cells(choice: &str, recipe: &TrainingRecipe) -> TestResult<Vec<GridCell>> {
    let mut cells: Vec<GridCell> = Vec::new();
    for word in choice.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let some = match word {
            "grid" => {
                let units = [PrivacyUnit::Record, PrivacyUnit::Speaker];
                let grid =
                    units.into_iter().flat_map(|unit| EPSILONS.map(|epsilon| GridCell::new(unit, epsilon, recipe)));
                grid.chain([paper(recipe)?]).collect()
            }
            "paper" => vec![paper(recipe)?],
            "original" => vec![original(recipe)?],
            "audited" => {
                let cell = GridCell::new(PrivacyUnit::Record, 10.0, recipe);
                vec![GridCell { name: "audited".to_owned(), audited: true, ..cell }]
            }
            "ablation" => TRIED.into_iter().map(|changes| tried(changes, recipe)).collect::<TestResult<_>>()?,
            _ if word.starts_with("try:") => vec![tried(&word["try:".len()..].replace(';', ","), recipe)?],
            _ => match word.split_once(':').map(|(unit, epsilon)| (unit, epsilon.parse())) {
                Some(("record", Ok(epsilon))) => vec![GridCell::new(PrivacyUnit::Record, epsilon, recipe)],
                Some(("speaker", Ok(epsilon))) => vec![GridCell::new(PrivacyUnit::Speaker, epsilon, recipe)],
                _ => return Err(format!("UNDERTONE_ARMS: there is no {word:?}").into()),
            },
        };
        cells.extend(some);
    }
    // Cells with the same labels share a consortium. A limit for speakers, which a cell for speakers needs, refuses jobs
    // that protect records.
    cells.sort_by_key(|cell| (cell.recipe.labels, cell.unit == PrivacyUnit::Speaker));
    Ok(cells)
}

/// Returns the paper's own step: all units in every batch, so many passes, no amplification.
fn paper(recipe: &TrainingRecipe) -> TestResult<GridCell> {
    let recipe = recipe.with(&format!("rate=1,rounds={PASSES},local=1"))?;
    let cell = GridCell::new(PrivacyUnit::Record, 100.0, &recipe);
    Ok(GridCell { name: "paper".to_owned(), noise: NoiseChoice::Fixed(PAPER), ..cell })
}

/// Returns the original setting: the paper's step and δ, 200 units, 9,096 classes, all parts trained, as many passes over
/// the public data and over the pooled data as private ones.
fn original(recipe: &TrainingRecipe) -> TestResult<GridCell> {
    let setting = format!(
        "labels=original,hidden=200,train=all,warm={PASSES},warm_lr=1e-3,open={PASSES},open_rate=1,open_lr=1e-3,lr=1e-3"
    );
    let cell = paper(&recipe.with(&setting)?)?;
    Ok(GridCell { name: "original".to_owned(), delta: 1e-6, ..cell })
}

fn tried(changes: &str, recipe: &TrainingRecipe) -> TestResult<GridCell> {
    let cell = GridCell::new(PrivacyUnit::Record, 10.0, &recipe.with(changes)?);
    let name = if changes.is_empty() { "as it is" } else { changes };
    Ok(GridCell { name: format!("tried {name}"), ..cell })
}

/// Gives every private party this noise.
fn set_noise(spec: &mut Spec, recipe: &TrainingRecipe, noise_multiplier: NoiseMultiplier) {
    for party in &mut spec.participants[1..] {
        party.noise = Some(recipe.noise(noise_multiplier));
    }
}

/// Returns the least noise, to a part in two hundred, with which all releases of a party cost `epsilon` as its report
/// states it: the lower of the tight number and the Rényi bound. All parameters are fixed before the first release.
/// `private` is the dataset of a private party.
fn least_noise(
    epsilon: f64,
    delta: f64,
    recipe: &TrainingRecipe,
    spec: &Spec,
    private: &Dataset,
) -> TestResult<NoiseMultiplier> {
    let delta = Delta::new(delta)?;
    let enough = |z: f64| -> TestResult<bool> {
        let mut spec = spec.clone();
        // The manifest states the classes, and the price of a sum under masks depends on its length.
        spec.model.classes = Some(recipe.labels.classes().into());
        set_noise(&mut spec, recipe, NoiseMultiplier::new(z)?);
        let charge = spec.cost(private).ok_or("a private party is not charged")?;
        let mut plan = Plan::new();
        plan.add(&charge.event, charge.adjacency, charge.event.count_charges(charge.releases));
        // A mechanism without a loss distribution, or one that fits on no grid, has its Rényi bound alone, as in reports.
        let tight = plan.epsilon(delta).ok().flatten().map(Epsilon::get);
        Ok([tight, epsilon_alone(&charge, delta)].into_iter().flatten().any(|cost| cost <= epsilon))
    };
    let (mut low, mut high) = (0.05, 0.1);
    while !enough(high)? {
        (low, high) = (high, high * 2.0);
        if high > 1000.0 {
            return Err(format!("no noise makes this recipe cost ε {epsilon}").into());
        }
    }
    while high / low > 1.005 {
        let middle = f64::midpoint(low, high);
        if enough(middle)? { high = middle } else { low = middle }
    }
    Ok(NoiseMultiplier::new(high)?)
}

/// Returns ε for all recordings of one speaker, from the highest number of records of a speaker, which only the
/// experimenter knows. `None` where there is no meaningful bound.
pub(super) fn speaker_epsilon(unit: PrivacyUnit, cost: &PartyCost, records: u64) -> Option<f64> {
    let delta = Delta::new(cost.delta?).ok()?;
    let size = if unit == PrivacyUnit::Record { records } else { 1 };
    level::of_group(&cost.event, cost.releases, size, delta).ok().flatten().map(Epsilon::get)
}
