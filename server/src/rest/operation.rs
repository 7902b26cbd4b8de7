//! The operations of REST by their names, for callers of another interface: the same routes, with the same layers and
//! rights. The caller is identified by the headers of each call.

use std::collections::{BTreeMap, BTreeSet};

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::http::{Extensions, HeaderMap, HeaderValue, Method, header};
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tower::ServiceExt as _;
use undertone_api::problem::{Code, Problem, Violation};

use super::{openapi, table, wrap};
use undertone_server_core::ctx::Ctx;

/// The address below which the routes are.
const BASE: &str = "/api/v1";
/// The characters of a parameter that are encoded: all but those of ids, so that an address is as a client writes it.
/// An idempotency key belongs to an address.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'~');
/// The largest body of a failure, bytes.
const LARGEST_PROBLEM: usize = 1 << 20;

/// The operations that need a token.
pub(crate) struct RestOperations {
    router: Router,
    operations: BTreeMap<String, RestOperation>,
}

/// An operation.
#[derive(Debug, Clone)]
pub(crate) struct RestOperation {
    /// The method.
    pub(crate) method: Method,
    /// The address, with the names of its parameters in braces.
    pub(crate) path: String,
    /// What it does, in words.
    pub(crate) summary: String,
    /// The names of its parameters in the address and in the query.
    pub(crate) parameters: BTreeSet<String>,
}

/// A call of an operation.
#[derive(Debug)]
pub(crate) struct OperationCall {
    /// The name of the operation.
    pub(crate) operation: String,
    /// The parameters, as text.
    pub(crate) parameters: BTreeMap<String, String>,
    /// The body.
    pub(crate) body: Vec<u8>,
    /// The content type of the body; JSON if empty.
    pub(crate) content_type: String,
    /// The headers that REST reads: the token, an idempotency key, an expected version.
    pub(crate) headers: HeaderMap,
    /// The address of the caller.
    pub(crate) address: std::net::IpAddr,
}

impl RestOperations {
    /// Returns the operations of the routes that need a token.
    pub(crate) fn new(ctx: &Ctx) -> Self {
        let (api, document) = openapi::split(table());
        let document = serde_json::to_value(document).unwrap_or_default();
        let api = wrap::api(ctx, api.with_state(ctx.clone()));
        let router = Router::new().nest(BASE, api).layer(from_fn_with_state(ctx.metrics.clone(), wrap::bound_time));
        Self { router, operations: list_operations(&document) }
    }

    /// Returns the operations by name.
    pub(crate) const fn operations(&self) -> &BTreeMap<String, RestOperation> {
        &self.operations
    }

    /// Calls an operation, and returns its successful answer.
    ///
    /// # Errors
    /// The problem of the operation; `validation_failed` for an unknown operation, and for a parameter that is missing or
    /// that the operation does not have.
    pub(crate) async fn call(&self, call: OperationCall) -> Result<Response, Problem> {
        let request = self.request(call)?;
        // The router has no failure of its own.
        let Ok(response) = self.router.clone().oneshot(request).await;
        if response.status().is_success() {
            return Ok(response);
        }
        let body = axum::body::to_bytes(response.into_body(), LARGEST_PROBLEM).await;
        let problem = body.ok().and_then(|body| serde_json::from_slice(&body).ok());
        Err(problem.unwrap_or_else(|| Problem::new(Code::Internal, "the operation failed without a problem document")))
    }

    fn request(&self, call: OperationCall) -> Result<Request, Problem> {
        let OperationCall { operation, mut parameters, body, content_type, mut headers, address } = call;
        let refuse = |field: &str, text: String| Problem::validation(vec![Violation::new(field, text)]);
        let found = self.operations.get(&operation).ok_or_else(|| {
            let text = "there is no such operation with a token: list them with ListOperations";
            refuse("operation", text.to_owned())
        })?;
        let mut path = String::from(BASE);
        for (index, part) in found.path.split(['{', '}']).enumerate() {
            // Every second part is the name of a parameter.
            if index % 2 == 0 {
                path.push_str(part);
                continue;
            }
            let value = parameters.remove(part).filter(|value| !value.is_empty());
            let value = value.ok_or_else(|| refuse(&format!("parameters.{part}"), format!("give {part}")))?;
            path.extend(utf8_percent_encode(&value, ENCODED));
        }
        for (index, (name, value)) in parameters.iter().enumerate() {
            if !found.parameters.contains(name) {
                let known: Vec<&str> = found.parameters.iter().map(String::as_str).collect();
                let text = format!("{operation} has no such parameter; it has: {}", known.join(", "));
                return Err(refuse(&format!("parameters.{name}"), text));
            }
            path.push(if index == 0 { '?' } else { '&' });
            path.extend(utf8_percent_encode(name, ENCODED));
            path.push('=');
            path.extend(utf8_percent_encode(value, ENCODED));
        }
        if !body.is_empty() {
            let kind = if content_type.is_empty() { "application/json" } else { &content_type };
            let kind = HeaderValue::from_str(kind)
                .map_err(|_| refuse("content_type", "a content type has visible ASCII characters".to_owned()))?;
            headers.insert(header::CONTENT_TYPE, kind);
        }
        let mut extensions = Extensions::new();
        extensions.insert(ConnectInfo(std::net::SocketAddr::new(address, 0)));
        let request = Request::builder().method(found.method.clone()).uri(path).body(Body::from(body));
        let mut request = request.map_err(|error| refuse("parameters", error.to_string()))?;
        *request.headers_mut() = headers;
        *request.extensions_mut() = extensions;
        Ok(request)
    }
}

/// Returns the operations of a description that need a token.
fn list_operations(document: &Value) -> BTreeMap<String, RestOperation> {
    let mut operations = BTreeMap::new();
    for (path, methods) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in methods.as_object().into_iter().flatten() {
            let method = Method::from_bytes(method.to_uppercase().as_bytes());
            let (Ok(method), Some(name)) = (method, operation["operationId"].as_str()) else { continue };
            if operation["security"] == serde_json::json!([{}]) {
                continue;
            }
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let parameters = parameters.filter(|parameter| parameter["in"] != "header");
            let parameters = parameters.filter_map(|parameter| parameter["name"].as_str()).map(str::to_owned).collect();
            let summary = operation["summary"].as_str().unwrap_or_default().to_owned();
            operations.insert(name.to_owned(), RestOperation { method, path: path.clone(), summary, parameters });
        }
    }
    operations
}
