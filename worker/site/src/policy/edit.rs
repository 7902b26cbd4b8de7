//! Writes the policy: the template of a new site, and the entries of `data prepare --visibility`.

use std::fs;
use std::path::Path;

use undertone_api::dataset::Visibility;

use super::{Policy, PolicyError, word};
use crate::folder::{FolderError, write_durably};

/// The policy of a new site: restrictive, and with explanations.
pub const TEMPLATE: &str = include_str!("template.toml");

/// Appends the visibility of the dataset called `name` to the file; comments and order are kept. An equal entry changes
/// nothing. Where no policy exists yet, it begins with the template.
///
/// # Errors
/// [`PolicyError::Declared`] when the file already has another visibility for it; a person must change that.
pub fn declare(path: &Path, name: &str, visibility: Visibility) -> Result<(), PolicyError> {
    if !path.exists() {
        write_durably(path, TEMPLATE.as_bytes())?;
    }
    let policy = Policy::load(path)?;
    match policy.datasets.get(name).map(|of| of.visibility) {
        Some(found) if found == visibility => return Ok(()),
        Some(found) => {
            return Err(PolicyError::Declared { path: path.to_owned(), name: name.to_owned(), found: word(found) });
        }
        // A dataset without an entry is private.
        None if visibility == Visibility::Private => return Ok(()),
        None => {}
    }
    let mut text = fs::read_to_string(path).map_err(FolderError::io("read", path))?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str("\n[datasets.\"");
    text.push_str(name);
    text.push_str("\"]\nvisibility = \"");
    text.push_str(word(visibility));
    text.push_str("\"\n");
    // Never install a file that would refuse everything.
    Policy::parse(&text, path)?;
    Ok(write_durably(path, text.as_bytes())?)
}
