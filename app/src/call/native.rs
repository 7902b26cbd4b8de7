//! The responses of server functions to a browser that posts plain forms: cookies, redirects, and messages for the next
//! page.
//!
//! A message for the next page is a notice, a problem, or a one-time secret that must not be in an address. It travels
//! in a cookie that scripts cannot read, expires after a minute, and is deleted by the page that shows it. The server
//! seals it, so that no other site can place a link or a secret on a page, and binds it to the host by the `__Host-`
//! prefix if it serves TLS.

mod life;
mod passkey;

use http::StatusCode;
use http::header::{ACCEPT, COOKIE, HeaderName, HeaderValue, REFERER, SET_COOKIE};
use http::request::Parts;
use leptos::prelude::{RenderHtml as _, use_context};
use leptos::server_fn::error::ServerFnUrlError;
use leptos::view;
use leptos_axum::ResponseOptions;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use undertone_api::api_key::ApiKey;
use undertone_api::budget::NewBudget;
use undertone_api::dataset::Visibility;
use undertone_api::job::log::LogQuery;
use undertone_api::job::{Job, JobState};
use undertone_api::model::Artifact;
use undertone_api::organization::Invitation;
use undertone_api::problem::{Problem, Violation};
use undertone_api::question::{AnnotationQueue, ImportResult, NewAnnotation};
use undertone_api::signed::{ApprovalKey, SignedApproval};
use undertone_api::worker::Enrolment;
use undertone_privacy::ledger::Overlap;
use undertone_privacy::{Delta, Epsilon, PrivacyUnit};

use super::Fault;
use crate::answer::Turn;
use crate::answer::part::{AnnotatorPosition, TYPED, parse_answer, turn as turn_of};
use crate::backend::{Answer, Backend, Cookies, backend};
use crate::component::said::ProblemBox;
use crate::live::Live;
use crate::live::part::{self, JobFile};

pub(crate) use life::{approval_limit, drafted, goes_on};
pub(crate) use passkey::{passkey_answer, passkey_ceremony, passkey_proof, problem_text, sign_in_by_passkey};

/// The file of a job's model.
const MODEL: &str = "model.safetensors";
/// The number of log lines on a job's own page.
const NEWEST_LINES: u32 = 8;
const WORD: &str = "undertone-word";
/// The message's cookie over TLS: browsers accept the prefix from this host alone.
const HOST_WORD: &str = "__Host-undertone-word";
const THEME: &str = "undertone-theme";
/// The most bytes of a message. Browsers keep cookies of up to 4,096 bytes; the seal and its encoding add somewhat more
/// than a third.
const MOST: usize = 2560;

/// A message for the next page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Word {
    /// Success.
    Done(String),
    /// Failure, with the reason.
    Problem(Problem),
    /// An invitation's link, displayed once.
    Link {
        label: String,
        link: String,
        #[serde(with = "time::serde::rfc3339")]
        expires_at: OffsetDateTime,
    },
    /// A secret for an authenticator, displayed once.
    Factor { secret: String, uri: String },
    /// Recovery codes, displayed once.
    Codes { codes: Vec<String> },
    /// A worker's enrolment token, displayed once.
    Token {
        name: String,
        token: String,
        #[serde(with = "time::serde::rfc3339")]
        expires_at: OffsetDateTime,
    },
    /// An API key, displayed once.
    Key {
        name: String,
        key: String,
        #[serde(with = "time::serde::rfc3339")]
        expires_at: OffsetDateTime,
    },
}

impl Word {
    /// Returns whether it contains a credential for an account, an organization or a worker.
    const fn is_secret(&self) -> bool {
        !matches!(self, Self::Done(_) | Self::Problem(_))
    }

    /// Returns the message as text to be sealed. A problem too long for a cookie loses its figures, never its sentence.
    fn encode(&self) -> String {
        let encode = |word: &Self| serde_json::to_string(word).unwrap_or_default();
        let text = encode(self);
        match self {
            Self::Problem(problem) if text.len() > MOST => {
                let detail = problem.detail.chars().take(500).collect::<String>();
                encode(&Self::Problem(Problem::new(problem.code, detail)))
            }
            _ => text,
        }
    }

    fn decode(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

/// Ends a posted form: redirects to `to` after success, and back to the form with the problem after failure. An island,
/// which does not accept HTML, receives the problem itself.
pub(crate) fn land<T>(answer: Answer<T>, to: impl FnOnce(&T) -> String, notice: Option<String>) -> Result<(), Fault> {
    match answer {
        Ok(value) => {
            if let Some(notice) = notice {
                leave(&Word::Done(notice));
            }
            leptos_axum::redirect(&to(&value));
            Ok(())
        }
        Err(problem) if wants_html() => {
            leave(&Word::Problem(problem));
            leptos_axum::redirect(&came_from());
            Ok(())
        }
        Err(problem) => Err(problem.into()),
    }
}

/// Returns whether the caller is a browser that submits a form.
pub(crate) fn wants_html() -> bool {
    header(&ACCEPT).is_some_and(|accept| accept.contains("text/html"))
}

/// Leaves a message for the next page.
pub(crate) fn leave(word: &Word) {
    let sealed = backend().ok().and_then(|backend| backend.seal_page_text(&word.encode(), word.is_secret()));
    if let Some(sealed) = sealed {
        set_cookie(&format!("{}={sealed}; Path=/; Max-Age=60; HttpOnly; SameSite=Lax{}", word_cookie(), secure()));
    }
}

/// Takes and deletes the message for this page. A form that could not be parsed leaves its problem in the address.
pub(crate) fn take() -> Option<Word> {
    let Some(text) = cookie(word_cookie()) else { return unread() };
    set_cookie(&format!("{}=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax{}", word_cookie(), secure()));
    Word::decode(&backend().ok()?.open_page_text(&text)?)
}

/// Returns the name of the message's cookie.
fn word_cookie() -> &'static str {
    if secure().is_empty() { WORD } else { HOST_WORD }
}

fn unread() -> Option<Word> {
    #[derive(Deserialize)]
    struct Query {
        __err: String,
    }
    let query = use_context::<Parts>()?.uri.query()?.to_owned();
    let Query { __err: error } = crate::query::parse(&query)?;
    let Fault(problem) = ServerFnUrlError::decode_err(&error);
    Some(Word::Problem(problem))
}

/// Forwards the session's cookies.
pub(crate) fn keep(cookies: Cookies) {
    for cookie in cookies {
        set_cookie(&cookie);
    }
}

/// Shows an invitation's link on the next page.
pub(crate) fn show_link(invitation: Invitation) {
    if let Some(link) = invitation.link {
        leave(&Word::Link { label: invitation.label, link, expires_at: invitation.expires_at });
    }
}

/// Shows an enrolment token on the next page.
pub(crate) fn show_token(name: String, enrolment: Enrolment) {
    leave(&Word::Token { name, token: enrolment.token, expires_at: enrolment.expires_at });
}

/// Shows an API key on the next page.
pub(crate) fn show_key(key: ApiKey) {
    if let Some(secret) = key.secret {
        leave(&Word::Key { name: key.name, key: secret, expires_at: key.expires_at });
    }
}

/// Returns the chosen theme: `light`, `dark`, or `None` for the system's.
pub(crate) fn theme() -> Option<&'static str> {
    match cookie(THEME)?.as_str() {
        "light" => Some("light"),
        "dark" => Some("dark"),
        _ => None,
    }
}

/// Stores the theme for a year.
pub(crate) fn keep_theme(theme: &str) -> Answer<()> {
    if !["light", "dark", "system"].contains(&theme) {
        return Err(Problem::validation(vec![Violation::new("theme", "use `light`, `dark` or `system`")]));
    }
    set_cookie(&format!("{THEME}={theme}; Path=/; Max-Age=31536000; HttpOnly; SameSite=Lax{}", secure()));
    Ok(())
}

/// Returns the address of the form's page without its host, so that it cannot redirect to another site.
pub(crate) fn came_from() -> String {
    let referer = header(&REFERER).unwrap_or_default();
    let path = referer.split_once("://").map_or("/", |(_, rest)| rest.find('/').map_or("/", |at| &rest[at..]));
    own_address(path)
}

/// Returns `to` if it is an address on this site, `/` otherwise.
pub(crate) fn own_address(to: &str) -> String {
    let own = to.starts_with('/') && !to.starts_with("//") && !to.contains('\\') && to.is_ascii();
    if own && !to.chars().any(char::is_control) { to.to_owned() } else { "/".to_owned() }
}

/// Parses a cross-organization rule from a form.
pub(crate) fn overlap(choice: &str, most: u32) -> Answer<Overlap> {
    match choice {
        "disjoint" => Ok(Overlap::Disjoint),
        "everywhere" => Ok(Overlap::default()),
        "some" => Ok(Overlap::Overlapping { at_most: Some(most) }),
        _ => Err(Problem::validation(vec![Violation::new("overlap", "use `everywhere`, `some` or `disjoint`")])),
    }
}

/// Parses a budget from a form.
pub(crate) fn budget(unit: PrivacyUnit, epsilon: f64, delta: f64) -> Answer<NewBudget> {
    let mut violations = Vec::new();
    let parsed = (
        Epsilon::new(epsilon).map_err(|error| violations.push(Violation::new("epsilon", error.to_string()))),
        Delta::new(delta).map_err(|error| violations.push(Violation::new("delta", error.to_string()))),
    );
    match parsed {
        (Ok(epsilon), Ok(delta)) => Ok(NewBudget { unit, epsilon, delta }),
        _ => Err(Problem::validation(violations)),
    }
}

/// Parses an approval key from a form: a key file's line, or a browser's data of a new passkey.
pub(crate) fn approval_key(
    line: &str,
    (algorithm, public_key): (i64, &str),
    credential: &str,
    origin: &str,
) -> Answer<ApprovalKey> {
    let (field, key) = if line.trim().is_empty() {
        ("public_key", ApprovalKey::from_browser(algorithm, public_key, credential, origin))
    } else {
        ("line", ApprovalKey::parse_line(line))
    };
    key.map_err(|error| Problem::validation(vec![Violation::new(field, error.to_string())]))
}

/// Parses a signed approval from a form; `None` for an empty field.
pub(crate) fn signed_approval(text: &str) -> Answer<Option<SignedApproval>> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let wrong = |_| {
        let message = "paste the whole line that `undertone-worker steward-key sign` has printed";
        Problem::validation(vec![Violation::new("signature", message)])
    };
    serde_json::from_str(text.trim()).map(Some).map_err(wrong)
}

/// Collects the present state of a job.
pub(crate) async fn live(backend: &dyn Backend, job: &Job) -> Answer<Live> {
    let id = job.summary.id;
    let progress = backend.progress(id).await?;
    let files = if progress.state.is_over() || matches!(progress.state, JobState::Running | JobState::Paused) {
        backend.artifacts(id).await?
    } else {
        Vec::new()
    };
    // Only data that an owner opened can leave in the clear; most jobs have none.
    let opened = progress.participants.iter().any(|party| party.visibility == Visibility::Open);
    let in_the_clear =
        if opened { part::in_the_clear(job, &backend.datasets(job.summary.consortium).await?) } else { Vec::new() };
    let files = ordered(files)
        .into_iter()
        .map(|file| JobFile { href: backend.download(&file), name: file.name, size: file.size, digest: file.digest })
        .collect();
    let newest = LogQuery { limit: Some(NEWEST_LINES), ..LogQuery::default() };
    let log = backend.job_log(id, newest).await?.items;
    Ok(part::live(backend.now(), job, &progress, &in_the_clear, files, &log))
}

/// Sorts a job's files, the model first.
pub(crate) fn ordered(mut files: Vec<Artifact>) -> Vec<Artifact> {
    files.sort_by(|a, b| (a.name != MODEL, &a.name).cmp(&(b.name != MODEL, &b.name)));
    files
}

/// Renders the next turn; queries the job's state only if there is no question.
pub(crate) async fn turn(
    backend: &dyn Backend,
    queue: &AnnotationQueue,
    at: &AnnotatorPosition,
    notice: &str,
) -> Answer<Turn> {
    if !queue.questions.is_empty() {
        return Ok(turn_of(queue, at, None, notice));
    }
    let asking = backend.asking(at.consortium).await?;
    let job = asking.iter().find(|job| job.summary.id == at.job);
    Ok(turn_of(queue, at, job.map(|job| (job.summary.state, &job.asking)), notice))
}

/// Records the pressed or typed answer, or undoes the last one; returns the caller's new position.
pub(crate) async fn annotate(
    backend: &dyn Backend,
    at: AnnotatorPosition,
    answer: &str,
    typed: &str,
) -> Answer<(AnnotatorPosition, &'static str)> {
    use undertone_api::problem::Code;
    if answer == "undo" {
        let last = at.trail.first().copied();
        let last = last.ok_or_else(|| Problem::new(Code::WrongState, "There is no answer to take back."))?;
        backend.take_back(last).await?;
        return Ok((at.after_undo(), "Taken back."));
    }
    let question = at.first.ok_or_else(|| Problem::new(Code::WrongState, "There is no question to answer."))?;
    let labels = if answer == TYPED { backend.queue(at.job).await?.labels } else { Vec::new() };
    let answer = parse_answer(answer, typed, &labels)?;
    backend.annotate(question, NewAnnotation { answer }).await?;
    Ok((at.after_answer(question), ""))
}

/// Describes the result of an import of labels.
pub(crate) fn imported(imported: &ImportResult) -> String {
    let mut omissions = Vec::new();
    for (count, why) in [
        (imported.unknown_texts, "of texts that are not asked"),
        (imported.unknown_labels, "with labels that the job does not have"),
        (imported.too_late, "of questions that you have answered or that are closed"),
    ] {
        if count > 0 {
            omissions.push(format!("{} {why}", crate::words::count(count)));
        }
    }
    let summary = format!("{} taken.", crate::words::plural(imported.taken, "label"));
    if omissions.is_empty() { summary } else { format!("{summary} Left out: {}.", omissions.join(", ")) }
}

/// Ends an annotation request: a browser that submits a form goes to the page with the next question, an island
/// receives the next turn.
pub(crate) async fn finish_annotation(answer: Answer<(AnnotatorPosition, &'static str)>) -> Result<String, Fault> {
    let (at, notice) = match answer {
        Ok(answered) => answered,
        Err(problem) if wants_html() => {
            leave(&Word::Problem(problem));
            leptos_axum::redirect(&came_from());
            return Ok(String::new());
        }
        Err(problem) => return Ok(problem_html(problem)),
    };
    if wants_html() {
        leptos_axum::redirect(&at.page());
        return Ok(String::new());
    }
    let backend = backend()?;
    let queue = match backend.queue(at.job).await {
        Ok(queue) => queue,
        Err(problem) => return Ok(problem_html(problem)),
    };
    Ok(text(&turn(backend.as_ref(), &queue, &at, notice).await?)?)
}

/// Encodes a value for an island as JSON.
pub(crate) fn text<T: Serialize>(value: &T) -> Answer<String> {
    use undertone_api::problem::Code;
    serde_json::to_string(value)
        .map_err(|error| Problem::new(Code::Internal, format!("a part of the page has no JSON form: {error}")))
}

/// Renders a problem as HTML, and sets its status on the response: for islands, which insert it.
pub(crate) fn problem_html(problem: Problem) -> String {
    if let (Some(response), Ok(status)) = (use_context::<ResponseOptions>(), StatusCode::from_u16(problem.status)) {
        response.set_status(status);
    }
    view! { <ProblemBox problem/> }.to_html()
}

fn secure() -> &'static str {
    if backend().is_ok_and(|backend| backend.secure()) { "; Secure" } else { "" }
}

fn header(name: &HeaderName) -> Option<String> {
    let parts = use_context::<Parts>()?;
    parts.headers.get(name)?.to_str().ok().map(str::to_owned)
}

fn cookie(name: &str) -> Option<String> {
    let parts = use_context::<Parts>()?;
    let mut pairs =
        parts.headers.get_all(COOKIE).into_iter().filter_map(|value| value.to_str().ok()).flat_map(|v| v.split(';'));
    pairs.find_map(|pair| pair.trim().strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
}

fn set_cookie(cookie: &str) {
    if let (Some(response), Ok(value)) = (use_context::<ResponseOptions>(), HeaderValue::from_str(cookie)) {
        response.append_header(SET_COOKIE, value);
    }
}

#[cfg(test)]
mod tests {
    use undertone_api::problem::{Code, Problem, Violation};
    use undertone_privacy::PrivacyUnit;

    use super::{MOST, Word, budget, own_address};

    #[test]
    fn a_word_survives_the_way_to_the_next_page() {
        let word = Word::Problem(Problem::new(Code::Forbidden, "only stewards; ε = 2, \"quoted\""));
        assert_eq!(Word::decode(&word.encode()), Some(word));
    }

    #[test]
    fn a_long_problem_still_fits_in_a_cookie_and_keeps_its_sentence() {
        let violations = (0..200).map(|n| Violation::new(format!("spec.participants.{n}"), "wrong")).collect();
        let problem = Problem::validation(violations);
        let text = Word::Problem(problem.clone()).encode();
        assert!(text.len() <= MOST);
        let Some(Word::Problem(short)) = Word::decode(&text) else { panic!("a problem stays a problem") };
        assert!(problem.detail.starts_with(&short.detail) && !short.detail.is_empty());
    }

    #[test]
    fn nobody_is_sent_to_another_site() {
        assert_eq!(own_address("/c/1?x=2"), "/c/1?x=2");
        for elsewhere in ["https://example.org/", "//example.org", "/\\example.org", "", "javascript:1", "/a\r\nb: c"] {
            assert_eq!(own_address(elsewhere), "/", "{elsewhere}");
        }
    }

    #[test]
    fn a_budget_that_is_no_number_names_every_field() {
        let problem = budget(PrivacyUnit::Speaker, -1.0, 2.0).expect_err("both are out of range");
        let fields: Vec<_> = problem.violations.iter().map(|violation| violation.field.as_str()).collect();
        assert_eq!(fields, ["epsilon", "delta"]);
    }
}
