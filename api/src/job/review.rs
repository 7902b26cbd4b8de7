//! The content of an approval page: the exact manifest, and the disclosures of the owner's data by observer.
//!
//! The list follows from the kind's own description (its series, releases, questions, audit), so a new kind adds
//! nothing here, and no message of a kind can be missing from it.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use undertone_privacy::Event;

use super::transcription::window::ONE_WORD;
use super::{ExternalRelease, JobState, RoundSeries, Spec, TermRange};
use crate::dataset::{Dataset, Visibility};
use crate::id::{DatasetId, JobId};
use crate::plan::PlanParty;
use crate::signed::{Signed, SiteApproval};

/// An observer of data or results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Observer {
    /// The consortium's server and its operators.
    Server,
    /// The workers of the other participants.
    Participants,
    /// Annotators, who answer questions, from any organization.
    Annotators,
    /// Researchers and admins of the consortium, who may download the job's files, and anyone to whom they pass them
    /// on.
    Recipients,
    /// Every member of the consortium who may see jobs.
    Members,
    /// Companies outside the consortium that receive audio: cloud recognizers.
    Providers,
}

impl Observer {
    /// Returns the observer for display.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Server => "this server",
            Self::Participants => "the other participants",
            Self::Annotators => "the annotators",
            Self::Recipients => "whoever gets the model",
            Self::Members => "every member who may see jobs",
            Self::Providers => "the recognizers outside",
        }
    }
}

/// The form of a disclosure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Disclosed))]
#[serde(rename_all = "snake_case")]
pub enum DisclosureForm {
    /// With the mechanism's noise, or through its gate, as released by the site.
    Protected,
    /// Computed from protected data, and so no more than these.
    Derived,
    /// Exact: public data, or data that their owner opened.
    Exact,
    /// A fact about the dataset or the job. It reveals nothing about a record beyond the registered description.
    Fact,
}

impl DisclosureForm {
    /// Returns the form for display.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Protected => "protected at the site",
            Self::Derived => "computed from what is protected",
            Self::Exact => "exactly, without protection",
            Self::Fact => "facts, no records",
        }
    }
}

/// One disclosure of a dataset to an observer by a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Disclosure {
    /// The observer.
    pub observer: Observer,
    /// The disclosed data, in a sentence.
    pub what: String,
    /// The form.
    pub form: DisclosureForm,
    /// The most times.
    pub times: u64,
    /// ε of all of it at the account's δ, rounded up. It is the same for all protected data and all results computed
    /// from them, because one charge covers them all. Absent if no charge covers it, or there is no budget.
    pub epsilon: Option<f64>,
}

/// A job's request to one dataset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Review))]
pub struct JobReview {
    /// The job.
    pub job: JobId,
    /// The dataset.
    pub dataset: DatasetId,
    /// The state of the job.
    pub state: JobState,
    /// The manifest as the server signed it, byte for byte. The approval covers exactly this text.
    pub manifest: Signed,
    /// SHA-256 of the manifest's payload, hex. An answer names it.
    pub digest: String,
    /// The key that signed it, hex.
    pub server_key: String,
    /// The deadline of the answer; absent if no answer is expected.
    #[serde(default, with = "time::serde::rfc3339::option")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub answer_by: Option<OffsetDateTime>,
    /// The end of the manifest's validity: no site runs it later.
    #[serde(default, with = "time::serde::rfc3339::option")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub not_after: Option<OffsetDateTime>,
    /// The terms that the proposal leaves to this dataset's owner, with the values of this review; empty if there are
    /// none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub terms: Vec<TermRange>,
    /// The present cost to the dataset, and the remaining budget; absent if nothing is charged.
    pub cost: Option<PlanParty>,
    /// The disclosures.
    pub learned: Vec<Disclosure>,
    /// How the dataset's site approves jobs: whether it verifies a steward's signature, and with which keys. Absent if
    /// its worker does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<SiteApproval>,
}

/// Returns the disclosures of `dataset` to every observer in a job of this spec. `datasets` are all datasets of the
/// spec. ε is not filled in.
pub fn disclosures(spec: &Spec, dataset: &Dataset, datasets: &[Dataset]) -> Vec<Disclosure> {
    let mut list = Vec::new();
    let mut say = |observer, form, times, what: String| {
        list.push(Disclosure { observer, what, form, times, epsilon: None });
    };
    let mut anything = None;
    for series in spec.series(datasets) {
        if let Some(form) = add_series(spec, dataset, &series, &mut say) {
            anything = Some(if anything == Some(DisclosureForm::Exact) { DisclosureForm::Exact } else { form });
        }
    }
    if let Some(questions) = spec.questions().filter(|questions| questions.asking.contains(&dataset.id)) {
        let form =
            if dataset.visibility == Visibility::Public { DisclosureForm::Exact } else { DisclosureForm::Protected };
        let pool = "texts that enough rows of the log share, one copy of each, and how often the gate counted them";
        say(Observer::Server, form, 1, pool.to_owned());
        let lead = "the same pool of texts, to choose from (the lead alone)";
        say(Observer::Participants, form, 1, lead.to_owned());
        let description = format!("the chosen ones of these texts, at most {} a round", questions.batch);
        say(Observer::Annotators, form, u64::from(questions.rounds), description);
        anything = anything.or(Some(form));
    }
    if let Some(outside) = spec.external_release().filter(|outside| outside.sending.contains(&dataset.id)) {
        let form =
            if dataset.visibility == Visibility::Public { DisclosureForm::Exact } else { DisclosureForm::Protected };
        add_outside(&outside, form, &mut say);
    }
    if let Some(form) = anything {
        let form = if form == DisclosureForm::Protected { DisclosureForm::Derived } else { form };
        let result = match spec {
            Spec::Evaluation(_) => "the noisy histograms of all sites together, and the metrics computed from them",
            Spec::Analytics(spec) if spec.has_queries_by_site() => {
                "the numbers of each site alone and of the sites together, computed from the average"
            }
            Spec::Analytics(_) => "the numbers of the sites together, computed from the average",
            _ => "the trained model and what was measured with it",
        };
        say(Observer::Recipients, form, 1, result.to_owned());
    }
    if let Spec::DpSgd(training) = spec
        && training.rehearsal.is_some()
        && training.party(dataset.id).is_some()
    {
        let what = "the accuracies and losses of the rehearsed settings on parts of this public dataset";
        say(Observer::Members, DisclosureForm::Exact, 1, what.to_owned());
    }
    if spec.audit_plan(dataset).is_some() {
        let what = "the audit's statement: how many of its own planted canaries were guessed right";
        say(Observer::Members, DisclosureForm::Fact, 1, what.to_owned());
    }
    let facts = "its name, owner and rough size, what it is charged, when each of its rounds came or was late, and whether its part \
                 failed: why it failed on private data is withheld, that it did is not";
    say(Observer::Members, DisclosureForm::Fact, 1, facts.to_owned());
    list
}

/// The disclosure by words that a site chooses with noise.
const CHOSEN_WORDS: &str = "; each learns the words of the vocabulary, which the site chooses with noise from a public list, \
                            within the same ε";

/// Adds the disclosures to recipients outside the consortium, and the server's knowledge of them.
fn add_outside(
    outside: &ExternalRelease,
    form: DisclosureForm,
    say: &mut impl FnMut(Observer, DisclosureForm, u64, String),
) {
    let names = outside.recipients.join(", ");
    let many = outside.recipients.len();
    let d = outside.distance;
    let exactly = "by their sound and by the words around";
    let parts = match (many, outside.colluding as usize) {
        (1, _) => format!("{names}: hears all pieces that are sent"),
        (_, 1) => format!(
            "{names}: each hears a part of the pieces, drawn by chance; one that knows another's part knows more"
        ),
        (_, colluding) if colluding == many => {
            format!("{names}: each hears a part of the pieces; even all together learn no more")
        }
        (_, colluding) => {
            format!("{names}: each hears a part of the pieces; up to {colluding} of them together learn no more")
        }
    };
    let words = if form == DisclosureForm::Protected {
        format!(
            "{parts}. They hear it in clear speech. Protected are counts of pieces by word of the vocabulary, for a reader of counts \
             only: up to {d} more or less in all, where one spoken word changes at most {ONE_WORD} counts; not covered is what true \
             pieces tell {exactly}{}",
            if outside.chosen_words { CHOSEN_WORDS } else { "" }
        )
    } else {
        format!("{parts}, among dummies that need not hide anything: the recordings are public")
    };
    let own = "; voices leave so that each can tell who speaks";
    say(Observer::Providers, form, 1, if outside.voices { words + own } else { words });
    let plan = "that it was paid, and the plan with its promises; no sound, no text, no count of what was said or sent";
    say(Observer::Server, DisclosureForm::Fact, 1, plan.to_owned());
}

/// Adds the disclosures of one series of a dataset: to the server, and to the parties that fetch the averages.
fn add_series(
    spec: &Spec,
    dataset: &Dataset,
    series: &RoundSeries,
    say: &mut impl FnMut(Observer, DisclosureForm, u64, String),
) -> Option<DisclosureForm> {
    if !series.weights.iter().any(|(id, _)| *id == dataset.id) {
        return None;
    }
    let rounds = u64::from(series.rounds);
    let is_private_test = matches!(spec, Spec::ActiveLearning(spec) if spec.private_test_on(dataset.id).is_some());
    let (form, vector) = match spec.release(dataset, &series.name) {
        None if matches!(spec, Spec::Evaluation(_)) => return None,
        None if matches!(spec, Spec::Analytics(_)) => (DisclosureForm::Exact, "sums over the rows of a public table"),
        Some(Event::NonPrivate) | None => (DisclosureForm::Exact, "exact gradients"),
        Some(_) if matches!(spec, Spec::Analytics(spec) if spec.has_queries_by_site()) => (
            DisclosureForm::Protected,
            "sums over rows with noise added at the site, some in places of this site alone, which the average shows",
        ),
        Some(_) if matches!(spec, Spec::Analytics(_)) => {
            (DisclosureForm::Protected, "sums over rows with noise added at the site")
        }
        Some(_) if matches!(spec, Spec::Evaluation(_)) || is_private_test => {
            (DisclosureForm::Protected, "score histograms with noise added at the site")
        }
        Some(_) if matches!(spec, Spec::ActiveLearning(_)) => (
            DisclosureForm::Protected,
            "the classifier’s change by clipped and summed gradients with noise added at the site",
        ),
        Some(_) => (DisclosureForm::Protected, "clipped and summed gradients with noise added at the site"),
    };
    let name = &series.name;
    let group = series.masked.as_ref().filter(|group| group.index(dataset.id).is_some());
    // The lead of an evaluation sends zeros. The lead reads the averages of a private test set, and contributes nothing.
    let silent = usize::from(matches!(spec, Spec::Evaluation(_)));
    let others = series.weights.len().saturating_sub(1 + silent);
    say(
        Observer::Server,
        form,
        rounds,
        match group {
            Some(group) => format!(
                "`{name}`: the sum of such vectors of at least {} of {} sites a round, and no vector by itself: {vector}; the \
                 guarantee assumes that at most {} of these sites collude with the server",
                group.smallest_group,
                group.datasets.len(),
                group.colluding
            ),
            None => format!("`{name}`: one vector of {vector} a round"),
        },
    );
    if others + silent > 0 || is_private_test {
        let average = match others {
            0 => format!("`{name}`: the average, from which the vector follows, because no other site contributes"),
            // A party that knows the one other vector can subtract it.
            1 => format!("`{name}`: the average with one other party's vector, which that party can subtract"),
            more => format!("`{name}`: the average with the vectors of {more} other parties"),
        };
        let form = if form == DisclosureForm::Protected { DisclosureForm::Derived } else { form };
        say(Observer::Participants, form, rounds, average);
    }
    Some(form)
}
