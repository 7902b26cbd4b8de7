//! The document around every page, and the routes of the pages.

#![expect(unreachable_pub, reason = "the component macro makes what it generates public")]

use http::request::Parts;
use leptos::nonce::use_nonce;
use leptos::prelude::*;
use leptos_axum::ResponseOptions;
use leptos_meta::{MetaTags, provide_meta_context};
use leptos_router::components::{Route, Router, Routes};
use leptos_router::{SsrMode, path};

use crate::{asset, page, reply};

/// Renders the whole document. `options` name the bundle: `output_name` is `undertone`, `site_pkg_dir` is `pkg`. The page
/// of the planner has a bundle of its own.
pub fn shell(options: LeptosOptions) -> impl IntoView {
    guard();
    let mut options = options;
    if use_context::<Parts>().is_some_and(|parts| crate::path::is_plan(parts.uri.path())) {
        options.output_name = crate::path::PLANNER_BUNDLE.into();
    }
    view! {
        <!DOCTYPE html>
        <html lang="en" data-theme=reply::theme()>
            <head>
                <meta charset="utf-8"/>
                <meta name="viewport" content="width=device-width, initial-scale=1"/>
                <meta name="color-scheme" content="light dark"/>
                <link rel="icon" type="image/svg+xml" href=asset::MARK/>
                <link rel="preload" href="/assets/source-sans-3-latin.woff2" r#as="font" type="font/woff2" crossorigin="anonymous"/>
                <link rel="stylesheet" href=asset::STYLE/>
                <HydrationScripts options islands=true/>
                <MetaTags/>
            </head>
            <body><App/></body>
        </html>
    }
}

/// Sets the content security policy: scripts only from this server and only those of this response, no external styles
/// or frames, no plugins.
fn guard() {
    let (Some(response), Some(nonce)) = (use_context::<ResponseOptions>(), use_nonce()) else { return };
    let policy = format!(
        "default-src 'none'; script-src 'self' 'nonce-{nonce}' 'wasm-unsafe-eval'; style-src 'self'; font-src 'self'; \
         img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    );
    if let Ok(policy) = http::HeaderValue::from_str(&policy) {
        response.insert_header(http::header::CONTENT_SECURITY_POLICY, policy);
    }
}

/// Renders the pages. Each is sent as a whole, so that none needs a script to be read.
#[component]
pub fn App() -> impl IntoView {
    provide_meta_context();
    view! {
        <Router>
            <Routes fallback=page::missing_page>
                <Route path=path!("/") view=page::home ssr=SsrMode::Async/>
                <Route path=path!("/sign-in") view=page::sign_in ssr=SsrMode::Async/>
                <Route path=path!("/sign-in/code") view=page::second_factor ssr=SsrMode::Async/>
                <Route path=path!("/reset/:secret") view=page::reset ssr=SsrMode::Async/>
                <Route path=path!("/accept/:secret") view=page::accept ssr=SsrMode::Async/>
                <Route path=path!("/found") view=page::new_consortium ssr=SsrMode::Async/>
                <Route path=path!("/settings") view=page::settings ssr=SsrMode::Async/>
                <Route path=path!("/notifications") view=page::notifications ssr=SsrMode::Async/>
                <Route path=path!("/settings/keys") view=page::keys ssr=SsrMode::Async/>
                <Route path=path!("/settings/accounts") view=page::accounts ssr=SsrMode::Async/>
                <Route path=path!("/settings/security") view=page::security ssr=SsrMode::Async/>
                <Route path=path!("/thresholds") view=page::thresholds ssr=SsrMode::Async/>
                <Route path=path!("/c/:consortium") view=page::overview ssr=SsrMode::Async/>
                <Route path=path!("/c/:consortium/jobs") view=page::jobs ssr=SsrMode::Async/>
                <Route path=path!("/c/:consortium/plan") view=page::plan ssr=SsrMode::Async/>
                <Route path=path!("/c/:consortium/jobs/:job") view=page::job ssr=SsrMode::Async/>
                <Route path=path!("/c/:consortium/jobs/:job/review/:dataset") view=page::review ssr=SsrMode::Async/>
                <Route path=path!("/c/:consortium/drafts/:draft") view=page::draft ssr=SsrMode::Async/>
                <Route path=path!("/c/:consortium/jobs/:job/log") view=page::job_log ssr=SsrMode::Async/>
                <Route path=path!("/c/:consortium/jobs/:job/certificate") view=page::certificate ssr=SsrMode::Async/>
                <Route path=path!("/c/:consortium/jobs/:job/report") view=page::report ssr=SsrMode::Async/>
                <Route path=path!("/c/:consortium/questions") view=page::questions ssr=SsrMode::Async/>
                <Route path=path!("/c/:consortium/questions/:job") view=page::annotate ssr=SsrMode::Async/>
                <Route path=path!("/c/:consortium/datasets") view=page::datasets ssr=SsrMode::Async/>
                <Route path=path!("/c/:consortium/datasets/:dataset") view=page::dataset ssr=SsrMode::Async/>
                <Route path=path!("/c/:consortium/organizations") view=page::organizations ssr=SsrMode::Async/>
                <Route path=path!("/c/:consortium/organizations/:organization") view=page::organization ssr=SsrMode::Async/>
                <Route path=path!("/c/:consortium/models") view=page::models ssr=SsrMode::Async/>
                <Route path=path!("/c/:consortium/ledger") view=page::ledger ssr=SsrMode::Async/>
                <Route path=path!("/c/:consortium/ledger/:account/:sequence") view=page::ledger_row ssr=SsrMode::Async/>
                <Route path=path!("/c/:consortium/models/compare") view=page::compare ssr=SsrMode::Async/>
                <Route path=path!("/c/:consortium/models/:model") view=page::model ssr=SsrMode::Async/>
                <Route path=path!("/c/:consortium/models/:model/compare/:other") view=page::model_comparison ssr=SsrMode::Async/>
                <Route path=path!("/c/:consortium/audit-log") view=page::consortium_log ssr=SsrMode::Async/>
                <Route path=path!("/c/:consortium/organizations/:organization/audit-log") view=page::organization_log ssr=SsrMode::Async/>
                <Route path=path!("/audit-log") view=page::server_log ssr=SsrMode::Async/>
            </Routes>
        </Router>
    }
}
