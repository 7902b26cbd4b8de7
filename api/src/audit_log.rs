//! The audit log: actor, action, place and time of every change on the server, in a consortium and in an organization.
//!
//! Each place has a log of its own, numbered without gaps, whose entries form a hash chain: [`broken_at`] detects
//! changed or removed entries without the server. An entry names the action and its subject, in words of a closed list;
//! it never holds a secret, an e-mail address, or any of the data. To log one more action, add a line to [`AuditAction`]'s
//! table. Never change or remove a word that was used.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::id::{ConsortiumId, OrganizationId};
use crate::problem::Violation;

/// The place of an action. Each place has a log of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Where))]
#[serde(tag = "place", content = "id", rename_all = "snake_case")]
pub enum AuditPlace {
    /// The server itself: sign-ins, accounts, operation.
    Server,
    /// A consortium: jobs, agreements, questions.
    Consortium(ConsortiumId),
    /// An organization: its people, its workers, its data and their budgets.
    Organization(OrganizationId),
}

impl AuditPlace {
    /// Returns the place's word and id; the id of the server is nil.
    pub const fn parts(self) -> (&'static str, Uuid) {
        match self {
            Self::Server => ("server", Uuid::nil()),
            Self::Consortium(id) => ("consortium", id.0),
            Self::Organization(id) => ("organization", id.0),
        }
    }

    /// Returns the place with these [`AuditPlace::parts`]; `None` for an unknown word.
    pub fn from_parts(word: &str, id: Uuid) -> Option<Self> {
        match word {
            "server" => Some(Self::Server),
            "consortium" => Some(Self::Consortium(id.into())),
            "organization" => Some(Self::Organization(id.into())),
            _ => None,
        }
    }
}

/// The kind of an actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Hand))]
#[serde(rename_all = "snake_case")]
pub enum ActorKind {
    /// A signed-in member.
    Member,
    /// A worker.
    Worker,
    /// A program with an API key.
    Key,
    /// An operator at the server's terminal.
    Operator,
    /// A caller who is not signed in.
    Nobody,
    /// The server itself, for example at deadlines and in audits.
    System,
}

impl ActorKind {
    /// All kinds of actor, in the order of the filter.
    pub const ALL: &'static [Self] =
        &[Self::Member, Self::Worker, Self::Key, Self::Operator, Self::Nobody, Self::System];

    /// Returns the word in JSON and in addresses.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Worker => "worker",
            Self::Key => "key",
            Self::Operator => "operator",
            Self::Nobody => "nobody",
            Self::System => "system",
        }
    }
}

/// The actor of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Author))]
pub struct AuditActor {
    /// The kind of actor.
    pub hand: ActorKind,
    /// The id of the member, worker or key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Uuid>,
    /// The actor's current name. The hash does not cover it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The subject of an action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Subject))]
pub struct AuditSubject {
    /// Its kind, a noun: `dataset`, `job`, `member`.
    pub kind: String,
    /// Its id.
    pub id: String,
}

// The word is a bare token. Derived descriptions cannot read a `literal`, and would contain the variant's name instead.
macro_rules! whats {
    ($($name:ident $word:tt $said:literal;)*) => {
        /// An action.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = What))]
        pub enum AuditAction {
            $(#[doc = $said] #[serde(rename = $word)] $name,)*
        }

        impl AuditAction {
            /// Every action, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns the word in JSON and in addresses.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }

            /// Returns the description for pages: "set a budget".
            pub const fn phrase(self) -> &'static str {
                match self { $(Self::$name => $said,)* }
            }
        }
    };
}

whats! {
    SignedIn "signed_in" "signed in";
    SignInFailed "sign_in_failed" "failed to sign in";
    SignedOut "signed_out" "signed out";
    SessionEnded "session_ended" "ended a session";
    SessionsEnded "sessions_ended" "ended all other sessions";
    SecondFactorOn "second_factor_on" "switched two-factor on";
    SecondFactorOff "second_factor_off" "switched two-factor off";
    SecondFactorFailed "second_factor_failed" "gave a wrong code";
    RecoveryCodeUsed "recovery_code_used" "used a recovery code";
    RecoveryCodesMade "recovery_codes_made" "made new recovery codes";
    PasswordChanged "password_changed" "changed the password";
    ResetLinkMade "reset_link_made" "made a link that resets a password";
    PasswordReset "password_reset" "reset a password by a link";
    IdentityLinked "identity_linked" "linked an identity of the provider";
    IdentityUnlinked "identity_unlinked" "took an identity of the provider away";
    KeyMade "key_made" "made an API key";
    KeyRevoked "key_revoked" "revoked an API key";
    PasskeyAdded "passkey_added" "registered a passkey";
    PasskeyRemoved "passkey_removed" "removed a passkey";
    PasskeyRefused "passkey_refused" "a passkey gave an old signature counter";
    ApprovalKeyAdded "approval_key_added" "listed an approval key";
    ApprovalKeyRemoved "approval_key_removed" "took an approval key off the list";
    MemberJoined "member_joined" "joined";
    MemberInvited "member_invited" "invited a member";
    OrganizationInvited "organization_invited" "invited an organization";
    OrganizationJoined "organization_joined" "brought an organization into the consortium";
    AnnotatorInvited "annotator_invited" "invited an annotator";
    InvitationWithdrawn "invitation_withdrawn" "withdrew an invitation";
    RoleGranted "role_granted" "granted a role";
    RoleRevoked "role_revoked" "revoked a role";
    MemberRemoved "member_removed" "removed a member";
    ConsortiumFounded "consortium_founded" "founded the consortium";
    ConsortiumEdited "consortium_edited" "changed the consortium's name or description";
    OverlapAttested "overlap_attested" "declared in how many organizations one person may be";
    EnrolmentMade "enrolment_made" "made an enrolment token";
    WorkerEnrolled "worker_enrolled" "enrolled a worker";
    WorkerKeyRotated "worker_key_rotated" "rotated a worker's key";
    WorkerRetired "worker_retired" "retired a worker";
    WorkerRestored "worker_restored" "restored a worker";
    WorkerReplaced "worker_replaced" "replaced a retired worker";
    WorkerWrittenOff "worker_written_off" "wrote a worker off";
    WorkerReconciled "worker_reconciled" "gave the restored server the receipts that it lacked";
    MemberRetired "member_retired" "retired a member";
    MemberRestored "member_restored" "restored a member";
    OrganizationRetired "organization_retired" "retired an organization";
    OrganizationRestored "organization_restored" "restored an organization";
    AccountRetired "account_retired" "retired an account";
    AccountRestored "account_restored" "restored an account";
    OperatorInvited "operator_invited" "invited an operator";
    AddressConfirmed "address_confirmed" "confirmed a member's e-mail address";
    DatasetRegistered "dataset_registered" "registered a dataset";
    BudgetSet "budget_set" "set a budget";
    DatasetFrozen "dataset_frozen" "froze a dataset";
    FreezeCleared "freeze_cleared" "cleared a freeze";
    AutoApprovalSet "auto_approval_set" "set limits within which jobs are approved";
    AutoApprovalEnded "auto_approval_ended" "withdrew the limits within which jobs are approved";
    JobDrafted "job_drafted" "saved a draft of a job";
    JobDraftDeleted "job_draft_deleted" "deleted a draft of a job";
    JobProposed "job_proposed" "proposed a job";
    JobApproved "job_approved" "approved a job";
    JobRefused "job_refused" "refused a job";
    JobExpired "job_expired" "let a proposed job lapse";
    JobAdmitted "job_admitted" "reserved a job's budgets and queued it";
    JobPaused "job_paused" "paused a job";
    JobHeld "job_held" "held a job for a dataset";
    JobLeft "job_left" "left a job for a dataset";
    JobResumed "job_resumed" "let a job go on";
    JobCancelled "job_cancelled" "cancelled a job";
    JobRetried "job_retried" "proposed a job once more";
    JobFinished "job_finished" "finished a job";
    JobFailed "job_failed" "failed at a job";
    AnswersImported "answers_imported" "brought answers in";
    QuestionsExported "questions_exported" "took questions and answers away";
    ModelTaken "model_taken" "took a job's file away";
    ModelDeleted "model_deleted" "deleted a job's file";
    LedgerExported "ledger_exported" "took the ledgers away";
    AuditLogExported "audit_log_exported" "took the audit log away";
    LogsTaken "logs_taken" "took a job's logs away";
    ReportTaken "report_taken" "took a job's report away";
    CertificateTaken "certificate_taken" "took a job's certificate away";
    CertificateRenewed "certificate_renewed" "renewed the server's certificate";
    BackupMade "backup_made" "made a backup";
    BackupRestored "backup_restored" "restored a backup";
}

/// An entry of an audit log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditEntry {
    /// The place.
    #[serde(flatten)]
    pub place: AuditPlace,
    /// The entry's number in the place's log, from 1, without gaps.
    pub number: u64,
    /// When it happened: UTC, to the microsecond.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: OffsetDateTime,
    /// The actor.
    pub by: AuditActor,
    /// The action.
    pub what: AuditAction,
    /// The subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<AuditSubject>,
    /// Further details: a small object without secrets.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub detail: Value,
    /// The hash of the previous entry of the place, hex; SHA-256 of the empty text for the first.
    pub previous: String,
    /// SHA-256 of the entry as JSON without blanks and without the actor's name, hex.
    pub hash: String,
}

impl AuditEntry {
    /// Returns the hashed text: JSON without blanks, with names in this order; names within `detail` keep the entry's
    /// order.
    pub fn content(&self) -> String {
        let (place, place_id) = self.place.parts();
        let Self { number, at, by, what, subject, detail, previous, .. } = self;
        serde_json::to_string(&HashedContent {
            previous,
            place,
            place_id,
            number: *number,
            at_unix_microseconds: (at.unix_timestamp_nanos() / 1000) as i64,
            by: by.hand,
            by_id: by.id,
            what: *what,
            subject_kind: subject.as_ref().map(|subject| subject.kind.as_str()),
            subject_id: subject.as_ref().map(|subject| subject.id.as_str()),
            detail,
        })
        .unwrap_or_default()
    }

    /// Computes the hash that the entry should have.
    pub fn digest(&self) -> String {
        hex::encode(Sha256::digest(self.content().as_bytes()))
    }
}

#[derive(Serialize)]
struct HashedContent<'a> {
    previous: &'a str,
    place: &'a str,
    place_id: Uuid,
    number: u64,
    at_unix_microseconds: i64,
    by: ActorKind,
    by_id: Option<Uuid>,
    what: AuditAction,
    subject_kind: Option<&'a str>,
    subject_id: Option<&'a str>,
    detail: &'a Value,
}

/// Returns the hash before a log's first entry.
pub fn origin() -> String {
    hex::encode(Sha256::digest(b""))
}

/// Returns the first number at which a place's entries, in ascending order, do not continue a log that ended with
/// `before`; `None` if they do. `before` is a number and a hash; 0 and [`origin`] mean the beginning.
pub fn broken_at(before: (u64, &str), entries: &[AuditEntry]) -> Option<u64> {
    let mut number = before.0;
    let mut previous = before.1.to_owned();
    for entry in entries {
        number += 1;
        if entry.number != number || entry.previous != previous || entry.hash != entry.digest() {
            return Some(number);
        }
        previous.clone_from(&entry.hash);
    }
    None
}

/// The server's check of a place's log against its hash chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditCheck {
    /// The number of entries that were read.
    pub entries: u64,
    /// The first number at which the chain is broken; absent if it is intact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken_at: Option<u64>,
    /// The hash of the last entry. A reader who notes it can detect a change: every later log must contain it.
    pub head: String,
}

/// A filter of entries.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct AuditQuery {
    /// Only actions of this member, worker or key.
    pub by: Option<Uuid>,
    /// Only actions of this kind of actor.
    pub hand: Option<ActorKind>,
    /// Only this action: a word such as `budget_set`.
    pub what: Option<AuditAction>,
    /// Only actions on this kind of subject: `dataset`.
    pub subject_kind: Option<String>,
    /// Only actions on the subject with this id.
    pub subject: Option<String>,
    /// Only from this moment on (RFC 3339).
    #[serde(default, with = "time::serde::rfc3339::option")]
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, format = DateTime))]
    pub since: Option<OffsetDateTime>,
    /// Only before this moment (RFC 3339).
    #[serde(default, with = "time::serde::rfc3339::option")]
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, format = DateTime))]
    pub until: Option<OffsetDateTime>,
}

impl AuditQuery {
    /// The longest kind or id of a subject in a query, characters.
    pub const LONGEST: usize = 200;

    /// Returns every violation.
    pub fn check(&self) -> Vec<Violation> {
        let mut violations = Vec::new();
        for (field, value) in [("subject_kind", &self.subject_kind), ("subject", &self.subject)] {
            if value.as_ref().is_some_and(|value| value.chars().count() > Self::LONGEST) {
                violations.push(Violation::new(field, format!("use up to {} characters", Self::LONGEST)));
            }
        }
        if let (Some(since), Some(until)) = (self.since, self.until)
            && since >= until
        {
            violations.push(Violation::new("until", "name a moment after `since`"));
        }
        violations
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use time::macros::datetime;

    use super::{ActorKind, AuditAction, AuditActor, AuditEntry, AuditPlace, AuditQuery, broken_at, origin};

    fn chain() -> Vec<AuditEntry> {
        let mut all: Vec<AuditEntry> = Vec::new();
        for number in 1..=3 {
            let mut entry = AuditEntry {
                place: AuditPlace::Server,
                number,
                at: datetime!(2026-11-20 12:00 UTC),
                by: AuditActor { hand: ActorKind::System, id: None, name: None },
                what: AuditAction::BackupMade,
                subject: None,
                detail: json!({ "bytes": 7, "about": "x" }),
                previous: all.last().map_or_else(origin, |entry| entry.hash.clone()),
                hash: String::new(),
            };
            entry.hash = entry.digest();
            all.push(entry);
        }
        all
    }

    #[test]
    fn exported_entries_verify_after_json() {
        let text = serde_json::to_string(&chain()).expect("JSON");
        let read: Vec<AuditEntry> = serde_json::from_str(&text).expect("entries");
        assert_eq!(broken_at((0, &origin()), &read), None);
        assert_eq!(broken_at((1, &read[0].hash), &read[1..]), None);
    }

    #[test]
    fn a_changed_entry_and_a_missing_one_are_found() {
        let mut changed = chain();
        changed[1].what = AuditAction::BackupRestored;
        assert_eq!(broken_at((0, &origin()), &changed), Some(2));
        changed[1].hash = changed[1].digest();
        assert_eq!(broken_at((0, &origin()), &changed), Some(3));
        let mut shorter = chain();
        shorter.remove(1);
        assert_eq!(broken_at((0, &origin()), &shorter), Some(2));
    }

    #[test]
    fn words_are_their_json_and_are_unique() {
        let mut words = std::collections::BTreeSet::new();
        for what in AuditAction::ALL {
            assert_eq!(serde_json::to_value(what).expect("JSON"), json!(what.word()));
            assert!(words.insert(what.word()), "{}", what.word());
        }
        for hand in ActorKind::ALL {
            assert_eq!(serde_json::to_value(hand).expect("JSON"), json!(hand.word()));
        }
    }

    #[test]
    fn a_span_that_is_none_is_refused() {
        let at = Some(datetime!(2026-11-20 12:00 UTC));
        let query = AuditQuery { since: at, until: at, ..AuditQuery::default() };
        assert_eq!(query.check().len(), 1);
        let query = AuditQuery { subject: Some("x".repeat(AuditQuery::LONGEST + 1)), ..AuditQuery::default() };
        assert_eq!(query.check().len(), 1);
    }
}
