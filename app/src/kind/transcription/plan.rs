//! A plan: the content of the planner's form, before it becomes a spec. The form posts it and its address contains it,
//! so that a plan with a short list of words can be kept as a link.

mod draft;
mod spec;

use serde::{Deserialize, Serialize};
use undertone_api::budget::AccountStanding;
use undertone_api::dataset::{Dataset, Visibility};
use undertone_api::id::{ConsortiumId, DatasetId};
use undertone_api::job::transcription::window::ONE_WORD;
use undertone_api::job::transcription::{
    CrowdedPieces, DummyCorpus, ProviderProtocol, SiteRecognizer, Spec, Vocabulary, WordWeight,
};
use undertone_privacy::PrivacyUnit;

/// Rows for recognizers in the form; those without a name are ignored.
pub(super) const ROWS: usize = 4;
/// The longest address with a plan: proxies commonly accept at most 8 KiB of a request's first line.
const LONGEST_ADDRESS: usize = 7500;
/// The share of an account's ε and δ in a first plan.
const PART: f64 = 0.1;
/// The words of a first plan: the proposer must provide a public list.
const WORDS: &str = "";
/// The assumed number of words until the list is written: the size of a specialist's glossary of a few pages.
const SIZE: u32 = 200;
/// The most words of a plan, equal to the most of a list.
pub(super) const MOST_WORDS: u32 = 20_000;

/// A recognizer in a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecognizerRow {
    /// The site's name for it; empty for none.
    #[serde(default)]
    pub name: String,
    /// Its protocol.
    pub protocol: ProviderProtocol,
    /// Currency of its price.
    #[serde(default)]
    pub currency: String,
    /// Its price of a minute; empty for none.
    #[serde(default)]
    pub per_minute: String,
    /// The step to which every request is rounded up, seconds.
    pub step: u32,
    /// The least billed time of a request, seconds.
    pub least: u32,
}

/// A plan of a `transcription` job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TranscriptionPlan {
    /// Title of the job.
    pub title: String,
    /// The recordings.
    pub dataset: DatasetId,
    /// ε.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
    /// d.
    pub distance: u32,
    /// The recognizers.
    pub providers: Vec<RecognizerRow>,
    /// The number of colluding ones.
    pub colluding: u32,
    /// The spoken language.
    pub language: String,
    /// The source of the vocabulary: `public`, `selected` or `data`.
    pub from: String,
    /// The public list, words separated by blanks or commas.
    #[serde(default)]
    pub words: String,
    /// The assumed number of words until the list is written.
    #[serde(default = "default_size")]
    pub size: u32,
    /// The percentage of the most frequent words, for a vocabulary from the data.
    pub top: f64,
    /// The TF-IDF above which a word is included; empty for none.
    #[serde(default)]
    pub above: String,
    /// The most words from the data.
    pub most: u32,
    /// The public candidates of a choice with noise, words separated by blanks or commas.
    #[serde(default)]
    pub candidates: String,
    /// The number of words to choose with noise.
    #[serde(default = "default_choose")]
    pub choose: u32,
    /// ε of a choice with noise, a part of ε.
    #[serde(default = "default_choice")]
    pub choice: f64,
    /// The value of a vote in a choice with noise.
    #[serde(default)]
    pub weight: WordWeight,
    /// The dummies' text.
    pub corpus: DummyCorpus,
    /// The voice: `varied` or `vocoder` for the vocoder, `mcadams`, `command` or `url`; `cloned` for none.
    pub voice: String,
    /// α of the McAdams coefficient.
    pub alpha: f64,
    /// Coefficients of the vocoder.
    #[serde(default = "default_detail")]
    pub detail: u32,
    /// Pieces with several words.
    pub crowded: CrowdedPieces,
    /// The recognizer at the site.
    pub recognizer: SiteRecognizer,
}

const fn default_size() -> u32 {
    SIZE
}

const fn default_choose() -> u32 {
    50
}

const fn default_choice() -> f64 {
    0.1
}

const fn default_detail() -> u32 {
    13
}

impl TranscriptionPlan {
    /// Makes an initial plan: the first private recordings, a tenth of their account. `None` without recordings.
    pub(super) fn first(datasets: &[Dataset], standings: &[(DatasetId, Vec<AccountStanding>)]) -> Option<Self> {
        let private = |dataset: &&Dataset| dataset.visibility != Visibility::Public;
        let dataset = datasets.iter().find(private).or_else(|| datasets.first())?;
        let budget = standings
            .iter()
            .filter(|(id, _)| *id == dataset.id)
            .flat_map(|(_, all)| all)
            .find(|standing| standing.unit == PrivacyUnit::Words)
            .and_then(|standing| standing.balance.budget());
        let part = |whole: f64| (whole * PART * 1e12).round() / 1e12;
        let row = |index: usize| RecognizerRow {
            name: if index < 2 { ["one", "two"][index].to_owned() } else { String::new() },
            protocol: ProviderProtocol::Openai,
            currency: "USD".to_owned(),
            per_minute: String::new(),
            step: 1,
            least: 0,
        };
        Some(Self {
            title: String::new(),
            dataset: dataset.id,
            epsilon: budget.map_or(1.0, |budget| part(budget.epsilon().get()).clamp(0.01, 50.0)),
            // A release with a δ of its own is charged to the part of δ that the account reserves for those.
            delta: budget.map_or(1e-6, |budget| part(budget.side_delta().get()).clamp(1e-12, 0.01)),
            distance: ONE_WORD,
            providers: (0..ROWS).map(row).collect(),
            colluding: 1,
            language: "en".to_owned(),
            from: "public".to_owned(),
            words: WORDS.to_owned(),
            size: SIZE,
            top: 10.0,
            above: "0.01".to_owned(),
            most: 500,
            candidates: String::new(),
            choose: default_choose(),
            choice: budget.map_or(0.5, |budget| part(budget.epsilon().get() / 2.0).clamp(0.01, 25.0)),
            weight: WordWeight::Frequency,
            corpus: DummyCorpus::Bundled,
            voice: "varied".to_owned(),
            alpha: 0.8,
            detail: default_detail(),
            crowded: CrowdedPieces::Keep,
            recognizer: SiteRecognizer::Site,
        })
    }

    /// Returns the assumed size of its spec's vocabulary: that of the spec, or the planned one while the public list is
    /// empty.
    pub(super) fn size(&self, spec: &Spec) -> u32 {
        if lacks_words(spec) { self.size.clamp(1, MOST_WORDS) } else { spec.vocabulary.most() }
    }

    /// Parses the plan in a page's query, if it has one.
    pub(super) fn from_query(query: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct PlanQuery {
            hear: TranscriptionPlan,
        }
        crate::query::parse::<PlanQuery>(query).map(|query| query.hear)
    }

    /// Returns the address of the planner with this plan; `None` if its words make it too long.
    pub(super) fn link(&self, consortium: ConsortiumId) -> Option<String> {
        let query = serde_qs::to_string(&std::collections::BTreeMap::from([("hear", self)])).ok()?;
        let address = format!("{}?{query}", crate::path::plan(consortium));
        (address.len() <= LONGEST_ADDRESS).then_some(address)
    }
}

/// Returns whether a spec uses a public list that is still empty.
pub(super) fn lacks_words(spec: &Spec) -> bool {
    matches!(&spec.vocabulary, Vocabulary::Public { words } if words.is_empty())
}
