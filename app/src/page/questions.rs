//! Questions: the jobs with questions, and the page for annotators.

mod answer;
mod exchange;
#[cfg(test)]
mod tests;

use leptos::prelude::*;
use undertone_api::id::ConsortiumId;
use undertone_api::job::AskingJob;
use undertone_api::member::Member;
use undertone_api::question::QuestionProgress;

pub(crate) use answer::annotate;
use undertone_server_core::service;

use super::render_empty;
use crate::answer::part::{KAPPA, format_kappa};
use crate::component::said::StateMark;
use crate::kind::PlannerKind;
use crate::live::follow::Follow;
use crate::page_context::{PageContent, PagePlace};
use crate::screen::render_page;
use crate::{path, viewer, words};

/// Renders the list.
pub(crate) fn questions() -> AnyView {
    render_page(PagePlace::Questions, async |context| {
        let consortium = context.consortium()?.id;
        let member = context.member()?;
        let asking = service::question::asking(context.ctx(), context.actor()?, consortium).await?;
        let invite = viewer::attests(member, consortium).then(|| exchange::render_invitation(consortium));
        let list = if asking.is_empty() {
            let plan = viewer::researches(member)
                .then(|| view! { <p><a class="button primary" href=path::plan_of(consortium, PlannerKind::Questions.word())>"Plan a job"</a></p> });
            let text = "Active learning jobs with open questions appear here. Only texts that passed a site's gate \
                        reach this page, each once, after their release was charged.";
            render_empty(text, plan)
        } else {
            render_table(member, consortium, &asking)
        };
        let events = format!("/ui/events?questions={consortium}");
        Ok(PageContent::new("Questions", view! { <Follow events/><div data-live="questions">{list}</div>{invite} }))
    })
}

fn render_table(member: &Member, consortium: ConsortiumId, asking: &[AskingJob]) -> AnyView {
    let answers = viewer::answers(member);
    let reads = viewer::reads_questions(member);
    let rows = asking.iter().map(|AskingJob { summary: job, asking }| {
        let part = if asking.asked == 0 { 0.0 } else { asking.answered as f64 / asking.asked as f64 * 100.0 };
        let to = if answers { path::annotate(consortium, job.id) } else { path::job(consortium, job.id) };
        let more = reads.then(|| {
            view! {
                <br/><small>{answers.then(|| view! { <a href=path::job(consortium, job.id)>"Job"</a>" · " })}
                    {exchange::render_files(job.id, "file")}</small>
            }
        });
        view! {
            <tr>
                <th scope="row"><a href=to>{job.title.clone()}</a>{more}</th>
                <td data-label="state"><StateMark state=job.state/></td>
                <td data-label="round">{describe_round(asking)}</td>
                <td data-label="answered" class="rounds">
                    <svg class="rounds-bar" width="96" height="6" aria-hidden="true">
                        <rect class="gauge-track" width="100%" height="6" rx="3"></rect>
                        <rect class="gauge-spent" width=format!("{part:.1}%") height="6" rx="3"></rect>
                    </svg>
                    <span>{format!("{} of {}", words::count(asking.answered), words::count(asking.asked))}</span>
                </td>
                <td data-label="by">{describe_annotators(asking)}</td>
                <td data-label="agreement"><span>{asking.agreement.map_or_else(|| "–".into_any(), |kappa| view! { <abbr title=KAPPA>"κ"</abbr>" "{format_kappa(kappa)} }.into_any())}</span></td>
            </tr>
        }
    });
    view! {
        <table class="cards">
            <thead><tr>
                <th scope="col">"Job"</th><th scope="col">"State"</th><th scope="col">"Round"</th><th scope="col">"Answered"</th>
                <th scope="col">"Annotators"</th><th scope="col">"Agreement"</th>
            </tr></thead>
            <tbody>{rows.collect_view()}</tbody>
        </table>
    }
    .into_any()
}

/// Describes the present round, or the pending pools.
fn describe_round(asking: &QuestionProgress) -> String {
    if asking.pools < asking.pools_awaited {
        return format!("pools of {} of {} sites", asking.pools, asking.pools_awaited);
    }
    format!("{} of {} done", asking.rounds_done, asking.rounds)
}

fn describe_annotators(asking: &QuestionProgress) -> String {
    match asking.annotators {
        0 => "none yet".to_owned(),
        1 => format!("1 person, {}", words::plural(asking.annotations, "answer")),
        n => format!("{n} people, {}", words::plural(asking.annotations, "answer")),
    }
}
