//! Where tests find shared vectors and data, which are not part of the repository.
//!
//! `UNDERTONE_VECTORS` and `UNDERTONE_DATA` name the folders, by default `../shared/vectors` and `../shared/data` beside the
//! workspace. What is absent by default is passed over, with a line on stderr; what was asked for by name must be there.
//! `UNDERTONE_ALIGNER` names a Python with PocketSphinx in the same way.

use std::path::{Path, PathBuf};

/// A file of test vectors.
pub(crate) fn vectors(name: &str) -> Option<PathBuf> {
    find("UNDERTONE_VECTORS", "vectors", name)
}

/// A folder of data.
pub(crate) fn data(name: &str) -> Option<PathBuf> {
    find("UNDERTONE_DATA", "data", name)
}

/// A Python that has PocketSphinx: what `UNDERTONE_ALIGNER` names, or the one that `.ci/aligner.sh` made.
pub(crate) fn aligner() -> Option<PathBuf> {
    if let Some(asked) = std::env::var_os("UNDERTONE_ALIGNER").filter(|asked| !asked.is_empty()) {
        return Some(asked.into());
    }
    let below = |variable: &str, rest: &str| std::env::var_os(variable).map(|folder| Path::new(&folder).join(rest));
    let cache = below("UNDERTONE_CACHE", "")
        .or_else(|| below("XDG_CACHE_HOME", "undertone"))
        .or_else(|| below("HOME", ".cache/undertone"));
    let made = cache?.join("tools/pocketsphinx-5.1.1/bin/python");
    if made.exists() {
        return Some(made);
    }
    eprintln!("passed over: no PocketSphinx; run .ci/aligner.sh to make one");
    None
}

fn find(variable: &str, folder: &str, name: &str) -> Option<PathBuf> {
    let asked = std::env::var_os(variable).map(PathBuf::from);
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared").join(folder);
    let path = asked.clone().unwrap_or_else(default).join(name);
    if path.exists() {
        return Some(path);
    }
    assert!(asked.is_none(), "{variable} is set, but {} is not there", path.display());
    eprintln!("passed over: no {name}; set {variable} to run this test");
    None
}
