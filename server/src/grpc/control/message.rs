//! Conversions between the contract and the messages of the control service. Errors name the invalid field.

use prost_types::{Struct, Timestamp};
use serde::de::DeserializeOwned;
use time::OffsetDateTime;
use tonic::Status;
use undertone_api::budget::{Account, LedgerEntry};
use undertone_api::consortium::Consortium;
use undertone_api::dataset::Dataset;
use undertone_api::job::{Job, JobDraft, JobProgress, JobSummary};
use undertone_api::model::Artifact;
use undertone_api::organization::Organization;
use undertone_api::page::{Page, PageQuery};
use undertone_api::problem::{Problem, Violation};
use undertone_proto::{document, to_status, v1};
use uuid::Uuid;

use super::super::convert::{json_texts, texts};
use undertone_server_core::service::version;

pub(super) fn wrong(name: &str, message: impl Into<String>) -> Status {
    to_status(&Problem::validation(vec![Violation::new(name, message)]))
}

/// Parses the id in a field.
pub(super) fn id<T: From<Uuid>>(text: &str, name: &str) -> Result<T, Status> {
    Uuid::parse_str(text).map(T::from).map_err(|_| wrong(name, "give an id: a UUID"))
}

/// Parses the id in a field that may be empty.
pub(super) fn optional<T: From<Uuid>>(text: &str, name: &str) -> Result<Option<T>, Status> {
    if text.is_empty() { Ok(None) } else { id(text, name).map(Some) }
}

/// Parses a word of an enumeration.
pub(super) fn field<T: DeserializeOwned>(word: &str, name: &str) -> Result<T, Status> {
    serde_json::from_value(word.into()).map_err(|error| wrong(name, error.to_string()))
}

/// Converts a number with a range.
pub(super) fn number<T: TryFrom<f64>>(value: f64, name: &str) -> Result<T, Status>
where
    T::Error: std::fmt::Display,
{
    T::try_from(value).map_err(|error| wrong(name, error.to_string()))
}

/// Reads the document in a field.
pub(super) fn struct_of<T: DeserializeOwned>(document: Option<Struct>, name: &str) -> Result<T, Status> {
    let document = document.ok_or_else(|| wrong(name, "give the document, as REST takes it"))?;
    json_texts(document::json(&document).to_string().as_bytes())?;
    document::read(&document).map_err(|error| wrong(name, error.to_string()))
}

/// Converts a timestamp.
pub(super) fn moment(timestamp: Timestamp) -> Result<OffsetDateTime, Status> {
    let nanos = i128::from(timestamp.seconds) * 1_000_000_000 + i128::from(timestamp.nanos);
    OffsetDateTime::from_unix_timestamp_nanos(nanos).map_err(|_| wrong("since", "give a moment of this era"))
}

fn timestamp(moment: OffsetDateTime) -> Timestamp {
    Timestamp { seconds: moment.unix_timestamp(), nanos: moment.nanosecond() as i32 }
}

/// Reads the requested part of a list.
pub(super) fn page(request: Option<v1::PageRequest>) -> Result<PageQuery, Status> {
    let v1::PageRequest { cursor, limit } = request.unwrap_or_default();
    texts([&*cursor])?;
    if limit > PageQuery::MAX {
        return Err(wrong("page.limit", format!("ask for 1 to {} items; 0 for 50", PageQuery::MAX)));
    }
    Ok(PageQuery {
        cursor: Some(cursor).filter(|cursor| !cursor.is_empty()),
        limit: Some(limit).filter(|limit| *limit > 0),
    })
}

/// Returns a page of a list that is read completely, with the same paging as REST.
pub(super) fn take_page<T>(
    items: Vec<T>,
    request: Option<v1::PageRequest>,
    id: impl Fn(&T) -> Uuid,
) -> Result<Page<T>, Status> {
    let page = page(request)?;
    crate::rest::extract::take_page(items, &page, id)
        .map_err(|_| wrong("page.cursor", "give the `next` of the page before"))
}

pub(super) fn consortium(consortium: Consortium) -> v1::Consortium {
    let document = document::to_struct(&consortium);
    let organizations = consortium.organizations.iter().map(ToString::to_string).collect();
    v1::Consortium { id: consortium.id.to_string(), name: consortium.name, organizations, document }
}

pub(super) fn organization(organization: Organization) -> v1::Organization {
    let document = document::to_struct(&organization);
    v1::Organization { id: organization.id.to_string(), name: organization.name, document }
}

pub(super) fn account(account: &Account) -> v1::Account {
    v1::Account {
        id: account.id.to_string(),
        unit: word(&account.unit),
        adjacency: word(&account.adjacency),
        epsilon: account.epsilon.get(),
        delta: account.delta.get(),
        spent: account.spent,
        committed: account.committed,
        filter: word(&account.filter),
    }
}

pub(super) fn dataset(dataset: Dataset) -> v1::Dataset {
    let document = document::to_struct(&dataset);
    v1::Dataset {
        id: dataset.id.to_string(),
        organization: dataset.organization.to_string(),
        visibility: word(&dataset.visibility),
        accounts: dataset.accounts.iter().map(account).collect(),
        accounts_version: serde_json::to_vec(&dataset.accounts)
            .map_or_else(|_| String::new(), |now| version::hash_bytes(&now)),
        name: dataset.name,
        document,
    }
}

pub(super) fn entry(entry: LedgerEntry) -> v1::Entry {
    let document = document::to_struct(&entry);
    v1::Entry {
        sequence: entry.sequence,
        account: entry.account.to_string(),
        kind: word(&entry.kind),
        job: entry.job.to_string(),
        count: entry.count,
        hash: entry.hash,
        at: Some(timestamp(entry.at)),
        document,
    }
}

/// Converts a draft, with its document.
pub(super) fn draft(draft: &JobDraft) -> v1::Draft {
    v1::Draft {
        id: draft.id.to_string(),
        consortium: draft.consortium.to_string(),
        title: draft.content.title.clone(),
        kind: draft.content.kind.clone(),
        version: draft.version,
        ready: draft.violations.is_empty(),
        document: document::to_struct(draft),
    }
}

pub(super) fn job(summary: &JobSummary, document: Option<Struct>) -> v1::Job {
    v1::Job {
        id: summary.id.to_string(),
        consortium: summary.consortium.to_string(),
        title: summary.title.clone(),
        kind: summary.kind.clone(),
        state: word(&summary.state),
        proposed_by: summary.proposed_by.clone(),
        rounds_done: summary.rounds_done,
        rounds: summary.rounds,
        created_at: Some(timestamp(summary.created_at)),
        document,
    }
}

pub(super) fn whole_job(found: &Job) -> v1::Job {
    job(&found.summary, document::to_struct(found))
}

pub(super) fn progress(progress: &JobProgress) -> v1::Progress {
    v1::Progress {
        state: word(&progress.state),
        now: progress.now.clone(),
        over: progress.state.is_over(),
        document: document::to_struct(progress),
    }
}

pub(super) fn artifact(artifact: Artifact) -> v1::Artifact {
    v1::Artifact {
        id: artifact.id.to_string(),
        job: artifact.job.to_string(),
        name: artifact.name,
        size: artifact.size,
        digest: artifact.digest,
        source: artifact.source.as_ref().map(word).unwrap_or_default(),
        deletion: artifact.deletion.map(|deletion| v1::ArtifactDeletion {
            at: Some(timestamp(deletion.at)),
            by: deletion.by.to_string(),
            by_name: deletion.by_name,
            reason: deletion.reason,
        }),
    }
}

/// Returns the word of an enumeration's value.
fn word<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_value(value).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use undertone_api::page::PageQuery;
    use undertone_proto::v1;

    use super::page;

    #[test]
    fn a_page_has_two_hundred_items_and_no_more() {
        let read_page = |limit| page(Some(v1::PageRequest { cursor: String::new(), limit }));
        assert_eq!(read_page(PageQuery::MAX).expect("the most").limit, Some(200));
        assert!(read_page(PageQuery::MAX + 1).is_err());
    }
}
