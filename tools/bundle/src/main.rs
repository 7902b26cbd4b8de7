//! Turns compiled wasm into the folder that a browser loads: for each module `NAME.js` (the loader) and `NAME_bg.wasm`,
//! also compressed ahead of time (`.gz`, `.br`), and `manifest.json` with their digests and sizes, which is also
//! printed. The folder is replaced as a whole or not at all.
//!
//! It uses wasm-bindgen as a library, because the version must equal that of `Cargo.lock` exactly. `.ci/bundle.sh`
//! builds the wasm.

mod compress;
mod optimize;

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Parser;
use serde::Serialize;
use sha2::{Digest, Sha256};
use wasm_bindgen_cli_support::Bindgen;

#[derive(Parser)]
#[command(about, version)]
struct Arguments {
    /// The folder to write, replaced if it exists.
    out: PathBuf,
    /// A module: the prefix of its file names, and the wasm that cargo built. Pages request `undertone`, that of the
    /// planner `planner` instead, and that of a certificate also `certificate`.
    #[arg(required = true, value_name = "NAME=WASM", value_parser = parse_module)]
    modules: Vec<Module>,
    /// binaryen's wasm-opt, to make the wasm smaller; left as it is without.
    #[arg(long)]
    wasm_opt: Option<PathBuf>,
}

/// A compiled module.
#[derive(Debug, Clone)]
struct Module {
    name: String,
    wasm: PathBuf,
}

fn parse_module(text: &str) -> Result<Module, String> {
    let (name, wasm) = text.split_once('=').ok_or("expected NAME=WASM")?;
    Ok(Module { name: name.to_owned(), wasm: wasm.into() })
}

/// The content of `manifest.json`.
#[derive(Serialize)]
struct Manifest {
    /// Whether wasm-opt has optimized the wasm.
    optimized: bool,
    files: Vec<Entry>,
}

/// One file, with its sizes in bytes.
#[derive(Serialize)]
struct Entry {
    file: String,
    sha256: String,
    bytes: usize,
    gzip: usize,
    brotli: usize,
}

#[derive(Debug, thiserror::Error)]
enum BundleError {
    #[error("wasm-bindgen could not read {path}: {reason}")]
    Bindgen { path: PathBuf, reason: String },
    #[error("could not read {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("could not write {path}")]
    Write { path: PathBuf, source: io::Error },
    #[error("wasm-opt at {path} could not be started")]
    OptimizerMissing { path: PathBuf, source: io::Error },
    #[error("wasm-opt at {path} gave up: {stderr}")]
    OptimizerFailed { path: PathBuf, stderr: String },
    #[error("the manifest could not be written as JSON")]
    Json(#[from] serde_json::Error),
}

fn main() -> ExitCode {
    match bundle(&Arguments::parse()) {
        Ok(json) => {
            println!("{json}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let mut message = error.to_string();
            let mut source = std::error::Error::source(&error);
            while let Some(cause) = source {
                message = format!("{message}: {cause}");
                source = cause.source();
            }
            eprintln!("undertone-bundle: {message}");
            ExitCode::FAILURE
        }
    }
}

fn bundle(arguments: &Arguments) -> Result<String, BundleError> {
    let fresh = arguments.out.with_extension("new");
    remove(&fresh)?;
    fs::create_dir_all(&fresh).map_err(|source| BundleError::Write { path: fresh.clone(), source })?;

    let mut files = Vec::new();
    for Module { name, wasm } in &arguments.modules {
        bind(name, wasm, &fresh)?;
        let loader = format!("{name}.js");
        let optimized = format!("{name}_bg.wasm");
        if let Some(program) = &arguments.wasm_opt {
            optimize::in_place(program, &fresh.join(&optimized))?;
        }
        files.push(entry(&fresh, loader)?);
        files.push(entry(&fresh, optimized)?);
    }
    let json = serde_json::to_string(&Manifest { optimized: arguments.wasm_opt.is_some(), files })?;
    write(&fresh.join("manifest.json"), format!("{json}\n").as_bytes())?;

    remove(&arguments.out)?;
    fs::rename(&fresh, &arguments.out).map_err(|source| BundleError::Write { path: arguments.out.clone(), source })?;
    Ok(json)
}

/// Writes the loader and the wasm for the browser.
fn bind(name: &str, wasm: &Path, out: &Path) -> Result<(), BundleError> {
    let compiled = fs::read(wasm).map_err(|source| BundleError::Read { path: wasm.to_owned(), source })?;
    let generate = || {
        Bindgen::new()
            .input_bytes(name, compiled)
            .out_name(name)
            .web(true)?
            .typescript(false)
            .remove_name_section(true)
            .remove_producers_section(true)
            // The page itself names the address of the wasm.
            .omit_default_module_path(true)
            .generate(out)
    };
    generate().map_err(|reason| BundleError::Bindgen { path: wasm.to_owned(), reason: format!("{reason:#}") })
}

/// Compresses one file and measures it.
fn entry(folder: &Path, file: String) -> Result<Entry, BundleError> {
    let path = folder.join(&file);
    let content = fs::read(&path).map_err(|source| BundleError::Write { path: path.clone(), source })?;
    let (gzip, brotli) = (compress::gzip(&content), compress::brotli(&content));
    write(&folder.join(format!("{file}.gz")), &gzip)?;
    write(&folder.join(format!("{file}.br")), &brotli)?;
    let sha256 = hex::encode(Sha256::digest(&content));
    Ok(Entry { file, sha256, bytes: content.len(), gzip: gzip.len(), brotli: brotli.len() })
}

fn write(path: &Path, content: &[u8]) -> Result<(), BundleError> {
    fs::write(path, content).map_err(|source| BundleError::Write { path: path.to_owned(), source })
}

/// Removes a folder if it exists.
fn remove(path: &Path) -> Result<(), BundleError> {
    match fs::remove_dir_all(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(BundleError::Write { path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}
