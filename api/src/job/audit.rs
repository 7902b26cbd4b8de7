//! Audits: the measurements of its own privacy that a job promises, and their results.
//!
//! A one-run audit (Steinke, Nasr and Jagielski 2023) asks of a finished run a question that its claim makes
//! unanswerable: which of many canaries were in the data. A canary is a synthetic unit; a fair, secret coin decides its
//! inclusion. Everything here is computed from released vectors and those coins, so it costs no privacy. Nothing here
//! may be computed from the units of people.
//!
//! Worker and server both compute the [`Assessment`] from the same counts; neither trusts the other's.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use undertone_privacy::audit::{
    AuditError, BLOCKING, Membership, MembershipBound, OneRun, SHOWN, epsilon_lower_of_all,
};
use undertone_privacy::membership::rate_interval;
use undertone_privacy::pld::Plan;
use undertone_privacy::{Adjacency, Delta, Event, OrderGrid, PriceError, convert, mechanism};

use crate::signed::{AuditStatement, Signed};

/// The family of a canary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Family))]
#[serde(rename_all = "snake_case")]
pub enum CanaryFamily {
    /// A unit whose gradient is longer than the clip, in a direction of its own. It tests the strongest attack on
    /// single units.
    Direction,
    /// A synthetic recording (or a speaker with several) with random labels. It tests attacks on the finished model.
    Recording,
}

/// Canaries of one family, and the number of guesses about them. Both are fixed before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Trial))]
pub struct AuditTrial {
    /// Their family.
    pub family: CanaryFamily,
    /// m: the canaries, each included with probability ½.
    pub canaries: u32,
    /// r: the guesses, an even number. Half of them guess "in" for the highest scores, half guess "out" for the lowest.
    pub guesses: u32,
}

/// The audit that a job promises at a participant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditPlan {
    /// The series whose releases are audited.
    pub series: String,
    /// The trials.
    pub trials: Vec<AuditTrial>,
    /// Other series whose finished models are also attacked, for comparison. Each trains with the same recordings, or
    /// without them if it uses no data of the participant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<String>,
}

/// The result of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Guessed))]
pub struct TrialResult {
    /// The trial.
    #[serde(flatten)]
    pub trial: AuditTrial,
    /// v: the correct guesses.
    pub correct: u32,
}

/// A membership-inference attack on the finished model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Method))]
#[serde(rename_all = "snake_case")]
pub enum AttackMethod {
    /// Guesses "in" for a low loss (Yeom et al. 2018).
    LossThreshold,
    /// The likelihood of the loss relative to that of excluded canaries, given their loss under the model from before
    /// the rounds (after the offline attack of Carlini et al. 2022, with canaries for shadow models).
    LikelihoodRatio,
}

/// An attack at one threshold, which is fixed on excluded canaries.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OperatingPoint {
    /// The intended false-positive rate.
    pub aimed: f64,
    /// Included canaries that the attack reports as included.
    pub true_positives: u32,
    /// Excluded canaries that the attack reports as included.
    pub false_positives: u32,
}

/// The success of an attack in distinguishing included from excluded canaries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Attack))]
pub struct MembershipAttack {
    /// The series whose finished model was attacked; absent for the audited series.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<String>,
    /// The attack.
    pub method: AttackMethod,
    /// Included canaries.
    pub members: u32,
    /// Excluded canaries.
    pub nonmembers: u32,
    /// The probability that an included canary scores higher than an excluded one: ½ is no information, 1 is full
    /// information.
    pub auc: f64,
    /// The interval of that probability at confidence 95 %, from the variation of the scores (DeLong et al. 1988). The
    /// method assumes independent canaries; those of one run are less independent. Older statements have no interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(example = json!([0.45, 0.62])))]
    pub auc_interval: Option<[f64; 2]>,
    /// The attack at 0.1 % and 1 % false positives.
    pub points: Vec<OperatingPoint>,
}

impl MembershipAttack {
    /// Returns the bound that an operating point would show if canaries were as independent as separate runs (Clopper
    /// and Pearson). In one run they are not, so the bound is only displayed and never decides. `None` if one side has
    /// no canaries.
    pub fn bound(&self, point: &OperatingPoint, delta: Delta) -> Option<MembershipBound> {
        let count = u64::from;
        let (tp, fp) = (count(point.true_positives), count(point.false_positives));
        Membership::new(tp, count(self.members), fp, count(self.nonmembers)).ok()?.bound(delta, SHOWN).ok()
    }

    /// Returns the true-positive rate at an operating point, and its interval at confidence [`SHOWN`] (Clopper and
    /// Pearson); `None` without members.
    pub fn rate(&self, point: &OperatingPoint) -> Option<(f64, [f64; 2])> {
        let (k, n) = (u64::from(point.true_positives), u64::from(self.members));
        let (low, high) = rate_interval(k, n, SHOWN);
        (n > 0).then(|| (k as f64 / n as f64, [low, high]))
    }

    /// Returns whether it attacks the finished model of `series`, where `audited` is the series under audit.
    pub fn is_of(&self, series: &str, audited: &str) -> bool {
        self.series.as_deref().unwrap_or(audited) == series
    }

    /// Returns whether it can be an attack on this audit's recordings: on an expected model, with counts that add up to
    /// the promised canaries. An attack on anything else, above all on people's recordings, is rejected.
    fn is_of_audit(&self, audited: &AuditPlan, canaries: u32) -> bool {
        let is_planned = |series: &String| *series == audited.series || audited.beside.contains(series);
        self.series.as_ref().is_none_or(is_planned) && self.is_sane(canaries)
    }

    /// Returns whether its numbers are possible for an attack on so many canaries.
    fn is_sane(&self, canaries: u32) -> bool {
        let around =
            |[low, high]: [f64; 2]| (0.0..=self.auc + 1e-9).contains(&low) && (self.auc - 1e-9..=1.0).contains(&high);
        let within = |point: &OperatingPoint| {
            point.true_positives <= self.members
                && point.false_positives <= self.nonmembers
                && point.aimed > 0.0
                && point.aimed < 1.0
        };
        self.members.checked_add(self.nonmembers) == Some(canaries)
            && (0.0..=1.0).contains(&self.auc)
            && self.auc_interval.is_none_or(around)
            && self.points.len() <= 8
            && self.points.iter().all(within)
    }
}

/// The counts that a participant's run gives to its site for the assessment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Finding))]
pub struct AuditFinding {
    /// One result for every promised trial, in their order.
    pub trials: Vec<TrialResult>,
    /// Attacks on the finished model; none without canaries of the family `recording`.
    pub attacks: Vec<MembershipAttack>,
}

impl AuditFinding {
    /// Returns whether the finding belongs to the promised audit.
    pub fn answers(&self, audited: &AuditPlan) -> bool {
        let promised = self.trials.iter().map(|guessed| guessed.trial).eq(audited.trials.iter().copied());
        let recordings = audited.trials.iter().find(|trial| trial.family == CanaryFamily::Recording);
        let attacked = match recordings {
            Some(trial) => {
                self.attacks.len() <= 8 && self.attacks.iter().all(|one| one.is_of_audit(audited, trial.canaries))
            }
            None => self.attacks.is_empty(),
        };
        promised && attacked
    }
}

/// The verdict of an audit on a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Verdict))]
#[serde(rename_all = "snake_case")]
pub enum AuditVerdict {
    /// The measured lower bound is at most the claim. The audit could have disproved the claim, but this does not prove
    /// it.
    Consistent,
    /// Even a perfect attack with so many guesses could not have disproved the claim: it is too large for this audit.
    Uninformative,
    /// The measured lower bound is above the claim: the releases do not have the paid privacy.
    Disproved,
}

/// A claim and the measurements against it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Assessment {
    /// δ of all following figures.
    #[cfg_attr(feature = "openapi", schema(value_type = f64, example = 1e-6))]
    pub delta: Delta,
    /// The claimed ε of the audited releases alone, by the accountant of the ledgers; rounded up.
    pub claim: f64,
    /// The claimed ε by the tighter accountant of privacy-loss distributions, at most `claim`; rounded up. The measured
    /// bound is compared with this one.
    pub tight: f64,
    /// A lower bound of ε with confidence 95 %; rounded down.
    pub shown: f64,
    /// A lower bound of ε with confidence 99.9 %; rounded down. Above `tight` it blocks.
    pub blocking: f64,
    /// The value of `blocking` for perfect guesses.
    pub ceiling: f64,
    /// The verdict.
    pub verdict: AuditVerdict,
}

/// The reason why there is no assessment.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AssessError {
    /// The counts are impossible for an audit.
    #[error(transparent)]
    Counts(#[from] AuditError),
    /// The release has no price.
    #[error(transparent)]
    Price(#[from] PriceError),
    /// There is no finite claim to compare a measurement with.
    #[error("the audited releases claim no finite ε at δ {0}")]
    NoClaim(f64),
}

impl Assessment {
    /// Compares the guesses with the claim of `releases` of `event` at δ.
    ///
    /// # Errors
    /// [`AssessError`] if counts or event make no sense.
    pub fn assess(
        guessed: &[TrialResult],
        event: &Event,
        adjacency: Adjacency,
        releases: u64,
        delta: Delta,
    ) -> Result<Self, AssessError> {
        let charges = event.count_charges(releases);
        let curve = mechanism::curve(event, adjacency, &OrderGrid::reporting())?.times(charges);
        let claim = convert::epsilon(&curve, delta).ok_or(AssessError::NoClaim(delta.get()))?.get();
        let plan = Plan::of(&event.clone().times(charges), adjacency);
        // If the losses have no grid, only the Rényi bound is available.
        let tight = plan.epsilon(delta).ok().flatten().map_or(claim, |tight| tight.get().min(claim));
        let audits = |perfect: bool| -> Result<Vec<OneRun>, AuditError> {
            let one = |guessed: &TrialResult| {
                let AuditTrial { canaries, guesses, .. } = guessed.trial;
                let correct = if perfect { guesses } else { guessed.correct };
                OneRun::new(canaries.into(), guesses.into(), correct.into())
            };
            guessed.iter().map(one).collect()
        };
        let measured = audits(false)?;
        let lower_bound = epsilon_lower_of_all(&measured, delta, SHOWN)?;
        let blocking = epsilon_lower_of_all(&measured, delta, BLOCKING)?;
        let ceiling = epsilon_lower_of_all(&audits(true)?, delta, BLOCKING)?;
        let verdict = if blocking > tight {
            AuditVerdict::Disproved
        } else if ceiling <= tight {
            AuditVerdict::Uninformative
        } else {
            AuditVerdict::Consistent
        };
        Ok(Self { delta, claim, tight, shown: lower_bound, blocking, ceiling, verdict })
    }

    /// Returns whether another assessment of the same audit agrees, to a part in a million.
    pub fn agrees(&self, other: &Self) -> bool {
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1e-3);
        self.delta == other.delta
            && near(self.claim, other.claim)
            && near(self.tight, other.tight)
            && near(self.shown, other.shown)
            && near(self.blocking, other.blocking)
            && near(self.ceiling, other.ceiling)
            && self.verdict == other.verdict
    }
}

/// An audit's statement for display.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditView {
    /// The dataset's name.
    pub dataset_name: String,
    /// The owner's name.
    pub organization_name: String,
    /// The site's statement.
    pub statement: AuditStatement,
    /// The server's assessment of the same counts, at the δ of the consortium's account.
    pub assessment: Assessment,
    /// The worse of both verdicts.
    pub verdict: AuditVerdict,
    /// The signed statement.
    pub signed: Signed,
    /// When it arrived.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub received_at: OffsetDateTime,
}

#[cfg(test)]
mod tests;
