//! Reads a place's log: page by page, as a file, or to check its chain. Pages are read while they are sent, so memory
//! does not grow with the log.

use std::collections::HashMap;

use futures::stream::{self, BoxStream, StreamExt as _};
use sea_orm::{
    ColumnTrait as _, Condition, ConnectionTrait, EntityTrait as _, QueryFilter as _, QueryOrder as _,
    QuerySelect as _, Select,
};
use serde::Deserialize;
use serde_json::json;
use undertone_api::audit_log::{
    ActorKind, AuditAction, AuditActor, AuditCheck, AuditEntry, AuditPlace, AuditQuery, AuditSubject, broken_at, origin,
};
use undertone_api::page::{Page, PageQuery};
use undertone_api::problem::Violation;
use uuid::Uuid;

use super::{AuditAuthor, NewAuditEntry, note};
use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::column::ColumnEnum as _;
use crate::model::{api_key, audit_log, member, worker};

/// The number of entries read at once.
const ROWS: u64 = 500;

/// In which form a log is taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, utoipa::ToSchema)]
#[schema(as = Format)]
#[serde(rename_all = "snake_case")]
pub enum AuditLogFormat {
    /// One entry as JSON on each line, oldest first: the form that `broken_at` checks.
    #[default]
    Jsonl,
    /// A table.
    Csv,
}

/// An exported file.
pub struct AuditLogExport {
    /// The file name.
    pub name: String,
    /// The content type.
    pub content_type: &'static str,
    /// The content.
    pub body: BoxStream<'static, Result<Vec<u8>, Error>>,
}

/// Returns a place's entries, the last first. The cursor is the number of the last entry of the previous page.
///
/// # Errors
/// 404 and 403 as usual, `validation_failed` for an invalid filter or cursor.
pub async fn list(
    ctx: &Ctx,
    actor: &Actor,
    place: AuditPlace,
    wanted: &AuditQuery,
    page: &PageQuery,
) -> Result<Page<AuditEntry>, Error> {
    policy::check(actor, operation(place), to_place(place))?;
    let mut query = select_entries(place, wanted)?;
    if let Some(cursor) = &page.cursor {
        let strange = |_| Error::validation(vec![Violation::new("cursor", "give the `next` of the page before")]);
        query = query.filter(audit_log::Column::Number.lt(cursor.parse::<i64>().map_err(strange)?));
    }
    let size = page.size() as usize;
    let rows = query.order_by_desc(audit_log::Column::Number).limit(size as u64 + 1);
    let mut rows = rows.all(ctx.db.read()).await?;
    let more = rows.len() > size;
    rows.truncate(size);
    let next = rows.last().filter(|_| more).map(|row| row.number.to_string());
    Ok(Page { items: to_entries(ctx.db.read(), rows).await?, next })
}

/// Reads a place's whole log and checks its chain.
///
/// # Errors
/// 404 and 403 as usual.
pub async fn check(ctx: &Ctx, actor: &Actor, place: AuditPlace) -> Result<AuditCheck, Error> {
    policy::check(actor, operation(place), to_place(place))?;
    check_chain(ctx, place).await
}

/// Checks the chain of a place's log, for commands at the terminal and for callers who may read it.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(crate) async fn check_chain(ctx: &Ctx, place: AuditPlace) -> Result<AuditCheck, Error> {
    let tx = ctx.db.snapshot().await?;
    let (mut number, mut head) = (0, origin());
    let mut broken = None;
    loop {
        let rows = select_entries(place, &AuditQuery::default())?.filter(audit_log::Column::Number.gt(number));
        let rows = rows.order_by_asc(audit_log::Column::Number).limit(ROWS).all(&tx).await?;
        let entries = rows.into_iter().map(|row| entry(row, &HashMap::new())).collect::<Result<Vec<_>, _>>()?;
        let Some(last) = entries.last() else { break };
        broken = broken.or_else(|| broken_at((number as u64, &head), &entries));
        (number, head) = (last.number as i64, last.hash.clone());
    }
    tx.rollback().await?;
    Ok(AuditCheck { entries: number as u64, broken_at: broken, head })
}

/// Returns the entries of a place's log about one subject, the first first.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(crate) async fn list_subject(ctx: &Ctx, place: AuditPlace, kind: &str, id: &str) -> Result<Vec<AuditEntry>, Error> {
    let rows = select_entries(place, &AuditQuery::default())?
        .filter(audit_log::Column::SubjectKind.eq(kind))
        .filter(audit_log::Column::SubjectId.eq(id));
    let rows = rows.order_by_asc(audit_log::Column::Number).all(ctx.db.read()).await?;
    to_entries(ctx.db.read(), rows).await
}

/// Exports a place's entries as a file, the first first. The export is itself an entry, the last in the file.
///
/// # Errors
/// 404 and 403 as usual, `validation_failed` for an invalid filter.
pub async fn export(
    ctx: &Ctx,
    actor: &Actor,
    place: AuditPlace,
    wanted: AuditQuery,
    format: AuditLogFormat,
) -> Result<AuditLogExport, Error> {
    policy::check(actor, operation(place), to_place(place))?;
    select_entries(place, &wanted)?;
    let (ending, content_type) = match format {
        AuditLogFormat::Jsonl => ("jsonl", "application/x-ndjson"),
        AuditLogFormat::Csv => ("csv", "text/csv; charset=utf-8"),
    };
    let detail = json!({ "format": ending, "filtered": wanted != AuditQuery::default() });
    note(
        ctx,
        NewAuditEntry {
            by: AuditAuthor::from(actor),
            what: AuditAction::AuditLogExported,
            place: to_place(place),
            subject: None,
            detail,
        },
    )
    .await?;
    let (kind, id) = place.parts();
    let name = if kind == "server" { format!("audit-log.{ending}") } else { format!("audit-log-{id}.{ending}") };
    let progress = ExportProgress { ctx: ctx.clone(), place, wanted, format, last: 0, begun: false, ended: false };
    let body = stream::try_unfold(progress, async |mut progress| {
        if progress.ended {
            return Ok(None);
        }
        let bytes = progress.page().await?;
        Ok(Some((bytes, progress)))
    });
    Ok(AuditLogExport { name, content_type, body: body.boxed() })
}

/// The progress of an export.
struct ExportProgress {
    ctx: Ctx,
    place: AuditPlace,
    wanted: AuditQuery,
    format: AuditLogFormat,
    last: i64,
    begun: bool,
    ended: bool,
}

impl ExportProgress {
    async fn page(&mut self) -> Result<Vec<u8>, Error> {
        let rows = select_entries(self.place, &self.wanted)?.filter(audit_log::Column::Number.gt(self.last));
        let rows = rows.order_by_asc(audit_log::Column::Number).limit(ROWS).all(self.ctx.db.read()).await?;
        self.ended = (rows.len() as u64) < ROWS;
        self.last = rows.last().map_or(self.last, |row| row.number);
        let entries = to_entries(self.ctx.db.read(), rows).await?;
        let first = !std::mem::replace(&mut self.begun, true);
        let bytes = match self.format {
            AuditLogFormat::Jsonl => lines(&entries),
            AuditLogFormat::Csv => table(&entries, first),
        };
        bytes.map_err(|error| Error::internal("writing an export", error))
    }
}

type Written = Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>>;

fn lines(entries: &[AuditEntry]) -> Written {
    let mut bytes = Vec::new();
    for entry in entries {
        serde_json::to_writer(&mut bytes, entry)?;
        bytes.push(b'\n');
    }
    Ok(bytes)
}

fn table(entries: &[AuditEntry], first: bool) -> Written {
    let mut table = csv::Writer::from_writer(Vec::new());
    if first {
        table.write_record([
            "number",
            "at",
            "hand",
            "by",
            "name",
            "what",
            "subject_kind",
            "subject",
            "detail",
            "hash",
        ])?;
    }
    for entry in entries {
        let (kind, id) = entry.subject.as_ref().map_or(("", ""), |subject| (&subject.kind, &subject.id));
        table.write_record([
            entry.number.to_string().as_str(),
            &entry.at.format(&time::format_description::well_known::Rfc3339)?,
            entry.by.hand.word(),
            &entry.by.id.map(|id| id.to_string()).unwrap_or_default(),
            &harmless(entry.by.name.as_deref().unwrap_or_default()),
            entry.what.word(),
            kind,
            id,
            &entry.detail.to_string(),
            &entry.hash,
        ])?;
    }
    Ok(table.into_inner()?)
}

/// Returns a text that a spreadsheet does not interpret as a formula: names and questions come from other users.
pub(crate) fn harmless(text: &str) -> String {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { format!("'{text}") } else { text.to_owned() }
}

/// Returns the operation of reading a place's log.
const fn operation(place: AuditPlace) -> Operation {
    match place {
        AuditPlace::Server => Operation::ReadServerLog,
        AuditPlace::Consortium(_) => Operation::ReadConsortiumLog,
        AuditPlace::Organization(_) => Operation::ReadOrganizationLog,
    }
}

/// Returns the place in the terms of the policy.
const fn to_place(place: AuditPlace) -> Place {
    match place {
        AuditPlace::Server => Place::Server,
        AuditPlace::Consortium(id) => Place::Consortium(id),
        AuditPlace::Organization(id) => Place::Organization(id),
    }
}

fn select_entries(place: AuditPlace, wanted: &AuditQuery) -> Result<Select<audit_log::Entity>, Error> {
    use audit_log::Column;
    let violations = wanted.check();
    if !violations.is_empty() {
        return Err(Error::validation(violations));
    }
    let (kind, id) = place.parts();
    let mut all = Condition::all().add(Column::Place.eq(kind)).add(Column::PlaceId.eq(id));
    if let Some(by) = wanted.by {
        all = all.add(Column::ById.eq(by));
    }
    if let Some(hand) = &wanted.hand {
        all = all.add(Column::ByHand.eq(hand.to_text()));
    }
    if let Some(what) = &wanted.what {
        all = all.add(Column::What.eq(what.to_text()));
    }
    if let Some(kind) = &wanted.subject_kind {
        all = all.add(Column::SubjectKind.eq(kind));
    }
    if let Some(subject) = &wanted.subject {
        all = all.add(Column::SubjectId.eq(subject));
    }
    if let Some(since) = wanted.since {
        all = all.add(Column::At.gte(since));
    }
    if let Some(until) = wanted.until {
        all = all.add(Column::At.lt(until));
    }
    Ok(audit_log::Entity::find().filter(all))
}

async fn to_entries(connection: &impl ConnectionTrait, rows: Vec<audit_log::Model>) -> Result<Vec<AuditEntry>, Error> {
    let ids = |hand: ActorKind| {
        let of = move |row: &&audit_log::Model| row.by_hand == hand.word();
        rows.iter().filter(of).filter_map(|row| row.by_id).collect::<std::collections::BTreeSet<_>>()
    };
    let mut names: HashMap<Uuid, String> = HashMap::new();
    let members = member::Entity::find().filter(member::Column::Id.is_in(ids(ActorKind::Member)));
    names.extend(members.all(connection).await?.into_iter().map(|row| (row.id, row.name)));
    let workers = worker::Entity::find().filter(worker::Column::Id.is_in(ids(ActorKind::Worker)));
    names.extend(workers.all(connection).await?.into_iter().map(|row| (row.id, row.name)));
    let keys = api_key::Entity::find().filter(api_key::Column::Id.is_in(ids(ActorKind::Key)));
    names.extend(keys.all(connection).await?.into_iter().map(|row| (row.id, row.name)));
    rows.into_iter().map(|row| entry(row, &names)).collect()
}

/// Returns the text of an entry that is hashed.
///
/// # Errors
/// When this version does not know a value in the row.
pub(crate) fn content_of(row: audit_log::Model) -> Result<String, Error> {
    Ok(entry(row, &HashMap::new())?.content())
}

fn entry(row: audit_log::Model, names: &HashMap<Uuid, String>) -> Result<AuditEntry, Error> {
    let place = AuditPlace::from_parts(&row.place, row.place_id)
        .ok_or_else(|| Error::internal("reading the audit log", "a place that is none"))?;
    let detail = row.detail()?;
    Ok(AuditEntry {
        place,
        number: row.number as u64,
        at: row.at,
        by: AuditActor { hand: row.hand()?, id: row.by_id, name: row.by_id.and_then(|id| names.get(&id).cloned()) },
        what: row.action()?,
        subject: row.subject_kind.zip(row.subject_id).map(|(kind, id)| AuditSubject { kind, id }),
        detail,
        previous: row.previous,
        hash: row.hash,
    })
}
