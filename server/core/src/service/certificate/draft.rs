//! The content of a certificate without its figures. Rows are read in an order in which each later row covers the
//! earlier ones.

use sea_orm::{ColumnTrait as _, ConnectionTrait, EntityTrait as _, QueryFilter as _, QueryOrder as _};
use undertone_api::id::JobId;
use undertone_api::job::{Charge, JobState, Spec};
use undertone_api::signed::certificate::{
    AccountPosition, ArtifactNamed, AuditAsked, Certificate, CertificateIssuer, CertificateParty, ChainPiece,
    ChargedBeside, ClockSummary, ConsortiumNamed, JobCovered, PartyCharges, PublicFact, ReleaseCounts, relation,
};
use undertone_api::signed::{Manifest, Receipt, Signed};
use undertone_certificate::price;
use undertone_privacy::Event;
use undertone_privacy::ledger::Balance;
use undertone_privacy::mechanism::EVALUATOR_VERSION;

use super::lineage;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::column::parse_json;
use crate::model::{account, artifact, audit, consortium, job, participant, receipt, reservation};
use crate::rule::job::{load_departures, load_participants};
use crate::service::{consortium as consortia, ledger, log, site_key};

/// Returns the draft of a job's certificate; `None` while it is not due. It is due when the job has finished, or when
/// it ended otherwise after a release and every site has closed its part.
pub(super) async fn draft_certificate(ctx: &Ctx, job: &job::Model) -> Result<Option<Certificate>, Error> {
    let (connection, ended) = (ctx.db.read(), *job.state);
    if !matches!(ended, JobState::Finished | JobState::Failed | JobState::Cancelled) {
        return Ok(None);
    }
    let manifest = job.manifest()?;
    let parties = parties(ctx, job, &manifest).await?;
    let charges = || parties.iter().filter_map(|party| party.charged.as_ref());
    let released = charges().any(|charges| charges.releases.committed + charges.releases.in_the_clear > 0);
    if ended != JobState::Finished && !(released && charges().all(|charges| charges.releases.settled)) {
        return Ok(None);
    }
    let consortium = consortium::Entity::find_by_id(job.consortium_id).one(connection).await?;
    let consortium = consortium.ok_or_else(|| Error::not_found("consortium"))?;
    let overlap = consortia::in_force(connection, [consortium.id]).await?.remove(&consortium.id).unwrap_or_default();
    let files = artifact::Entity::find().filter(artifact::Column::JobId.eq(job.id));
    let files = files.order_by_asc(artifact::Column::Name).all(connection).await?;
    let initial_model = match &manifest.initial_model {
        Some(origin) => Some(lineage::load_lineage(connection, origin).await?),
        None => None,
    };
    // Read last, so that it covers everything above.
    let head = log::newest(connection).await?;
    Ok(Some(Certificate {
        version: Certificate::VERSION,
        issued_at: ctx.now(),
        issuer: CertificateIssuer {
            address: ctx.addresses.http.clone(),
            public_key: hex::encode(ctx.signer.verifying_key().to_bytes()),
            program: env!("CARGO_PKG_VERSION").to_owned(),
            evaluator: EVALUATOR_VERSION.to_owned(),
        },
        consortium: ConsortiumNamed { id: consortium.id.into(), name: consortium.name },
        job: describe_job(job, ended),
        parties,
        overlap,
        together: Vec::new(),
        artifacts: files
            .into_iter()
            .map(|file| ArtifactNamed { name: file.name, size: file.size as u64, digest: file.digest })
            .collect(),
        initial_model,
        head: head.map(|head| Signed { payload: head.payload, signature: head.signature }),
    }))
}

/// Returns every dataset of a job with its charges until now, the lead first, without figures.
pub(super) async fn parties(ctx: &Ctx, job: &job::Model, manifest: &Manifest) -> Result<Vec<CertificateParty>, Error> {
    let mut parties = Vec::new();
    let departures = load_departures(ctx.db.read(), JobId(job.id)).await?;
    for part in load_participants(ctx.db.read(), JobId(job.id)).await? {
        let units = manifest.participants.iter().find(|known| known.dataset.0 == part.dataset_id);
        let departure = departures.get(&part.dataset_id).cloned();
        let party = party(ctx, part, &manifest.spec, units.map_or(0, |known| known.units)).await?;
        parties.push(CertificateParty { departure, ..party });
    }
    Ok(parties)
}

/// Returns the job in the form that documents about it contain.
pub(crate) fn describe_job(job: &job::Model, state: JobState) -> JobCovered {
    JobCovered {
        id: job.id.into(),
        title: job.title.clone(),
        kind: job.kind.clone(),
        state,
        proposed_by: job.proposed_by.clone(),
        rounds_done: job.rounds_done as u32,
        rounds: job.rounds as u32,
        manifest: job.digest.clone(),
        started_at: job.started_at,
        finished_at: job.finished_at,
    }
}

async fn party(ctx: &Ctx, part: participant::Model, spec: &Spec, units: u64) -> Result<CertificateParty, Error> {
    let keys = site_key::load_keys(ctx.db.read(), part.worker_id.into()).await?;
    let charge = part.charge.as_deref();
    let mut party = CertificateParty {
        organization: part.organization_id.into(),
        organization_name: part.organization_name.clone(),
        dataset: part.dataset_id.into(),
        dataset_name: part.dataset_name.clone(),
        lineage: part.lineage_id.into(),
        visibility: *part.visibility,
        purpose: *part.purpose,
        worker: part.worker_id.into(),
        site_key: hex::encode(keys.newest().to_bytes()),
        units,
        consent: part.consent.as_deref().cloned(),
        departure: None,
        charged: None,
    };
    if let Some(charge) = charge {
        party.charged = load_charges(ctx, &part, &party, charge, spec).await?;
    }
    // A site changes its key only between jobs, so all signatures for this job have one key.
    if let Some(first) = party.charged.as_ref().and_then(|charged| charged.receipts.first) {
        party.site_key = hex::encode(keys.key_of_receipt(first).to_bytes());
    }
    Ok(party)
}

/// Returns the charges of a part; `None` when nothing was ever reserved for it.
async fn load_charges(
    ctx: &Ctx,
    part: &participant::Model,
    party: &CertificateParty,
    charge: &Charge,
    spec: &Spec,
) -> Result<Option<PartyCharges>, Error> {
    let connection = ctx.db.read();
    // The reservation first, then the receipts: after settlement no further receipts are added.
    let Some(reservation) = ledger::find_reservation(connection, part.job_id, part.dataset_id).await? else {
        return Ok(None);
    };
    let receipts = receipt::Entity::find()
        .filter(receipt::Column::WorkerId.eq(part.worker_id))
        .filter(receipt::Column::JobId.eq(part.job_id))
        .filter(receipt::Column::DatasetId.eq(part.dataset_id))
        .order_by_asc(receipt::Column::Sequence)
        .all(connection)
        .await?;
    let (mut committed, mut in_the_clear) = (0, 0);
    let mut ticks = Vec::with_capacity(receipts.len());
    for row in &receipts {
        let document: Receipt = parse_json("reading the column receipt.payload", &row.payload)?;
        committed += u64::from(document.event == charge.event);
        in_the_clear += u64::from(document.event == Event::NonPrivate);
        ticks.push(document.tick);
    }
    let reserved = reservation.releases as u64;
    // The planned maximum: the stopping time of a job may depend on its outputs, so the number of made releases must
    // not be priced.
    let maximum = reserved.max(committed);
    let releases = ReleaseCounts { reserved, committed, settled: reservation.settled, counted: maximum, in_the_clear };
    let pieces: Vec<_> = receipts.into_iter().map(|row| (row.sequence as u64, row.digest)).collect();
    let audit = if spec.audit_plan(&price::to_dataset(party)).is_some() {
        let stated = audit::Entity::find_by_id((part.job_id, part.dataset_id)).one(connection).await?;
        let statement = stated.map(|row| Signed { payload: row.payload, signature: row.signature });
        Some(AuditAsked { statement })
    } else {
        None
    };
    // After the receipts, so that the account's position covers them.
    let account = account::Entity::find_by_id(reservation.account_id).one(connection).await?;
    let account = account.ok_or_else(|| Error::not_found("account"))?;
    let mut others = Vec::new();
    for (row, account) in ledger::find_other_reservations(connection, part.job_id, part.dataset_id).await? {
        let (unit, event) = (account.unit()?, row.event()?);
        others.push(ChargedBeside { unit, event, renyi: None, account: position(connection, account, &row).await? });
    }
    Ok(Some(PartyCharges {
        unit: charge.unit,
        adjacency: charge.adjacency,
        relation: relation(charge.adjacency, charge.unit),
        public: PublicFact::list_facts(spec, party.dataset, charge, party.units),
        mechanism: price::mechanism(charge, spec.clip(party.dataset)),
        releases,
        renyi: None,
        insider: None,
        tight: None,
        account: position(connection, account, &reservation).await?,
        receipts: ChainPiece::from_receipts(&pieces),
        clock: ClockSummary::from_ticks(ticks),
        audit,
        others,
    }))
}

/// Returns the position of the account that `reserved` is on.
async fn position(
    connection: &impl ConnectionTrait,
    row: account::Model,
    reserved: &reservation::Model,
) -> Result<AccountPosition, Error> {
    let certificate = if reserved.in_the_clear { None } else { reserved.cost()?.certificate(reserved.releases as u64) };
    let balance: Balance = row.balance()?;
    let summary = balance.summary();
    Ok(AccountPosition {
        account: row.id.into(),
        limit: summary.limit.map(f64::from),
        delta: summary.delta.map(f64::from),
        spent: summary.spent_epsilon,
        committed: summary.committed_epsilon,
        promises: ledger::promises(connection, row.id).await?,
        in_the_clear: row.in_the_clear as u64,
        balance,
        certificate,
        entries: row.entries as u64,
        head: row.head,
    })
}
