//! REST: only the table of URLs. Handlers are in one file per resource; they translate and call the service.
//!
//! To add an address: a documented handler in its resource's file, a line below; the OpenAPI snapshot will show it.

mod account;
mod api_key;
mod approval_key;
mod approval_limit;
mod audit;
mod audit_log;
mod budget;
mod certificate;
mod consortium;
pub mod cookie;
mod dataset;
mod draft;
pub mod etag;
pub(crate) mod events;
mod explorer;
pub mod extract;
mod health;
mod identity;
mod invitation;
mod job;
mod job_life;
mod job_log;
mod ledger;
mod me;
mod member;
mod model;
mod notification;
mod oidc;
mod once;
pub mod openapi;
pub(crate) mod operation;
mod organization;
mod passkey;
mod plan;
pub mod problem;
mod question;
mod rate;
mod reference;
mod report;
mod retirement;
mod schema;
mod session;
#[cfg(test)]
mod tests;
mod unread;
mod wrap;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::router::UtoipaMethodRouterExt as _;
use utoipa_axum::routes;

use undertone_server_core::ctx::Ctx;

pub(crate) use self::health::probe::write_file as write_probe_file;

/// Returns the routes below `/api/v1`.
fn table() -> OpenApiRouter<Ctx> {
    OpenApiRouter::new()
        .routes(routes!(session::sign_in, session::sign_out))
        .routes(routes!(session::finish))
        .routes(routes!(session::refresh))
        .routes(routes!(session::prove))
        .routes(routes!(passkey::sign_in))
        .routes(routes!(passkey::sign_in_challenge))
        .routes(routes!(passkey::list, passkey::create))
        .routes(routes!(passkey::challenge))
        .routes(routes!(passkey::remove))
        .routes(routes!(retirement::list_accounts))
        .routes(routes!(retirement::retire_account))
        .routes(routes!(retirement::restore_account))
        .routes(routes!(member::operator_links))
        .routes(routes!(member::withdraw_operator))
        .routes(routes!(me::show))
        .routes(routes!(notification::list))
        .routes(routes!(notification::unread))
        .routes(routes!(notification::read_all))
        .routes(routes!(notification::read))
        .routes(routes!(notification::switches, notification::set_switches))
        .routes(routes!(account::factor, account::offer, account::confirm))
        .routes(routes!(account::off))
        .routes(routes!(account::recovery_codes))
        .routes(routes!(account::sessions, account::end_others))
        .routes(routes!(account::end))
        .routes(routes!(account::password))
        .routes(routes!(account::reset))
        .routes(routes!(account::preview, account::redeem))
        .routes(routes!(api_key::list, api_key::create))
        .routes(routes!(api_key::revoke))
        .routes(routes!(approval_key::list, approval_key::create))
        .routes(routes!(approval_key::remove))
        .routes(routes!(identity::list))
        .routes(routes!(identity::unlink))
        .routes(routes!(invitation::create))
        .routes(routes!(invitation::preview))
        .routes(routes!(invitation::accept))
        .routes(routes!(invitation::join))
        .routes(routes!(organization::list))
        .routes(routes!(organization::show))
        .routes(routes!(organization::members))
        .routes(routes!(member::assign, member::remove))
        .routes(routes!(member::confirm_address))
        .routes(routes!(organization::invitations))
        .routes(routes!(member::withdraw))
        .routes(routes!(organization::workers, organization::enrol))
        .routes(routes!(retirement::retire_worker))
        .routes(routes!(retirement::restore_worker))
        .routes(routes!(retirement::write_off_worker))
        .routes(routes!(retirement::replace_worker))
        .routes(routes!(retirement::list_retired_members))
        .routes(routes!(retirement::retire_member))
        .routes(routes!(retirement::restore_member))
        .routes(routes!(consortium::list, consortium::create))
        .routes(routes!(consortium::show, consortium::edit))
        .routes(routes!(consortium::overlap, consortium::attest))
        .routes(routes!(consortium::organizations))
        .routes(routes!(retirement::retire_organization))
        .routes(routes!(retirement::restore_organization))
        .routes(routes!(member::list_consortium_members, member::add_consortium_member))
        .routes(routes!(member::assign_over))
        .routes(routes!(consortium::invitations))
        .routes(routes!(member::withdraw_over))
        .routes(routes!(consortium::annotators))
        .routes(routes!(consortium::datasets))
        .routes(routes!(dataset::show))
        .routes(routes!(budget::list, budget::set))
        .routes(routes!(budget::balances))
        .routes(routes!(ledger::entries))
        .routes(routes!(ledger::bundle))
        .routes(routes!(explorer::history))
        .routes(routes!(explorer::entry))
        .routes(routes!(ledger::head))
        .routes(routes!(ledger::heads))
        .routes(routes!(ledger::consistency))
        .routes(routes!(plan::plan))
        .routes(routes!(job::list, job::propose))
        .routes(routes!(job::show))
        .routes(routes!(job::progress))
        .routes(routes!(job_log::list))
        .routes(routes!(job_log::export))
        .routes(routes!(events::job))
        .routes(routes!(events::consortium))
        .routes(routes!(job::cancel))
        .routes(routes!(job::approve))
        .routes(routes!(job::refuse))
        .routes(routes!(job_life::pause))
        .routes(routes!(job_life::resume))
        .routes(routes!(job_life::hold))
        .routes(routes!(job_life::release))
        .routes(routes!(job_life::leave))
        .routes(routes!(job_life::retry))
        .routes(routes!(job_life::review))
        .routes(routes!(draft::list, draft::create))
        .routes(routes!(draft::show, draft::update, draft::delete))
        .routes(routes!(draft::propose))
        .routes(routes!(draft::of_job))
        .routes(routes!(approval_limit::list, approval_limit::set, approval_limit::withdraw))
        .routes(routes!(audit::list))
        .routes(routes!(audit::freezes))
        .routes(routes!(audit::clear))
        .routes(routes!(audit_log::of_server))
        .routes(routes!(audit_log::of_consortium))
        .routes(routes!(audit_log::of_organization))
        .routes(routes!(audit_log::check_server))
        .routes(routes!(audit_log::check_consortium))
        .routes(routes!(audit_log::check_organization))
        .routes(routes!(audit_log::export_server))
        .routes(routes!(audit_log::export_consortium))
        .routes(routes!(audit_log::export_organization))
        .routes(routes!(report::show))
        .routes(routes!(report::document))
        .routes(routes!(report::again))
        .routes(routes!(certificate::file))
        .routes(routes!(certificate::schema))
        .routes(routes!(question::asking))
        .routes(routes!(question::list))
        .routes(routes!(question::next))
        .routes(routes!(question::annotate))
        .routes(routes!(question::take_back))
        .routes(routes!(question::export))
        .routes(routes!(question::import).layer(DefaultBodyLimit::max(question::LARGEST_IMPORT)))
        .routes(routes!(model::in_consortium))
        .routes(routes!(model::list))
        .routes(routes!(model::content))
        .routes(routes!(model::delete))
        .routes(routes!(model::record))
        .routes(routes!(model::compare))
        .routes(routes!(model::card))
        .routes(routes!(model::archive))
}

/// Returns every route outside the dashboard: `/api/v1`, its description, and health.
pub fn router(ctx: &Ctx) -> Router {
    let (api, document) = openapi::split(table());
    let document = openapi::complete(&document);
    let described = openapi::router(&document).merge(reference::router(&document));
    let api = wrap::api(ctx, api.with_state(ctx.clone()).merge(described));
    Router::new().nest("/api/v1", api).merge(health::router(ctx)).merge(oidc::router(ctx))
}

#[cfg(test)]
pub(crate) use question::LARGEST_IMPORT;
#[cfg(test)]
pub(crate) use tests::member_of;
pub use wrap::outside;
#[cfg(test)]
pub(crate) use wrap::{LARGEST_BODY, LONGEST};
