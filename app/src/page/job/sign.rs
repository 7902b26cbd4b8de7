//! An owner's approval: with a signature where the dataset's site verifies one, by a passkey or by a key file at a
//! terminal; with a plain button elsewhere.

use leptos::prelude::*;
use undertone_api::id::{DatasetId, JobId};
use undertone_api::job::PartyTerms;
use undertone_api::signed::{ApprovalKey, ApprovalRule, ApprovalStatement, SiteApproval, passkey_challenge};

use crate::asset;
use crate::component::form::post;

/// The content of an approval.
pub(crate) struct ApprovalRequest<'a> {
    /// The job.
    pub(crate) job: JobId,
    /// The dataset.
    pub(crate) dataset: DatasetId,
    /// The digest of its manifest.
    pub(crate) manifest: &'a str,
    /// The answer to its open terms.
    pub(crate) terms: &'a PartyTerms,
}

/// Renders the form that approves a job for one dataset. `hidden` are the fields of every such form, `review` is the
/// address of the statement that a terminal signs, `label` is the button's label.
pub(crate) fn render_approval_form(
    site: Option<&SiteApproval>,
    request: &ApprovalRequest<'_>,
    hidden: Vec<(&'static str, String)>,
    review: String,
    label: String,
) -> AnyView {
    let verifier = site.filter(|site| site.rule == ApprovalRule::Steward);
    let Some(site) = verifier else {
        let rule = site.map(|site| {
            let hint = match site.rule {
                ApprovalRule::Manual => "The site also asks for approval at its terminal.",
                ApprovalRule::Automatic => "The site's own policy also decides.",
                ApprovalRule::Steward | ApprovalRule::Server => {
                    "The site verifies no signature: it relies on this server for your approval. The certificate states this."
                }
            };
            view! { <p class="hint">{hint}</p> }
        });
        let button = view! { <button type="submit" class="primary">{label}</button> };
        return view! { {rule}<div class="actions">{post("approve", hidden, button)}</div> }.into_any();
    };
    if site.keys.is_empty() {
        return view! {
            {render_script()}
            <p class="notice bad">"Your site verifies stewards' signatures but has no pinned approval key, so the job cannot be approved yet. Ask the site's operator to pin your key: "
                <code>"undertone-worker approval-keys add"</code>"."</p>
        }
        .into_any();
    }
    let ApprovalRequest { job, dataset, manifest, terms } = *request;
    let statement = ApprovalStatement::approve(manifest, job, dataset).with_terms(terms.clone());
    let options: Vec<String> = terms.iter().map(|(term, value)| format!(" --term {}={value}", term.name())).collect();
    let options = options.concat();
    let payload = serde_json::to_string(&statement).unwrap_or_default();
    let credentials: Vec<&str> = site
        .keys
        .iter()
        .filter_map(|key| match key {
            ApprovalKey::Passkey { credential, .. } => Some(&**credential),
            ApprovalKey::Ed25519 { .. } => None,
        })
        .collect();
    let ask = serde_json::json!({
        "payload": payload,
        "challenge": hex::encode(passkey_challenge::<ApprovalStatement>(&payload)),
        "credentials": credentials,
    });
    let fields = |hidden: Vec<(&'static str, String)>| {
        hidden.into_iter().map(|(name, value)| view! { <input type="hidden" name=name value=value/> }).collect_view()
    };
    let passkey = (!credentials.is_empty()).then(|| {
        view! {
            <form class="stack" method="post" action="/ui/approve" data-approve=ask.to_string()>
                {fields(hidden.clone())}
                <input type="hidden" name="signature"/>
                <p class="hint">"The site runs the job only with your signature. Your passkey signs exactly this manifest for this dataset."</p>
                <button type="submit" class="primary">{label.clone()}</button>
                <p class="notice bad" role="alert" hidden></p>
            </form>
        }
    });
    let terminal = view! {
        <form class="stack" method="post" action="/ui/approve">
            {fields(hidden)}
            <p class="hint">"Save "<a href=review download="review.json">"the review"</a>" and sign it with your key file: "
                <code>{format!("undertone-worker steward-key sign --key steward.key review.json{options}")}</code>". Paste the output here."</p>
            <label class="field"><span>"The signed approval"</span><textarea name="signature" rows="3" required maxlength="16384"></textarea></label>
            <button type="submit" class=if passkey.is_some() { "" } else { "primary" }>{label}</button>
        </form>
    };
    let open = passkey.is_none();
    view! {
        {render_script()}
        <div class="actions">{passkey}</div>
        <details class="more" open=open><summary>"Sign at a terminal"</summary>{terminal}</details>
    }
    .into_any()
}

/// Renders the script that signs with passkeys. The page contains it before there is a passkey: a live page shows a
/// passkey that is pinned meanwhile, and scripts in an update of a live page do not run.
fn render_script() -> impl IntoView {
    view! { <script type="module" src=asset::PASSKEY></script> }
}

#[cfg(test)]
mod tests {
    use leptos::prelude::{Owner, RenderHtml as _};
    use undertone_api::id::{DatasetId, JobId};
    use undertone_api::job::PartyTerms;
    use undertone_api::signed::{ApprovalKey, ApprovalRule, PasskeyAlgorithm, SiteApproval};
    use uuid::Uuid;

    use super::{ApprovalRequest, render_approval_form};

    fn page(site: Option<&SiteApproval>) -> String {
        let job = JobId(Uuid::from_u128(1));
        let dataset = DatasetId(Uuid::from_u128(2));
        let hidden = vec![("manifest", "aa".to_owned())];
        Owner::new().with(|| {
            let request = ApprovalRequest { job, dataset, manifest: "aa", terms: &PartyTerms::default() };
            render_approval_form(site, &request, hidden, "/review".to_owned(), "Approve".to_owned()).to_html()
        })
    }

    fn site(rule: ApprovalRule, keys: Vec<ApprovalKey>) -> SiteApproval {
        SiteApproval { rule, keys }
    }

    fn key_file() -> ApprovalKey {
        ApprovalKey::Ed25519 { public_key: "00".repeat(32) }
    }

    fn passkey() -> ApprovalKey {
        ApprovalKey::Passkey {
            algorithm: PasskeyAlgorithm::Es256,
            public_key: "04".to_owned(),
            credential: "c0ffee".to_owned(),
            relying_party: "undertone.example".to_owned(),
            origin: "https://undertone.example".to_owned(),
        }
    }

    #[test]
    fn verifying_site_is_approved_by_signature_only() {
        let none = page(Some(&site(ApprovalRule::Steward, Vec::new())));
        assert!(none.contains("no pinned approval key") && !none.contains("/ui/approve"), "{none}");
        assert!(none.contains("passkey.js"), "a passkey may be pinned while the page is looked at: {none}");
        let file = page(Some(&site(ApprovalRule::Steward, vec![key_file()])));
        assert!(file.contains("steward-key sign") && file.contains("name=\"signature\""), "{file}");
        assert!(!file.contains("data-approve"), "no passkey is pinned");
        let both = page(Some(&site(ApprovalRule::Steward, vec![key_file(), passkey()])));
        assert!(both.contains("data-approve") && both.contains("c0ffee") && both.contains("passkey.js"), "{both}");
        assert!(both.contains("steward-key sign"), "a terminal may sign as well");
    }

    #[test]
    fn site_that_trusts_the_server_is_marked() {
        let html = page(Some(&site(ApprovalRule::Server, Vec::new())));
        assert!(html.contains("relies on this server") && html.contains("/ui/approve"), "{html}");
        assert!(page(None).contains("/ui/approve") && !page(None).contains("verifies no signature"));
    }
}
