//! Paths of the checkout, of the programs built from it, and of large data.

use std::{
    env, io,
    path::{Path, PathBuf},
};

/// Returns the root of the checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default()
}

/// Returns the path of the program `name` (`undertone-server`, `undertone-worker`), built beside the running test.
///
/// # Errors
/// If it has not been built: `cargo test -p undertone-tests` alone builds libraries only.
pub fn program(name: &str) -> io::Result<PathBuf> {
    let test = env::current_exe()?;
    // Tests are in `<profile>/deps`, programs in `<profile>`.
    let beside = test.ancestors().skip(1).take(2).map(|folder| folder.join(name)).find(|path| path.is_file());
    beside.ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("{name} has not been built: run `cargo build -p {name}` first"))
    })
}

/// Returns the folder of large speech and text data in `UNDERTONE_DATA` (relative to the root of the checkout), if it
/// exists.
pub fn data() -> Option<PathBuf> {
    let folder = root().join(env::var_os("UNDERTONE_DATA")?);
    folder.is_dir().then_some(folder)
}
