//! Writing the policy: the template of a new site, and what `data prepare --visibility` adds.

use std::fs;
use std::path::Path;

use undertone_api::dataset::Visibility;

use super::{Policy, PolicyError, word};
use crate::folder::{FolderError, write_durably};

/// The policy a new site begins with: careful, and explained.
pub const TEMPLATE: &str = include_str!("template.toml");

/// Records who may learn what from the dataset called `name`, at the end of the file; comments and order stay. Saying
/// the same again changes nothing. Where there is no policy yet, it begins with the template.
///
/// # Errors
/// [`PolicyError::Declared`] when the file says something else of it already: that is for a person to change.
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
        // What is not named is private.
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
    // Never put a file in place that would refuse everything.
    Policy::parse(&text, path)?;
    Ok(write_durably(path, text.as_bytes())?)
}
