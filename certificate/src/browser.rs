//! The interface of the wasm file that verifies certificates: the page's script calls it, one point at a time.

use wasm_bindgen::prelude::wasm_bindgen;

use crate::ModelDigest;
use crate::check::{CheckError, TextCheck};

/// A verification in the browser.
#[wasm_bindgen]
pub struct CertificateCheck {
    check: TextCheck,
}

/// The digest of a model file, computed from its parts in the browser.
#[wasm_bindgen]
#[derive(Default)]
pub struct ModelFile {
    digest: ModelDigest,
}

#[wasm_bindgen]
impl ModelFile {
    /// Starts a digest.
    #[wasm_bindgen(constructor)]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next bytes of the file.
    pub fn update(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
    }
}

#[wasm_bindgen]
impl CertificateCheck {
    /// Starts the verification of the file with the content `file`, as [`TextCheck::new`].
    ///
    /// # Errors
    /// A sentence, when nothing can be checked.
    #[wasm_bindgen(constructor)]
    pub fn new(file: &str, server_key: &str, site_keys: &str, model: Option<ModelFile>) -> Result<Self, String> {
        let model = model.map(|model| model.digest.finish());
        let check =
            TextCheck::new(file, server_key, site_keys, model).map_err(|error: CheckError| error.to_string())?;
        Ok(Self { check })
    }

    /// Checks the next point, and returns its finding as JSON; nothing after the last.
    pub fn check_next(&mut self) -> Option<String> {
        self.check.next().and_then(|line| serde_json::to_string(&line).ok())
    }
}
