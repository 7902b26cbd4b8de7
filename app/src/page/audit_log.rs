//! The audit logs of a consortium, of an organization, and of the server.

use leptos::prelude::*;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use undertone_api::audit_log::{ActorKind, AuditAction, AuditCheck, AuditEntry, AuditPlace, AuditQuery};
use undertone_api::id::{ConsortiumId, JobId, OrganizationId};
use undertone_api::page::PageQuery;
use undertone_api::problem::{Problem, Violation};
use undertone_server_core::service;

use super::period::parse_period;
use super::render_empty;
use crate::component::download::percent_encode;
use crate::component::said::{Digest, RelativeTime};
use crate::page_context::{PageContent, PageContext, PagePlace};
use crate::screen::render_page;
use crate::{path, words};

/// The most characters of a detail in a row; the file has all of it.
const DETAIL: usize = 300;
/// The length from which an id or a digest is shortened; the file has all of it.
const OPAQUE: usize = 32;

/// The kinds of subjects, by their words in the log.
const KINDS: [(&str, &str); 12] = [
    ("job", "a job"),
    ("draft", "a draft of a job"),
    ("dataset", "a dataset"),
    ("worker", "a worker"),
    ("enrolment", "an enrolment token"),
    ("organization", "an organization"),
    ("consortium", "a consortium"),
    ("overlap", "a declared overlap"),
    ("member", "a member"),
    ("invitation", "an invitation"),
    ("session", "a session"),
    ("api_key", "an API key"),
];

/// The filters as the form posts them: an empty field is no filter.
#[derive(Debug, Default, serde::Deserialize)]
struct LogForm {
    #[serde(default)]
    by: String,
    #[serde(default)]
    hand: String,
    #[serde(default)]
    what: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    subject: String,
    #[serde(default)]
    since: String,
    #[serde(default)]
    until: String,
    #[serde(default)]
    check: String,
    cursor: Option<String>,
}

impl LogForm {
    /// Parses the filters; days are in UTC, and the last one is included.
    fn to_query(&self) -> Result<AuditQuery, Problem> {
        let mut violations = Vec::new();
        let word = |text: &str| Some(serde_json::Value::String(text.to_owned())).filter(|_| !text.is_empty());
        let mut wrong = |field: &str, message: &str| violations.push(Violation::new(field, message));
        let actor = match self.by.trim() {
            "" => None,
            text => text.parse().map_err(|_| wrong("by", "enter an id, as in the link of a row")).ok(),
        };
        let hand: Option<ActorKind> = word(&self.hand)
            .and_then(|word| serde_json::from_value(word).map_err(|_| wrong("hand", "choose one from the list")).ok());
        let what: Option<AuditAction> = word(&self.what)
            .and_then(|word| serde_json::from_value(word).map_err(|_| wrong("what", "choose one from the list")).ok());
        let (since, until) = parse_period(&self.since, &self.until, wrong);
        if !violations.is_empty() {
            return Err(Problem::validation(violations));
        }
        let filled = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let subject_kind = filled(&self.kind);
        let subject = filled(&self.subject);
        Ok(AuditQuery { by: actor, hand, what, subject_kind, subject, since, until })
    }
}

/// Renders the log of a consortium.
pub(crate) fn consortium_log() -> AnyView {
    render_page(PagePlace::AuditLog, async |context| {
        let consortium = context.consortium()?;
        let lead = format!("Actions in {}: jobs, agreements, questions and downloads.", consortium.name);
        build_sheet(&context, AuditPlace::Consortium(consortium.id), path::audit_log(consortium.id), lead).await
    })
}

/// Renders the log of an organization.
pub(crate) fn organization_log() -> AnyView {
    render_page(PagePlace::Organizations, async |context| {
        let consortium: ConsortiumId = context.consortium()?.id;
        let id: OrganizationId = context.id("organization")?;
        let organizations = service::organization::in_consortium(context.ctx(), context.actor()?, consortium).await?;
        let organization = organizations.into_iter().find(|known| known.id == id);
        let name = organization.map_or_else(|| "this organization".to_owned(), |known| known.name);
        let lead = format!("Actions in {name}: people, workers, datasets and budgets.");
        build_sheet(&context, AuditPlace::Organization(id), path::organization_log(consortium, id), lead).await
    })
}

/// Renders the log of the server.
pub(crate) fn server_log() -> AnyView {
    render_page(PagePlace::Settings, async |context| {
        let lead = "What was done on this server as such: signing in, accounts, operation.".to_owned();
        build_sheet(&context, AuditPlace::Server, path::SERVER_LOG.to_owned(), lead).await
    })
}

async fn build_sheet(
    context: &PageContext,
    place: AuditPlace,
    here: String,
    lead: String,
) -> Result<PageContent, Problem> {
    context.member()?;
    let form = crate::query::parse::<LogForm>(&context.query).unwrap_or_default();
    let filter = form.to_query()?;
    let page = PageQuery { cursor: form.cursor.clone(), limit: Some(50) };
    let entries = service::audit_log::list(context.ctx(), context.actor()?, place, &filter, &page).await?;
    let checked = if form.check == "1" {
        Some(service::audit_log::check(context.ctx(), context.actor()?, place).await?)
    } else {
        None
    };
    let suffix = filter_query(&form);
    let file = path::audit_log_file(place);
    let consortium = context.consortium().ok().map(|consortium| consortium.id);
    let filtered = filter != AuditQuery::default();
    let list = if entries.items.is_empty() {
        let text = if filtered { "No matching entries. Change the filter." } else { "No entries yet." };
        render_empty(text, ())
    } else {
        render_rows(&entries.items, consortium, &here, context.now)
    };
    let files = render_downloads(&file, &filter);
    let check = format!("{here}?check=1");
    let older = entries.next.map(|cursor| {
        let suffix = if suffix.is_empty() { String::new() } else { format!("&{suffix}") };
        view! { <p><a rel="next" href=format!("{here}?cursor={cursor}{suffix}")>"Older entries"</a></p> }
    });
    Ok(PageContent::new(
        "Audit log",
        view! {
            <p class="lead">{lead}" Entries are never changed or deleted; each carries the hash of the one before it."</p>
            {checked.map(|checked| render_verdict(&checked))}
            {render_filters(&form, &here, filtered)}
            {list}
            {older}
            <p class="take">{files}" "<a href=check>"Check the chain"</a></p>
        },
    ))
}

/// Formats a number of entries.
fn describe_length(count: u64) -> String {
    if count == 1 { "1 entry".to_owned() } else { format!("all {} entries", words::count(count)) }
}

/// Describes whether the chain is intact, in a sentence.
fn render_verdict(checked: &AuditCheck) -> AnyView {
    let head = checked.head.clone();
    match checked.broken_at {
        None => view! {
            <div class="notice good" role="status">
                <p class="notice-title">{format!("The chain of {} is valid", describe_length(checked.entries))}</p>
                <p>"The last hash is "<Digest digest=head/>". Note it down to detect later changes of earlier entries."</p>
            </div>
        }
        .into_any(),
        Some(number) => view! {
            <div class="notice bad" role="alert">
                <p class="notice-title">{format!("The chain is broken at entry {}", words::count(number))}</p>
                <p>"An entry was changed or removed outside the server. Compare with an earlier export."</p>
            </div>
        }
        .into_any(),
    }
}

fn render_filters(form: &LogForm, here: &str, filtered: bool) -> AnyView {
    let is_selected = |value: &str, word: &str| value == word;
    let what = AuditAction::ALL.iter().map(|what| {
        view! { <option value=what.word() selected=is_selected(&form.what, what.word())>{what.phrase()}</option> }
    });
    let hands = ActorKind::ALL.iter().map(|hand| {
        view! { <option value=hand.word() selected=is_selected(&form.hand, hand.word())>{hand_label(*hand)}</option> }
    });
    let kinds = KINDS.iter().map(|(word, said)| {
        view! { <option value=*word selected=is_selected(&form.kind, word)>{*said}</option> }
    });
    view! {
        <form class="filters" method="get" action=here.to_owned() role="search" aria-label="Filter the audit log">
            <label class="field"><span>"Action"</span>
                <select name="what"><option value="">"everything"</option>{what.collect_view()}</select>
            </label>
            <label class="field"><span>"Actor"</span>
                <select name="hand"><option value="">"everybody"</option>{hands.collect_view()}</select>
            </label>
            <label class="field"><span>"Subject"</span>
                <select name="kind"><option value="">"anything"</option>{kinds.collect_view()}</select>
            </label>
            <label class="field"><span>"Actor id"</span><input type="text" name="by" value=form.by.clone() maxlength="36"/></label>
            <label class="field"><span>"Subject id"</span><input type="text" name="subject" value=form.subject.clone() maxlength="200"/></label>
            <label class="field"><span>"From"</span><input type="date" name="since" value=form.since.clone()/></label>
            <label class="field"><span>"To"</span><input type="date" name="until" value=form.until.clone()/></label>
            <div class="actions">
                <button type="submit">"Show"</button>
                {filtered.then(|| view! { <a href=here.to_owned()>"Clear the filter"</a> })}
            </div>
        </form>
    }
    .into_any()
}

/// Returns the filters as a query of this page.
fn filter_query(form: &LogForm) -> String {
    let fields = [
        ("by", &form.by),
        ("hand", &form.hand),
        ("what", &form.what),
        ("kind", &form.kind),
        ("subject", &form.subject),
        ("since", &form.since),
        ("until", &form.until),
    ];
    let filled = fields.into_iter().filter(|(_, value)| !value.is_empty());
    filled.map(|(name, value)| format!("{name}={}", percent_encode(value))).collect::<Vec<_>>().join("&")
}

/// Renders the links to the matching entries as files.
fn render_downloads(file: &str, wanted: &AuditQuery) -> AnyView {
    let moment = |at: OffsetDateTime| at.format(&Rfc3339).unwrap_or_default();
    let fields = [
        ("by", wanted.by.map(|by| by.to_string())),
        ("hand", wanted.hand.map(|hand| hand.word().to_owned())),
        ("what", wanted.what.map(|what| what.word().to_owned())),
        ("subject_kind", wanted.subject_kind.clone()),
        ("subject", wanted.subject.clone()),
        ("since", wanted.since.map(moment)),
        ("until", wanted.until.map(moment)),
    ];
    let query: String =
        fields.into_iter().filter_map(|(name, value)| Some(format!("&{name}={}", percent_encode(&value?)))).collect();
    let csv = format!("{file}?format=csv{query}");
    let json = format!("{file}?format=jsonl{query}");
    view! { <a href=csv download>"Download as CSV"</a>" "<a href=json download>"Download as JSON Lines"</a> }.into_any()
}

fn render_rows(entries: &[AuditEntry], consortium: Option<ConsortiumId>, here: &str, now: OffsetDateTime) -> AnyView {
    let rows = entries.iter().map(|entry| {
        let who = entry.by.name.clone().unwrap_or_else(|| hand_label(entry.by.hand).to_owned());
        let who = match entry.by.id {
            Some(id) => view! { <a href=format!("{here}?by={id}")>{who}</a> }.into_any(),
            None => who.into_any(),
        };
        view! {
            <tr>
                <td data-label="entry" class="number">{words::count(entry.number)}</td>
                <td data-label="when"><RelativeTime at=entry.at now/></td>
                <td data-label="who">{who}</td>
                <td data-label="what">{entry.what.phrase()}</td>
                <td data-label="subject">{render_subject(entry, consortium)}</td>
                <td data-label="more">{format_detail(&entry.detail)}</td>
                <td data-label="hash"><Digest digest=entry.hash.clone()/></td>
            </tr>
        }
    });
    view! {
        <div class="scroll" tabindex="0" role="region" aria-label="Entries">
            <table class="cards dense">
                <thead><tr>
                    <th scope="col" class="number">"Entry"</th><th scope="col">"When"</th><th scope="col">"Actor"</th><th scope="col">"Action"</th>
                    <th scope="col">"Subject"</th><th scope="col">"Details"</th><th scope="col">"Hash"</th>
                </tr></thead>
                <tbody>{rows.collect_view()}</tbody>
            </table>
        </div>
    }
    .into_any()
}

/// Renders the subject: linked if it has a page.
fn render_subject(entry: &AuditEntry, consortium: Option<ConsortiumId>) -> AnyView {
    let Some(subject) = &entry.subject else { return ().into_any() };
    let short = words::short(&subject.id);
    let name = entry.detail.get("name").and_then(|name| name.as_str()).map_or(short, str::to_owned);
    let text = format!("{} {name}", subject.kind);
    let to = consortium.and_then(|consortium| match subject.kind.as_str() {
        "job" => subject.id.parse::<JobId>().ok().map(|job| path::job(consortium, job)),
        "dataset" => subject.id.parse().ok().map(|dataset| path::dataset(consortium, dataset)),
        _ => None,
    });
    match to {
        Some(to) => view! { <a href=to title=subject.id.clone()>{text}</a> }.into_any(),
        None => view! { <span title=subject.id.clone()>{text}</span> }.into_any(),
    }
}

/// Formats the details: names and values, as far as there is room.
fn format_detail(detail: &serde_json::Value) -> String {
    let Some(fields) = detail.as_object() else { return String::new() };
    let details = fields.iter().filter(|(name, value)| *name != "name" && !value.is_null()).map(|(name, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        // A whole digest or id would displace the rest of the row.
        let opaque = value.len() >= OPAQUE && value.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        let value = if opaque { format!("{}…", words::short(&value)) } else { value };
        format!("{}: {value}", name.replace('_', " "))
    });
    let text = details.collect::<Vec<_>>().join("; ");
    if text.chars().count() <= DETAIL { text } else { text.chars().take(DETAIL).chain(['…']).collect() }
}

const fn hand_label(hand: ActorKind) -> &'static str {
    match hand {
        ActorKind::Member => "a member",
        ActorKind::Worker => "a worker",
        ActorKind::Key => "a program with a key",
        ActorKind::Operator => "the operator at the terminal",
        ActorKind::Nobody => "a visitor without a session",
        ActorKind::System => "the server itself",
    }
}

#[cfg(test)]
mod tests;
