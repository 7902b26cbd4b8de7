//! Paths of the checkout, of the programs built from it, and of large data.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

/// Returns the root of the checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default()
}

/// Returns the files with an extension below a folder of the checkout, by their paths from its root, in order.
///
/// # Panics
/// If the folder cannot be read.
pub fn files(folder: &str, extension: &str) -> Vec<String> {
    let root = root();
    let mut names = Vec::new();
    let mut folders = vec![root.join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder of the checkout") {
            let path = entry.expect("a readable folder").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == extension) {
                let name = path.strip_prefix(&root).expect("a file below the root");
                names.push(name.to_string_lossy().into_owned());
            }
        }
    }
    names.sort();
    names
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
