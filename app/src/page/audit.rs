//! An audit's measurement and the claim, for each party; and a frozen account. Server-rendered.

use leptos::prelude::*;
use undertone_api::dataset::Dataset;
use undertone_api::freeze::Freeze;
use undertone_api::id::ConsortiumId;
use undertone_api::job::audit::{AttackMethod, AuditVerdict, AuditView, CanaryFamily, MembershipAttack, TrialResult};
use undertone_api::job::{Job, JobState};

use crate::component::form::post;
use crate::component::said::{Digest, RelativeTime};
use crate::{path, words};

/// Renders the audit of a job: the promise and the result, for each party. Empty if none is promised.
pub(super) fn render_section(
    job: &Job,
    datasets: &[Dataset],
    audits: &[AuditView],
    now: time::OffsetDateTime,
) -> AnyView {
    let audit_targets: Vec<&Dataset> =
        datasets.iter().filter(|dataset| job.spec.audit_plan(dataset).is_some()).collect();
    if audit_targets.is_empty() && audits.is_empty() {
        return ().into_any();
    }
    let disproved = audits.iter().any(|view| view.verdict == AuditVerdict::Disproved);
    let missing = audit_targets.len().saturating_sub(audits.len()) as u64;
    let headline = match job.summary.state {
        _ if disproved => "An audit disproves the claim. The files are withheld and the account is frozen.".to_owned(),
        JobState::Finished => "Passed: no measurement exceeds its claim.".to_owned(),
        state if state.is_over() => "The job ended without passing its audit; its files are withheld.".to_owned(),
        _ if missing > 0 => {
            format!(
                "{} pending; the files are withheld until the rounds end and the audits pass.",
                words::plural(missing, "audit")
            )
        }
        _ => "Every audit has arrived; the files are withheld until the job ends.".to_owned(),
    };
    let table = (!audits.is_empty()).then(|| render_table(audits, true, now));
    view! {
        <section class="panel"><h2>"Audit"</h2>
            <p class="headline" class:danger=disproved>{headline}</p>
            {table}
            <p class="hint">
                "Each private party adds canaries, made from no one's data, to its units. Afterwards it guesses \
                 from its releases which canaries were in. Leaving a canary out changes the releases as ε's \
                 neighbouring relation states. The share of correct guesses is a lower bound on ε. A bound above \
                 the claim proves the claim wrong; one below it proves nothing."
            </p>
        </section>
    }
    .into_any()
}

/// Renders the finding of each party's audit, optionally with the attacks on finished models.
pub(super) fn render_table(audits: &[AuditView], with_attacks: bool, now: time::OffsetDateTime) -> AnyView {
    let rows = audits.iter().map(|view| {
        let ours = &view.assessment;
        let attacks = view.statement.finding.attacks.iter().filter(|_| with_attacks);
        view! {
            <tr>
                <th scope="row">{view.dataset_name.clone()}<br/><small>{view.organization_name.clone()}</small></th>
                <td data-label="claimed" class="number">
                    <span>{format!("at most ε {}", words::epsilon(ours.claim))}<br/>
                        <small>{format!("tight {} at δ {}", words::epsilon(ours.tight), words::delta(ours.delta.get()))}</small></span>
                </td>
                <td data-label="measured" class="number">
                    <span>{format!("at least ε {}", words::epsilon_left(ours.shown))}<br/>
                        <small>{format!("{} with confidence 99.9 %", words::epsilon_left(ours.blocking))}</small></span>
                </td>
                <td data-label="says">{describe_verdict(view)}</td>
                <td data-label="from"><div>
                    {view.statement.finding.trials.iter().map(|guessed| view! { <div>{describe_guesses(guessed)}</div> }).collect_view()}
                    {attacks.map(|attack| view! { <div><small>{describe_attack(attack)}</small></div> }).collect_view()}
                </div></td>
                <td data-label="signed"><span><Digest digest=view.signed.digest()/><br/><small><RelativeTime at=view.received_at now/></small></span></td>
            </tr>
        }
    });
    view! {
        <table class="cards">
            <thead><tr>
                <th scope="col">"Party"</th><th scope="col" class="number">"Claimed"</th><th scope="col" class="number">"Measured"</th>
                <th scope="col">"Result"</th><th scope="col">"Attack"</th><th scope="col">"Statement"</th>
            </tr></thead>
            <tbody>{rows.collect_view()}</tbody>
        </table>
    }
    .into_any()
}

/// Describes the meaning of a verdict in a sentence.
fn describe_verdict(view: &AuditView) -> String {
    match view.verdict {
        AuditVerdict::Consistent => "Below the claim; it could have disproved the claim.".to_owned(),
        AuditVerdict::Uninformative => format!(
            "Inconclusive: at the confidence that decides, 99.9 %, correct guesses alone show at most ε {}, below the claim.",
            words::epsilon_left(view.assessment.ceiling)
        ),
        AuditVerdict::Disproved => "Above the claim: the releases exceed their charge.".to_owned(),
    }
}

fn describe_guesses(guessed: &TrialResult) -> String {
    let family = match guessed.trial.family {
        CanaryFamily::Direction => "gradients",
        CanaryFamily::Recording => "made-up recordings",
    };
    format!(
        "{} of {} guesses correct about {} {family}",
        words::count(guessed.correct.into()),
        words::count(guessed.trial.guesses.into()),
        words::count(guessed.trial.canaries.into())
    )
}

fn describe_attack(attack: &MembershipAttack) -> String {
    let method = match attack.method {
        AttackMethod::LossThreshold => "Loss threshold",
        AttackMethod::LikelihoodRatio => "Likelihood ratio",
    };
    let rate = |part: u32, whole: u32| words::percent(f64::from(part) / f64::from(whole.max(1)));
    let points: Vec<String> = attack
        .points
        .iter()
        .map(|point| {
            format!(
                "{} detected at {} false alarms (target {})",
                rate(point.true_positives, attack.members),
                rate(point.false_positives, attack.nonmembers),
                words::percent(point.aimed)
            )
        })
        .collect();
    let on = attack.series.as_ref().map_or_else(String::new, |series| format!(" on the {series} model"));
    format!("{method}{on}: AUC {:.2}; {}", attack.auc, points.join("; "))
}

/// Renders a freeze of a dataset: cause, time, and the form to clear it for its steward. Empty without freezes.
pub(super) fn render_freeze(
    consortium: ConsortiumId,
    dataset: &Dataset,
    freezes: &[Freeze],
    steward: bool,
    now: time::OffsetDateTime,
) -> AnyView {
    let Some(last) = freezes.first() else { return ().into_any() };
    if !last.frozen {
        return view! {
            <p class="hint">
                {format!("It was frozen after an audit, and cleared by {}: “{}” ", last.by, last.reason)}<RelativeTime at=last.at now/>
            </p>
        }
        .into_any();
    }
    let hidden = vec![("consortium", consortium.to_string()), ("dataset", dataset.id.to_string())];
    let clear = steward.then(|| {
        let form = post(
            "clear-freeze",
            hidden,
            view! {
                <p class="hint">"This does not undo any release. The site has its own freeze; clear it at its terminal with "<code>"undertone-worker ledger unfreeze"</code>"."</p>
                <label class="field"><span>"The defect and its repair, for the record"</span><textarea name="reason" rows="2" required minlength="10" maxlength="1000"></textarea></label>
                <button type="submit" class="danger">"Clear the freeze"</button>
            },
        );
        view! { <details class="more"><summary>"Clear the freeze"</summary>{form}</details> }
    });
    view! {
        <section class="panel" role="alert"><h2>"Frozen"</h2>
            <p class="headline danger">"No job can reserve budget on this dataset."</p>
            <p>{last.reason.clone()}". "<RelativeTime at=last.at now/>" by the audit of "<a href=path::job(consortium, last.job)>"this job"</a>"."</p>
            {clear}
        </section>
    }
    .into_any()
}

#[cfg(test)]
mod tests {
    use undertone_api::job::audit::{
        AttackMethod, AuditTrial, CanaryFamily, MembershipAttack, OperatingPoint, TrialResult,
    };

    use super::{describe_attack, describe_guesses};

    #[test]
    fn guesses_and_attacks_are_described() {
        let guessed = TrialResult {
            trial: AuditTrial { family: CanaryFamily::Direction, canaries: 1000, guesses: 500 },
            correct: 260,
        };
        assert_eq!(describe_guesses(&guessed), "260 of 500 guesses correct about 1,000 gradients");
        let attack = MembershipAttack {
            series: None,
            method: AttackMethod::LossThreshold,
            members: 100,
            nonmembers: 100,
            auc: 0.512,
            auc_interval: None,
            points: vec![OperatingPoint { aimed: 0.01, true_positives: 2, false_positives: 1 }],
        };
        let text = describe_attack(&attack);
        assert!(text.starts_with("Loss threshold: AUC 0.51; 2"), "{text}");
        assert!(
            describe_attack(&MembershipAttack { members: 0, ..attack }).contains("detected"),
            "nothing is divided by nobody"
        );
    }
}
