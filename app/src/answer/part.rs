//! The parts of a turn, rendered on the server: the question, its progress, and the answer buttons.

use leptos::prelude::*;
use undertone_api::id::{ConsortiumId, JobId, QuestionId};
use undertone_api::job::JobState;
use undertone_api::problem::{Code, Problem, Violation};
use undertone_api::question::{AnnotationQueue, Answer, Label, OWN_KEYS, Question, QuestionProgress};

use super::Turn;
use crate::{path, words};

/// The most answers that can be undone one after the other.
const TRAIL: usize = 20;
/// The explanation of κ.
pub(crate) const KAPPA: &str =
    "Fleiss’ κ: how much more often people agree than chance alone would make them. 1 is always, 0 is chance.";
/// The value of the button next to the text field.
pub(crate) const TYPED: &str = "typed";
/// The prefix of a label in a button's value.
const LABEL: &str = "label:";

/// An annotator's position in a job's questions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AnnotatorPosition {
    /// The consortium.
    pub(crate) consortium: ConsortiumId,
    /// The job.
    pub(crate) job: JobId,
    /// The questions answered here, the last first.
    pub(crate) trail: Vec<QuestionId>,
    /// The question to show first: one with an undone answer.
    pub(crate) first: Option<QuestionId>,
}

impl AnnotatorPosition {
    /// Parses a trail from the form; invalid ids are left out.
    pub(crate) fn new(consortium: ConsortiumId, job: JobId, trail: &str, first: Option<QuestionId>) -> Self {
        let trail = trail.split(',').filter_map(|id| id.parse().ok()).take(TRAIL).collect();
        Self { consortium, job, trail, first }
    }

    /// Returns the position after `question` was answered.
    pub(crate) fn after_answer(mut self, question: QuestionId) -> Self {
        self.trail.retain(|earlier| *earlier != question);
        self.trail.insert(0, question);
        self.trail.truncate(TRAIL);
        Self { first: None, ..self }
    }

    /// Returns the position after the last answer was undone.
    pub(crate) fn after_undo(mut self) -> Self {
        let first = (!self.trail.is_empty()).then(|| self.trail.remove(0));
        Self { first, ..self }
    }

    fn carried(&self) -> String {
        self.trail.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    /// Returns the page's address, for a browser without a script.
    pub(crate) fn page(&self) -> String {
        let first = self.first.map_or_else(String::new, |first| format!("&first={first}"));
        format!("{}?trail={}{first}", path::annotate(self.consortium, self.job), self.carried())
    }

    fn again(&self) -> String {
        format!("/ui/turn?consortium={}&job={}&trail={}", self.consortium, self.job, self.carried())
    }
}

/// Parses a button or a typed word; `labels` are only searched for typed words.
///
/// # Errors
/// A problem with the remedy, if no word was typed or it is not a label.
pub(crate) fn parse_answer(answer: &str, typed: &str, labels: &[Label]) -> Result<Answer, Problem> {
    let find_label = |name: &str| labels.iter().find(|label| label.name.to_lowercase() == name.trim().to_lowercase());
    let label = match answer {
        "unsure" => return Ok(Answer::Unsure),
        "skip" => return Ok(Answer::Skip),
        TYPED => find_label(typed).ok_or_else(|| {
            Problem::validation(vec![Violation::new(
                "typed",
                "type one of the job’s labels, or press the button of one",
            )])
        })?,
        other => {
            let name = other.strip_prefix(LABEL);
            let name = name.ok_or_else(|| Problem::new(Code::Malformed, "the answer is none that this page gives"))?;
            return Ok(Answer::Label { label: name.to_owned() });
        }
    };
    Ok(Answer::Label { label: label.name.clone() })
}

/// Renders the turn: the next question, or the reason why there is none. `job` is the job's state, if known.
pub(crate) fn turn(
    queue: &AnnotationQueue,
    at: &AnnotatorPosition,
    job: Option<(JobState, &QuestionProgress)>,
    notice: &str,
) -> Turn {
    let next = queue.questions.iter().find(|question| Some(question.id) == at.first).or(queue.questions.first());
    let over = job.is_some_and(|(state, _)| state.is_over());
    let question = match next {
        Some(question) => render_question(question),
        None if queue.held > 0 && !over => render_held(queue.held),
        None => nothing(job, queue.done > 0),
    };
    let id = next.map(|next| view! { <input type="hidden" name="question" value=next.id.to_string()/> });
    let carried = view! {
        <input type="hidden" name="consortium" value=at.consortium.to_string()/>
        <input type="hidden" name="job" value=at.job.to_string()/>
        <input type="hidden" name="trail" value=at.carried()/>
        {id}
    };
    Turn {
        question: view! { {question}{carried} }.to_html(),
        standing: standing(queue).to_html(),
        said: if notice.is_empty() {
            String::new()
        } else {
            view! { <p class="hint">{notice.to_owned()}</p> }.to_html()
        },
        open: next.is_some(),
        undo: !at.trail.is_empty() && !over,
        again: if next.is_none() && !over { at.again() } else { String::new() },
    }
}

fn render_question(question: &Question) -> AnyView {
    let count = question.count.map(|count| format!("seen {} at its site", words::plural(count, "time")));
    // The classifier's uncertainty is not shown: it could sway the answer.
    view! {
        <p class="asked-text" dir="auto">{question.text.clone()}</p>
        {count.map(|count| view! { <p class="hint">{count}</p> })}
    }
    .into_any()
}

/// Explains an empty queue while other annotators hold questions.
fn render_held(held: u64) -> AnyView {
    let are = if held == 1 { "is" } else { "are" };
    view! {
        <p class="headline-small">{format!("{} {are} assigned to other annotators", words::plural(held, "question"))}</p>
        <p class="hint">"A question returns to you when it is not answered within five minutes. This page looks again by itself."</p>
    }
    .into_any()
}

fn nothing(job: Option<(JobState, &QuestionProgress)>, answered: bool) -> AnyView {
    let text = match job {
        Some((state, _)) if state.is_over() => "The job is over. Thank you: nothing more is asked.".to_owned(),
        Some((JobState::Proposed | JobState::Queued, _)) => {
            "The job has not begun; there is nothing to answer yet.".to_owned()
        }
        Some((JobState::Paused, _)) => {
            "The job is paused; nothing is asked until it goes on. What was answered is kept.".to_owned()
        }
        Some((_, asking)) if asking.pools < asking.pools_awaited => format!(
            "The sites are choosing what they may ask: {} of {} have sent their questions.",
            asking.pools, asking.pools_awaited
        ),
        Some((_, asking)) if answered => format!(
            "You have answered all of this round, {} of {}. The next comes when the others have too and the classifier has learned from it.",
            (asking.rounds_done + 1).min(asking.rounds),
            asking.rounds
        ),
        _ => "Nothing is left for you to answer here now.".to_owned(),
    };
    let waits = !job.is_some_and(|(state, _)| state.is_over());
    view! {
        <p class="headline-small">{text}</p>
        {waits.then(|| view! { <p class="hint">"This page looks again by itself every few seconds; without scripts, load it again."</p> })}
    }
    .into_any()
}

fn standing(queue: &AnnotationQueue) -> AnyView {
    let all = queue.done + queue.left;
    let part = if all == 0 { 0.0 } else { queue.done as f64 / all as f64 * 100.0 };
    let notice = format!("{} of {} of this round", words::count(queue.done), words::count(all));
    view! {
        <p class="standing-bar">
            <svg width="100%" height="8" role="img" aria-label=format!("You have answered {notice}")>
                <rect class="gauge-track" width="100%" height="8" rx="4"></rect>
                <rect class="gauge-spent" width=format!("{part:.1}%") height="8" rx="4"></rect>
            </svg>
        </p>
        <p><strong>{notice}</strong>{format!(", {} left for you", words::count(queue.left.saturating_sub(queue.held)))}</p>
        <p>{agreement(queue.agreement)}</p>
    }
    .into_any()
}

/// Renders the agreement between annotators, with an explanation on hover.
pub(crate) fn agreement(kappa: Option<f64>) -> AnyView {
    match kappa {
        Some(kappa) => {
            view! { <abbr title=KAPPA>"Agreement κ"</abbr>" "<strong>{format_kappa(kappa)}</strong> }.into_any()
        }
        None => view! { <span>"No two people have answered the same question yet."</span> }.into_any(),
    }
}

/// Formats κ with two decimals and its sign.
pub(crate) fn format_kappa(kappa: f64) -> String {
    format!("{kappa:.2}").replace('-', "−")
}

/// Returns the key of every label: its own, or the next free one; `None` if there are more labels than keys.
pub(crate) fn keys(labels: &[Label]) -> Vec<Option<char>> {
    let used_keys: Vec<char> = labels.iter().filter_map(|label| label.key).collect();
    // `g` opens other pages, unless the job assigned it to a label.
    let free = ('1'..='9').chain(['0']).chain('a'..='z').filter(|key| *key != 'g' && !OWN_KEYS.contains(key));
    let mut free = free.filter(|key| !used_keys.contains(key));
    labels.iter().map(|label| label.key.or_else(|| free.next())).collect()
}

/// Renders the buttons: one for each label, and a text field if some labels have no key.
pub(crate) fn buttons(labels: &[Label]) -> AnyView {
    let keys = keys(labels);
    let typed = keys.iter().any(Option::is_none).then(|| {
        let options = labels.iter().map(|label| view! { <option value=label.name.clone()></option> }).collect_view();
        // Its button comes first, so that Enter submits the typed text.
        view! {
            <div class="typed">
                <label class="field"><span><kbd aria-hidden="true">"/"</kbd>" Type a label"</span>
                    <input type="text" name="typed" list="labels" aria-keyshortcuts="/" maxlength="60"/></label>
                <datalist id="labels">{options}</datalist>
                <button type="submit" name="answer" value=TYPED>"Give it"</button>
            </div>
        }
    });
    let one = |(label, key): (&Label, Option<char>)| {
        let hint = (!label.hint.is_empty()).then(|| label.hint.clone());
        view! {
            <li><button type="submit" name="answer" value=format!("{LABEL}{}", label.name) title=hint
                aria-keyshortcuts=key.map(|key| key.to_string())>
                {key.map(|key| view! { <kbd aria-hidden="true">{key.to_string()}</kbd> })}<span>{label.name.clone()}</span>
            </button></li>
        }
    };
    view! {
        {typed}
        <ul class="labels" aria-label="Labels">{labels.iter().zip(keys).map(one).collect_view()}</ul>
        <div class="actions">
            <button type="submit" class="quiet" name="answer" value="unsure" aria-keyshortcuts="u"><kbd aria-hidden="true">"u"</kbd>" Unsure"</button>
            <button type="submit" class="quiet" name="answer" value="skip" aria-keyshortcuts="s"><kbd aria-hidden="true">"s"</kbd>" Skip"</button>
        </div>
    }
    .into_any()
}

#[cfg(test)]
mod tests {
    use undertone_api::id::{ConsortiumId, JobId, QuestionId};
    use undertone_api::question::{Answer, Label};
    use uuid::Uuid;

    use super::{AnnotatorPosition, TRAIL, keys, parse_answer};

    fn label(name: &str, key: Option<char>) -> Label {
        Label { name: name.to_owned(), key, hint: String::new() }
    }

    fn question(index: u128) -> QuestionId {
        QuestionId(Uuid::from_u128(index))
    }

    fn position() -> AnnotatorPosition {
        AnnotatorPosition::new(ConsortiumId(Uuid::nil()), JobId(Uuid::nil()), "", None)
    }

    #[test]
    fn a_label_keeps_its_key_and_the_others_get_the_next_free_one() {
        let labels = [label("a", None), label("b", Some('1')), label("c", None)];
        assert_eq!(keys(&labels), [Some('2'), Some('1'), Some('3')]);
    }

    #[test]
    fn no_key_is_given_twice_and_none_of_the_page_s_own() {
        let labels: Vec<Label> = (0..60).map(|index| label(&format!("label {index}"), None)).collect();
        let expected: Vec<char> = keys(&labels).into_iter().flatten().collect();
        let mut unique = expected.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), expected.len());
        assert!(expected.iter().all(|key| !['s', 'u', 'z', 'g'].contains(key)), "{expected:?}");
        assert_eq!(keys(&labels).last(), Some(&None), "there are more labels than keys");
    }

    #[test]
    fn what_is_typed_is_a_label_whatever_its_case_and_nothing_else() {
        let labels = [label("Book flight", None), label("Other", None)];
        let expected = Answer::Label { label: "Book flight".to_owned() };
        assert_eq!(parse_answer("typed", " book FLIGHT ", &labels), Ok(expected.clone()));
        assert_eq!(parse_answer("label:Book flight", "", &labels), Ok(expected));
        assert_eq!(parse_answer("skip", "", &labels), Ok(Answer::Skip));
        assert!(parse_answer("typed", "", &labels).is_err() && parse_answer("typed", "bok", &labels).is_err());
        assert!(parse_answer("", "Other", &labels).is_err());
    }

    #[test]
    fn answers_are_taken_back_in_the_order_they_were_not_given() {
        let two = position().after_answer(question(1)).after_answer(question(2));
        assert_eq!(two.trail, [question(2), question(1)]);
        let one = two.after_undo();
        assert_eq!((one.first, one.trail.clone()), (Some(question(2)), vec![question(1)]));
        let read = AnnotatorPosition::new(one.consortium, one.job, &one.carried(), one.first);
        assert_eq!(read, one, "the form carries it");
        assert_eq!(one.after_undo().after_undo().first, None, "there is nothing more to take back");
    }

    #[test]
    fn a_trail_ends_somewhere_and_cannot_be_forged_into_markup() {
        let long = (0..50).fold(position(), |at, index| at.after_answer(question(index)));
        assert_eq!(long.trail.len(), TRAIL);
        assert!(AnnotatorPosition::new(long.consortium, long.job, "\"><script>,x", None).trail.is_empty());
    }
}
