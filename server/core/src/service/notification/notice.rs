//! The notices, with their recipients and texts.

use std::collections::BTreeSet;

use sea_orm::sea_query::OnConflict;
use sea_orm::{ColumnTrait as _, EntityTrait as _, IntoActiveModel as _, QueryFilter as _, QuerySelect as _};
use time::OffsetDateTime;
use undertone_api::id::NotificationId;
use undertone_api::job::JobState;
use undertone_api::member::Role;
use undertone_api::notification::NotificationKind;
use undertone_privacy::PrivacyUnit;
use uuid::Uuid;

use super::access::AccessNotice;
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::column::ColumnEnum as _;
use crate::model::role::ScopeKind;
use crate::model::{job, member, notification, notification_switch, participant, role, worker};
use crate::service::{delivery, operator};

/// A notice.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MemberNotice<'a> {
    /// A job needs the answer of a dataset's owner.
    JobWaits { job: &'a job::Model, part: &'a participant::Model },
    /// A job is over.
    JobOver { job: &'a job::Model, parts: &'a [participant::Model], state: JobState },
    /// A worker that a job needs has become silent.
    WorkerSilent { job: &'a job::Model, part: &'a participant::Model, worker: &'a worker::Model, since: OffsetDateTime },
    /// A job's reservation has almost used up a budget.
    BudgetLow { job: &'a job::Model, part: &'a participant::Model, unit: PrivacyUnit, left: f64 },
    /// An audit has frozen a dataset's accounts, for the `number`th time.
    DatasetFrozen { consortium: Uuid, part: &'a participant::Model, number: i32, reason: &'a str },
    /// A job's certificate was made.
    CertificateReady { job: &'a job::Model, parts: &'a [participant::Model] },
    /// A link was accepted.
    InvitationAccepted {
        invitation: Uuid,
        invited_by: Uuid,
        consortium: Option<Uuid>,
        organization: Option<Uuid>,
        who: &'a str,
        label: &'a str,
    },
    /// An API key of a member was made.
    KeyMade { key: Uuid, member: Uuid, name: &'a str },
    /// Credentials of a member were reset or changed; `text` describes the change.
    CredentialsChanged { id: Uuid, member: Uuid, admins: &'a [Uuid], text: &'a str },
    /// Access was retired or restored.
    Access(&'a AccessNotice<'a>),
    /// A site's key was replaced by another; the admins of the organization can check that they expected it.
    SiteKeyRotated { worker: &'a worker::Model, number: u32 },
    /// Codes of a member's second factor were wrong, `at_least` times since `began`.
    SecondFactorFailed { member: Uuid, at_least: i32, began: OffsetDateTime },
    /// A member signed in from a network or a browser that they had not used before.
    SignInNew { session: Uuid, member: Uuid, network: &'a str, agent: &'a str },
}

/// A recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NoticeRecipient {
    /// A member.
    Member(Uuid),
    /// The members with the role in the organization.
    Organization(Uuid, Role),
    /// The members with the role in the consortium.
    Consortium(Uuid, Role),
    /// All operators.
    Operators,
}

/// The text of a notice, with its recipients.
#[derive(Debug, Clone, PartialEq)]
struct NoticeMessage {
    kind: NotificationKind,
    key: String,
    text: String,
    to: Vec<NoticeRecipient>,
    consortium: Option<Uuid>,
    job: Option<Uuid>,
    dataset: Option<Uuid>,
    organization: Option<Uuid>,
}

/// Notifies the recipients, except those with this kind switched off. A notice with a known key is not repeated.
///
/// # Errors
/// When the database fails.
pub(crate) async fn tell(ctx: &Ctx, tx: &Tx, notice: MemberNotice<'_>) -> Result<(), Error> {
    let message = message(&notice);
    for member in recipients(tx, &message.to, message.kind).await? {
        let row = notification::Model {
            id: ctx.id::<NotificationId>().0,
            member_id: member,
            kind: message.kind.into(),
            key: message.key.clone(),
            text: message.text.clone(),
            consortium_id: message.consortium,
            job_id: message.job,
            dataset_id: message.dataset,
            organization_id: message.organization,
            at: ctx.now(),
            read_at: None,
        };
        let columns = [notification::Column::MemberId, notification::Column::Key];
        let inserted = notification::Entity::insert(row.into_active_model())
            .on_conflict(OnConflict::columns(columns).do_nothing().to_owned())
            .exec_without_returning(tx)
            .await?;
        if inserted > 0 {
            delivery::enqueue(ctx, tx, member, message.kind, &message.text).await?;
        }
    }
    Ok(())
}

/// Returns the members to be notified, each once.
async fn recipients(tx: &Tx, to: &[NoticeRecipient], kind: NotificationKind) -> Result<BTreeSet<Uuid>, Error> {
    let mut ids = BTreeSet::new();
    for one in to {
        let (scope, place, role) = match one {
            NoticeRecipient::Member(id) => {
                ids.insert(*id);
                continue;
            }
            NoticeRecipient::Operators => {
                ids.extend(operator::ids(tx).await?);
                continue;
            }
            NoticeRecipient::Organization(id, role) => (ScopeKind::Organization, *id, *role),
            NoticeRecipient::Consortium(id, role) => (ScopeKind::Consortium, *id, *role),
        };
        let rows = role::Entity::find()
            .filter(role::Column::Scope.eq(scope.to_text()))
            .filter(role::Column::ScopeId.eq(place))
            .filter(role::Column::Role.eq(role.to_text()))
            .all(tx)
            .await?;
        ids.extend(rows.into_iter().map(|row| row.member_id));
    }
    // Retired members are not notified.
    let active: Vec<Uuid> = member::Entity::find()
        .select_only()
        .column(member::Column::Id)
        .filter(member::Column::Id.is_in(ids))
        .filter(member::Column::RetiredAt.is_null())
        .into_tuple()
        .all(tx)
        .await?;
    if !kind.can_be_switched_off() {
        return Ok(active.into_iter().collect());
    }
    let off: Vec<Uuid> = notification_switch::Entity::find()
        .select_only()
        .column(notification_switch::Column::MemberId)
        .filter(notification_switch::Column::Kind.eq(kind.to_text()))
        .filter(notification_switch::Column::MemberId.is_in(active.clone()))
        .into_tuple()
        .all(tx)
        .await?;
    Ok(active.into_iter().filter(|id| !off.contains(id)).collect())
}

fn message(notice: &MemberNotice<'_>) -> NoticeMessage {
    match *notice {
        MemberNotice::JobWaits { job, part } => about(
            NotificationKind::JobWaits,
            format!("job_waits:{}:{}", job.id, part.dataset_id),
            match &part.approval_reason {
                Some(because) => {
                    format!("“{}” waits for your decision about {}: {because}.", job.title, part.dataset_name)
                }
                None => format!("“{}” waits for your decision about {}.", job.title, part.dataset_name),
            },
            job,
            Some(part),
            vec![NoticeRecipient::Organization(part.organization_id, Role::DataSteward)],
        ),
        MemberNotice::JobOver { job, parts, state } => describe_job_end(job, parts, state),
        MemberNotice::WorkerSilent { job, part, worker, since } => about(
            NotificationKind::WorkerSilent,
            // Once for every silence.
            format!("worker_silent:{}:{}", worker.id, since.unix_timestamp()),
            format!(
                "The worker {} of {} has fallen silent, and “{}” waits for it.",
                worker.name, part.organization_name, job.title
            ),
            job,
            Some(part),
            vec![
                NoticeRecipient::Organization(part.organization_id, Role::OrganizationAdmin),
                NoticeRecipient::Organization(part.organization_id, Role::DataSteward),
            ],
        ),
        MemberNotice::BudgetLow { job, part, unit, left } => about(
            NotificationKind::BudgetLow,
            format!("budget_low:{}:{}:{unit:?}", job.id, part.dataset_id),
            format!(
                "{} % of the budget of {} for each {} is left, since “{}” has reserved.",
                (left * 100.0).floor().max(0.0),
                part.dataset_name,
                unit_phrase(unit),
                job.title
            ),
            job,
            Some(part),
            vec![NoticeRecipient::Organization(part.organization_id, Role::DataSteward)],
        ),
        MemberNotice::DatasetFrozen { consortium, part, number, reason } => NoticeMessage {
            kind: NotificationKind::DatasetFrozen,
            key: format!("dataset_frozen:{}:{}:{number}", part.organization_id, part.lineage_id),
            text: format!("An audit has frozen {}: {reason}", part.dataset_name),
            to: vec![
                NoticeRecipient::Organization(part.organization_id, Role::DataSteward),
                NoticeRecipient::Organization(part.organization_id, Role::OrganizationAdmin),
                NoticeRecipient::Consortium(consortium, Role::ConsortiumAdmin),
            ],
            consortium: Some(consortium),
            job: Some(part.job_id),
            dataset: Some(part.dataset_id),
            organization: Some(part.organization_id),
        },
        MemberNotice::CertificateReady { job, parts } => about(
            NotificationKind::CertificateReady,
            format!("certificate_ready:{}", job.id),
            format!("The certificate of “{}” is ready: what it cost whom, signed.", job.title),
            job,
            None,
            concerned(job, parts),
        ),
        MemberNotice::InvitationAccepted { invitation, invited_by, consortium, organization, who, label } => {
            NoticeMessage {
                kind: NotificationKind::InvitationAccepted,
                key: format!("invitation_accepted:{invitation}"),
                text: format!("{who} accepted your invitation for {label}."),
                to: vec![NoticeRecipient::Member(invited_by)],
                consortium,
                job: None,
                dataset: None,
                organization,
            }
        }
        MemberNotice::KeyMade { key, member, name } => of_account(
            format!("key_made:{key}"),
            format!("The API key “{name}” was made for you. If it was not you, revoke it, and change your password."),
            member,
        ),
        MemberNotice::CredentialsChanged { id, member, admins, text } => {
            let admins =
                admins.iter().map(|organization| NoticeRecipient::Organization(*organization, Role::OrganizationAdmin));
            NoticeMessage {
                kind: NotificationKind::CredentialsChanged,
                to: std::iter::once(NoticeRecipient::Member(member)).chain(admins).collect(),
                ..of_account(format!("credentials_changed:{id}"), text.to_owned(), member)
            }
        }
        MemberNotice::Access(notice) => access(notice),
        MemberNotice::SiteKeyRotated { worker, number } => NoticeMessage {
            kind: NotificationKind::SiteKeyRotated,
            key: format!("site_key_rotated:{}:{number}", worker.id),
            text: format!(
                "The site of the worker {} rotated its key (change {number}). If your site did not do this, its key was stolen: retire \
                 the worker and replace it.",
                worker.name
            ),
            to: vec![NoticeRecipient::Organization(worker.organization_id, Role::OrganizationAdmin)],
            consortium: None,
            job: None,
            dataset: None,
            organization: Some(worker.organization_id),
        },
        MemberNotice::SecondFactorFailed { member, at_least, began } => NoticeMessage {
            kind: NotificationKind::SecondFactorFailed,
            ..of_account(
                format!("second_factor_failed:{member}:{}:{at_least}", began.unix_timestamp()),
                format!(
                    "At least {at_least} wrong codes of your second factor were given within a day. If it was not you, your password is \
                     known to others: change it."
                ),
                member,
            )
        },
        MemberNotice::SignInNew { session, member, network, agent } => NoticeMessage {
            kind: NotificationKind::SignInNew,
            ..of_account(
                format!("sign_in_new:{session}"),
                format!(
                    "Your account signed in from a place that it had not used before: {agent}, {network}. If it was not you, change \
                     your password and end the session."
                ),
                member,
            )
        },
    }
}

/// Returns the message of a retirement or a restoration.
fn access(notice: &AccessNotice<'_>) -> NoticeMessage {
    let member = notice.member.map(NoticeRecipient::Member);
    let admins = notice.organizations.iter().map(|id| NoticeRecipient::Organization(*id, Role::OrganizationAdmin));
    let above = notice.consortium.map(|id| NoticeRecipient::Consortium(id, Role::ConsortiumAdmin));
    let operators = notice.has_operators.then_some(NoticeRecipient::Operators);
    NoticeMessage {
        kind: NotificationKind::AccessRetired,
        key: format!("access:{}", notice.key),
        text: notice.text.to_owned(),
        to: member.into_iter().chain(admins).chain(above).chain(operators).collect(),
        // A member without access to the consortium must still be able to read the notice.
        consortium: None,
        job: None,
        dataset: None,
        organization: None,
    }
}

/// Returns the message about a member's own account, which only they receive.
fn of_account(key: String, text: String, member: Uuid) -> NoticeMessage {
    NoticeMessage {
        kind: NotificationKind::AccountChanged,
        key,
        text,
        to: vec![NoticeRecipient::Member(member)],
        consortium: None,
        job: None,
        dataset: None,
        organization: None,
    }
}

fn about(
    kind: NotificationKind,
    key: String,
    text: String,
    job: &job::Model,
    part: Option<&participant::Model>,
    to: Vec<NoticeRecipient>,
) -> NoticeMessage {
    NoticeMessage {
        kind,
        key,
        text,
        to,
        consortium: Some(job.consortium_id),
        job: Some(job.id),
        dataset: part.map(|part| part.dataset_id),
        organization: part.map(|part| part.organization_id),
    }
}

fn describe_job_end(job: &job::Model, parts: &[participant::Model], state: JobState) -> NoticeMessage {
    let kind = match state {
        JobState::Finished => NotificationKind::JobFinished,
        JobState::Refused => NotificationKind::JobRefused,
        _ => NotificationKind::JobFailed,
    };
    let why = job.reason.as_deref().filter(|_| state != JobState::Finished);
    let why = why.map(|why| format!(": {}", why.chars().take(200).collect::<String>())).unwrap_or_default();
    let text = format!("“{}” is {}{why}.", job.title, state.label());
    about(kind, format!("job_over:{}", job.id), text, job, None, concerned(job, parts))
}

/// Returns the proposer of a job, and the stewards of all participants.
fn concerned(job: &job::Model, parts: &[participant::Model]) -> Vec<NoticeRecipient> {
    let stewards = parts.iter().map(|part| NoticeRecipient::Organization(part.organization_id, Role::DataSteward));
    std::iter::once(NoticeRecipient::Member(job.proposer_id)).chain(stewards).collect()
}

const fn unit_phrase(unit: PrivacyUnit) -> &'static str {
    match unit {
        PrivacyUnit::Record => "record",
        PrivacyUnit::Speaker => "speaker",
        PrivacyUnit::User => "user",
        PrivacyUnit::Words => "words",
    }
}
