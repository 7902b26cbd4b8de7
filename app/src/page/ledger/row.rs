//! One row of a ledger, and its evidence: its price, the chain of its account, its position in the log that the server
//! signed, and the site's receipt from before the release.

use leptos::prelude::*;
use undertone_api::budget::EntryKind;
use undertone_api::id::AccountId;
use undertone_api::ledger::{EntryProof, InclusionProof, ReceiptProof};
use undertone_privacy::Event;
use undertone_server_core::service;

use super::super::list_newest_jobs;
use super::describe_event;
use crate::component::said::RelativeTime;
use crate::page_context::{PageContent, PagePlace};
use crate::screen::render_page;
use crate::{path, words};

/// Renders the page.
pub(crate) fn row() -> AnyView {
    render_page(PagePlace::Ledger, async |context| {
        let consortium = context.consortium()?.id;
        context.member()?;
        let account: AccountId = context.id("account")?;
        let sequence: u64 = context.id("sequence")?;
        let proof = service::ledger::explain(context.ctx(), context.actor()?, account, sequence).await?;
        let datasets = service::dataset::list(context.ctx(), context.actor()?, consortium).await?;
        let name = datasets.iter().find(|known| known.id == proof.dataset).map(|known| known.name.clone());
        let jobs = list_newest_jobs(&context, consortium).await?;
        let job = jobs.iter().find(|known| known.id == proof.job).map(|known| known.title.clone());
        let job = job.unwrap_or_else(|| format!("job {}", words::short(&proof.job.to_string())));
        let entry_kind = match proof.kind {
            EntryKind::Reserve => "reserved",
            EntryKind::Commit => "paid",
            EntryKind::Settle => "given back",
        };
        let title =
            format!("Row {} of {}", words::count(sequence), name.clone().unwrap_or_else(|| "a dataset".to_owned()));
        let neighbour_link = |sequence: u64, text: &'static str, rel: &'static str| {
            view! { <a rel=rel href=path::ledger_row(consortium, account, sequence)>{text}</a> }
        };
        let file = path::entry_file(account, sequence);
        let file_name = format!("row-{account}-{sequence}.json");
        Ok(PageContent::new(
            title,
            view! {
                {render_verdict(&proof)}
                <section class="panel"><h2>"Contents"</h2>
                    <dl class="facts proof">
                        <div><dt>"Kind"</dt><dd>{format!("{} × {}, {entry_kind}", words::count(proof.count), describe_event(&proof.event))}</dd></div>
                        <div><dt>"Job"</dt><dd><a href=path::job(consortium, proof.job)>{job}</a>{proof.round.clone().map(|round| format!(", {round}"))}</dd></div>
                        <div><dt>"Dataset"</dt><dd><a href=path::dataset(consortium, proof.dataset)>{name}</a></dd></div>
                        <div><dt>"When"</dt><dd><RelativeTime at=proof.at now=context.now/>{format!(" ({})", words::exact(proof.at))}</dd></div>
                        <div><dt>"Evaluator"</dt><dd><code>{proof.evaluator.clone()}</code></dd></div>
                    </dl>
                    {render_price(&proof)}
                </section>
                <section class="panel"><h2>"1. Account chain"</h2>
                    <p>"The hash of the row covers this text, which includes the hash of the previous row."</p>
                    <pre class="scroll" tabindex="0" aria-label="Hashed text"><code>{proof.leaf.clone()}</code></pre>
                    <dl class="facts proof">
                        <div><dt>"Previous row"</dt><dd><code>{proof.previous.clone()}</code></dd></div>
                        <div><dt>"This row, SHA-256"</dt><dd><code>{proof.hash.clone()}</code></dd></div>
                        <div><dt>"Verification"</dt><dd>{render_check(proof.chained, "The hash matches the text, and the text includes the previous row's hash.", "The hash does not match the text, or the text does not include the previous row's hash.")}</dd></div>
                    </dl>
                </section>
                {proof.inclusion.as_ref().map(render_inclusion)}
                {proof.receipt.as_ref().map(render_receipt)}
                <p class="take">
                    <a href=file download=file_name>"Download this row and its proofs"</a>" "
                    {(sequence > 1).then(|| neighbour_link(sequence - 1, "Previous row", "prev"))}" "
                    {neighbour_link(sequence + 1, "Next row", "next")}" "
                    <a href=format!("{}?dataset={}", path::ledger(consortium), proof.dataset)>"All rows of the dataset"</a>
                </p>
            },
        ))
    })
}

/// Renders the result of all checks in a sentence.
fn render_verdict(proof: &EntryProof) -> AnyView {
    let mut broken = Vec::new();
    if !proof.chained {
        broken.push("the account chain is broken here");
    }
    match &proof.inclusion {
        None => broken.push("the server’s log does not contain it"),
        Some(inclusion) if !inclusion.holds => broken.push("its path does not lead to the server’s signed head"),
        Some(_) => {}
    }
    if let Some(receipt) = &proof.receipt {
        if !receipt.signature_holds {
            broken.push("the site’s signature is invalid");
        }
        if !receipt.charged_as_signed {
            broken.push("its charge differs from the site’s receipt");
        }
        if !receipt.countersignature_holds {
            broken.push("the server’s countersignature is invalid");
        }
    } else if proof.kind == EntryKind::Commit {
        broken.push("the site’s receipt is missing");
    }
    if broken.is_empty() {
        let proved = if proof.receipt.is_some() { "chain, log and receipt agree" } else { "chain and log agree" };
        return view! { <div class="notice good" role="status"><p class="notice-title">{format!("This row is valid: {proved}")}</p></div> }
            .into_any();
    }
    view! {
        <div class="notice bad" role="alert"><p class="notice-title">"This row is invalid"</p>
            <ul>{broken.into_iter().map(|what| view! { <li>{what}</li> }).collect_view()}</ul>
        </div>
    }
    .into_any()
}

/// Renders a check, with a word beside its symbol.
fn render_check(holds: bool, yes: &'static str, no: &'static str) -> AnyView {
    let (class, sign, text) = if holds { ("state done", "✓ ", yes) } else { ("state bad", "✕ ", no) };
    view! { <span class=class><span aria-hidden="true">{sign}</span>{text}</span> }.into_any()
}

fn render_price(proof: &EntryProof) -> AnyView {
    if proof.price.is_empty() {
        let hint = if proof.event == Event::NonPrivate {
            "An exact release has no price: the ledger records it without an ε."
        } else {
            "The job is charged as a whole, by the Gaussian certificate of its reservation: its first release spends the whole of it."
        };
        return view! { <p class="hint">{hint}</p> }.into_any();
    }
    if let Some(certificate) = &proof.certificate {
        let cost = format!(
            "Gaussian certificate for {}: μ {:.4}, δ₀ {:.2e}. The account admits while the sum of μ² and the sum of δ₀ are within its limits.",
            words::plural(certificate.covers(), "release"),
            certificate.mu(),
            certificate.side_delta()
        );
        return view! { <p class="hint">{cost}</p> }.into_any();
    }
    let rows = proof.price.iter().map(|price| {
        let part = price.share.filter(|share| *share > 0.0).map(|share| words::percent(price.loss / share));
        view! {
            <tr>
                <th scope="row" class="number">{words::number(price.order)}</th>
                <td data-label="loss, nats" class="number">{format!("{:.6}", price.loss)}</td>
                <td data-label="limit, nats" class="number">{price.share.map_or_else(|| "none".to_owned(), |share| format!("{share:.4}"))}</td>
                <td data-label="of the limit" class="number">{part.unwrap_or_else(|| "–".to_owned())}</td>
            </tr>
        }
    });
    view! {
        <details class="more"><summary>"Cost at every order"</summary>
            <table class="cards dense">
                <caption>"Rényi loss of all its releases together; the account admits while at some order the sum is within the limit"</caption>
                <thead><tr><th scope="col" class="number">"Order α"</th><th scope="col" class="number">"Loss, nats"</th><th scope="col" class="number">"Limit, nats"</th><th scope="col" class="number">"Of the limit"</th></tr></thead>
                <tbody>{rows.collect_view()}</tbody>
            </table>
        </details>
    }
    .into_any()
}

fn render_inclusion(inclusion: &InclusionProof) -> AnyView {
    let head = &inclusion.head.head;
    let steps = inclusion.steps.iter().map(|step| {
        let (before, after) = if step.left { (step.sibling.clone(), "known value") } else { ("known value".to_owned(), "") };
        let after = if step.left { after.to_owned() } else { step.sibling.clone() };
        view! { <li>"SHA-256 of 01, "<code>{before}</code>", "<code>{after}</code>" is "<code>{step.hash.clone()}</code></li> }
    });
    view! {
        <section class="panel"><h2>"2. The server’s log"</h2>
            <p>{format!(
                "The row is at position {} of {}. From the hash of its text, each step adds the sibling hash, up to the root that the server has signed.",
                words::count(inclusion.position), words::count(head.size)
            )}</p>
            <details class="more" open=inclusion.steps.len() <= 6>
                <summary>{format!("The {}", words::plural(inclusion.steps.len() as u64, "step"))}</summary>
                <ol class="proof-steps">
                    <li>"SHA-256 of 00 and the text is "<code>{inclusion.leaf_hash.clone()}</code></li>
                    {steps.collect_view()}
                </ol>
            </details>
            <dl class="facts proof">
                <div><dt>"Signed root"</dt><dd><code>{head.root.clone()}</code></dd></div>
                <div><dt>"Signed by"</dt><dd><code>{inclusion.head.server_key.clone()}</code></dd></div>
                <div><dt>"Verification"</dt><dd>{render_check(inclusion.holds, "The steps lead to the root, and the server’s signature is valid.", "The steps do not lead to a root signed by the server.")}</dd></div>
            </dl>
        </section>
    }
    .into_any()
}

fn render_receipt(receipt: &ReceiptProof) -> AnyView {
    view! {
        <section class="panel"><h2>"3. The site’s receipt"</h2>
            <p>{format!("{} signed it as number {} of its own chain, before the release left.", receipt.worker_name, words::count(receipt.sequence))}</p>
            <pre class="scroll" tabindex="0" aria-label="Signed receipt"><code>{receipt.signed.payload.clone()}</code></pre>
            <dl class="facts proof">
                <div><dt>"SHA-256"</dt><dd><code>{receipt.digest.clone()}</code></dd></div>
                <div><dt>"Signature"</dt><dd><code>{receipt.signed.signature.clone()}</code></dd></div>
                <div><dt>"Site"</dt><dd>{render_check(receipt.signature_holds, "The signature by the site’s key is valid.", "The signature by the site’s key is invalid.")}</dd></div>
                <div><dt>"Charge"</dt><dd>{render_check(receipt.charged_as_signed, "The row’s charge equals the receipt’s charge.", "The row’s charge differs from the receipt’s charge.")}</dd></div>
                <div><dt>"Server"</dt><dd>{render_check(receipt.countersignature_holds, "The server has countersigned it for this position.", "The server’s countersignature is missing or invalid.")}</dd></div>
            </dl>
        </section>
    }
    .into_any()
}

#[cfg(test)]
mod tests {
    use undertone_server_core::testing::tamper;

    use crate::testing::TestDashboard;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn ledger_row_shows_price_steps_and_failures() {
        let dashboard = TestDashboard::open().await;
        let consortium = dashboard.consortium;
        let account = dashboard.account(dashboard.dataset(1)).await;
        tamper(dashboard.ctx(), "countersignature", "UPDATE countersignature SET signature = '00'").await;
        let came = dashboard.render(&format!("/c/{consortium}/ledger/{account}/2"), true, "").await;
        assert_eq!(came.status.as_u16(), 200, "{}", came.body);
        for wanted in
            ["This row is invalid", "countersignature is invalid", "Order α", "SHA-256 of 01", "Download this row"]
        {
            assert!(came.body.contains(wanted), "{wanted} is not on the page");
        }
        let first = dashboard.render(&format!("/c/{consortium}/ledger/{account}/1"), true, "").await.body;
        assert!(
            first.contains("This row is valid: chain and log agree") && !first.contains("The site’s receipt"),
            "{first}"
        );
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn unknown_ledger_row_is_not_found() {
        let dashboard = TestDashboard::open().await;
        let consortium = dashboard.consortium;
        let account = dashboard.account(dashboard.dataset(1)).await;
        let came = dashboard.render(&format!("/c/{consortium}/ledger/{account}/999"), true, "").await;
        assert_eq!(came.status.as_u16(), 404);
    }
}
