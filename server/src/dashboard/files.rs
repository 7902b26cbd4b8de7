//! Files: those compiled into the dashboard and those of its bundle, read once at start. Their names do not change with
//! the content, so browsers revalidate each time, with the digest that they have.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use sha2::{Digest as _, Sha256};
use undertone_api::problem::Code;

use crate::rest::problem::Rejection;

const SCRIPT: &str = "text/javascript; charset=utf-8";
const WASM: &str = "application/wasm";

/// The files of the bundle: the islands of most pages, those of the planner, and the verification, which the page of a
/// certificate loads.
const BUNDLE: [(&str, &str); 6] = [
    ("undertone.js", SCRIPT),
    ("undertone_bg.wasm", WASM),
    ("planner.js", SCRIPT),
    ("planner_bg.wasm", WASM),
    ("certificate.js", SCRIPT),
    ("certificate_bg.wasm", WASM),
];

/// Every file by its address.
#[derive(Debug, Default)]
pub(super) struct AssetFiles(HashMap<String, File>);

#[derive(Debug)]
struct File {
    content_type: &'static str,
    /// The content security policy, if it is not that of other files.
    policy: Option<&'static str>,
    etag: HeaderValue,
    plain: Bytes,
    /// Content encodings, the smallest first.
    packed: Vec<(&'static str, Bytes)>,
}

impl File {
    fn new(content_type: &'static str, plain: Bytes) -> io::Result<Self> {
        let etag = format!("\"{}\"", hex::encode(&Sha256::digest(&plain)[..16]));
        let etag = HeaderValue::try_from(etag).map_err(io::Error::other)?;
        Ok(Self { content_type, policy: None, etag, plain, packed: Vec::new() })
    }
}

impl AssetFiles {
    /// Reads the bundle and the compiled files.
    ///
    /// # Errors
    /// If a file of the bundle cannot be read.
    pub(super) fn read(dist: Option<&Path>) -> io::Result<Self> {
        let mut files = HashMap::new();
        for asset in undertone_app::assets() {
            let file = File::new(asset.content_type, Bytes::from_static(asset.bytes))?;
            files.insert(asset.path.to_owned(), File { policy: asset.content_security_policy(), ..file });
        }
        for (name, content_type) in BUNDLE {
            let Some(path) = dist.map(|dist| dist.join(name)) else { continue };
            let plain = std::fs::read(&path)
                .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
            let mut file = File::new(content_type, plain.into())?;
            for (encoding, ending) in [("br", "br"), ("gzip", "gz")] {
                if let Ok(packed) = std::fs::read(dist.unwrap_or(Path::new("")).join(format!("{name}.{ending}"))) {
                    file.packed.push((encoding, packed.into()));
                }
            }
            files.insert(format!("/pkg/{name}"), file);
        }
        Ok(Self(files))
    }
}

/// Responds with a file, in an encoding that the browser accepts, or with 304 if the browser has it.
pub(super) async fn serve(State(files): State<Arc<AssetFiles>>, uri: Uri, headers: HeaderMap) -> Response {
    let Some(file) = files.0.get(uri.path()) else {
        return Rejection::new(Code::NotFound, "there is no such file").into_response();
    };
    let common = [
        (header::ETAG, file.etag.clone()),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::VARY, HeaderValue::from_static("accept-encoding")),
        (header::CONTENT_TYPE, HeaderValue::from_static(file.content_type)),
    ];
    let mut response = respond(file, &headers, common);
    if let Some(policy) = file.policy {
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    }
    response
}

fn respond(file: &File, headers: &HeaderMap, common: [(HeaderName, HeaderValue); 4]) -> Response {
    let is_current = headers.get_all(header::IF_NONE_MATCH).iter().any(|value| {
        value.to_str().is_ok_and(|tags| tags.split(',').any(|one| one.trim().trim_start_matches("W/") == file.etag))
    });
    if is_current {
        return (StatusCode::NOT_MODIFIED, common).into_response();
    }
    let packed = file.packed.iter().find(|(encoding, _)| takes(headers, encoding));
    match packed {
        Some((encoding, bytes)) => {
            (common, [(header::CONTENT_ENCODING, HeaderValue::from_static(encoding))], bytes.clone()).into_response()
        }
        None => (common, file.plain.clone()).into_response(),
    }
}

fn takes(headers: &HeaderMap, encoding: &str) -> bool {
    headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok()).any(|value| {
        value.split(',').any(|one| {
            let (name, weight) = one.split_once(';').map_or((one, ""), |(name, weight)| (name, weight));
            name.trim().eq_ignore_ascii_case(encoding)
                && !matches!(weight.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000")
        })
    })
}
