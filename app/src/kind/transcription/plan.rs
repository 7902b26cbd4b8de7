//! A plan: the planner's form as it was filled in, before it is a spec. It is what the form posts and what its address holds, so a
//! plan can be kept as a link, as long as its list of words is short.

mod opened;
mod spec;

use serde::{Deserialize, Serialize};
use undertone_api::dataset::{Dataset, Visibility};
use undertone_api::id::{ConsortiumId, DatasetId};
use undertone_api::job::transcription::window::ONE_WORD;
use undertone_api::job::transcription::{Corpus, Crowded, Protocol, Recognizer, Spec};
use undertone_privacy::PrivacyUnit;

use crate::standing::Standing;

/// Rows for recognizers in the form; those without a name are left out.
pub(super) const ROWS: usize = 4;
/// Longest address that holds a plan: proxies commonly take no more than 8 KiB of a request's first line.
const LONGEST_ADDRESS: usize = 7500;
/// What of an account's ε and δ a first plan takes.
const PART: f64 = 0.1;
/// The words of a first plan: a public list is the proposer's to give.
const WORDS: &str = "";
/// Words that a plan counts with until its list is written: as many as a specialist's glossary of a few pages has.
const SIZE: u32 = 200;
/// The most words that can be planned for: as many as a list may have.
pub(super) const MOST_WORDS: u32 = 20_000;

/// A recognizer in a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Heard {
    /// What the site calls it; empty for none.
    #[serde(default)]
    pub name: String,
    /// How it is asked.
    pub protocol: Protocol,
    /// Currency of its price.
    #[serde(default)]
    pub currency: String,
    /// Its price of a minute; empty for none.
    #[serde(default)]
    pub per_minute: String,
    /// Every request is rounded up to so many seconds.
    pub step: u32,
    /// Every request is billed for at least so many seconds.
    pub least: u32,
}

/// A plan of a `transcription` job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
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
    pub providers: Vec<Heard>,
    /// How many may put their parts together.
    pub colluding: u32,
    /// What is spoken.
    pub language: String,
    /// Where the vocabulary comes from: `public` or `data`.
    pub from: String,
    /// The public list, words with blanks or commas between.
    #[serde(default)]
    pub words: String,
    /// Words that are counted with until the list is written.
    #[serde(default = "usual_size")]
    pub size: u32,
    /// Percent of the most frequent words, of a vocabulary from the data.
    pub top: f64,
    /// TF-IDF above which a word is taken; empty for none.
    #[serde(default)]
    pub above: String,
    /// Most words from the data.
    pub most: u32,
    /// The dummies' text.
    pub corpus: Corpus,
    /// The one voice: `mcadams`, `vocoder`, `command` or `url`; `cloned` for none.
    pub voice: String,
    /// α of the McAdams coefficient.
    pub alpha: f64,
    /// Coefficients of the vocoder.
    #[serde(default = "usual_detail")]
    pub detail: u32,
    /// Pieces with several words.
    pub crowded: Crowded,
    /// The recognizer at the site.
    pub recognizer: Recognizer,
}

const fn usual_size() -> u32 {
    SIZE
}

const fn usual_detail() -> u32 {
    13
}

impl Plan {
    /// A plan to begin with: the first private recordings, a tenth of their account. Nothing without recordings.
    pub(super) fn first(datasets: &[Dataset], standings: &[(DatasetId, Vec<Standing>)]) -> Option<Self> {
        let private = |dataset: &&Dataset| dataset.visibility != Visibility::Public;
        let dataset = datasets.iter().find(private).or_else(|| datasets.first())?;
        let budget = standings
            .iter()
            .filter(|(id, _)| *id == dataset.id)
            .flat_map(|(_, all)| all)
            .find(|standing| standing.unit == PrivacyUnit::Words)
            .and_then(|standing| standing.balance.budget());
        let part = |whole: f64| (whole * PART * 1e12).round() / 1e12;
        let row = |index: usize| Heard {
            name: if index < 2 { ["one", "two"][index].to_owned() } else { String::new() },
            protocol: Protocol::Openai,
            currency: "USD".to_owned(),
            per_minute: String::new(),
            step: 1,
            least: 0,
        };
        Some(Self {
            title: String::new(),
            dataset: dataset.id,
            epsilon: budget.map_or(1.0, |budget| part(budget.epsilon().get()).clamp(0.01, 50.0)),
            // A release with a δ of its own is paid from the part of δ that the account keeps for those.
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
            corpus: Corpus::Bundled,
            voice: "mcadams".to_owned(),
            alpha: 0.8,
            detail: usual_detail(),
            crowded: Crowded::Keep,
            recognizer: Recognizer::Site,
        })
    }

    /// How many words the vocabulary of its spec is counted with: those of the spec, or as many as are planned for while no public
    /// list is written.
    pub(super) fn size(&self, spec: &Spec) -> u32 {
        if unwritten(spec) { self.size.clamp(1, MOST_WORDS) } else { spec.vocabulary.most() }
    }

    /// The plan a page's query holds, if it holds one.
    pub(super) fn from_query(query: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Query {
            hear: Plan,
        }
        crate::query::parse::<Query>(query).map(|query| query.hear)
    }

    /// The address of the planner with this plan in it; nothing when its words make it too long.
    pub(super) fn link(&self, consortium: ConsortiumId) -> Option<String> {
        let query = serde_qs::to_string(&std::collections::BTreeMap::from([("hear", self)])).ok()?;
        let address = format!("{}?{query}", crate::path::plan(consortium));
        (address.len() <= LONGEST_ADDRESS).then_some(address)
    }
}

/// Whether the words of a spec are to come from a public list that is still empty.
pub(super) fn unwritten(spec: &Spec) -> bool {
    !spec.vocabulary.depends_on_data() && spec.vocabulary.listed().is_empty()
}
