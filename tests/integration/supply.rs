//! The supply chain: security advisories, the bill of materials, and the pinned versions of tools.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use support::stage::TestResult;
use support::workspace;

/// Writes a database with one advisory about `package`, for versions below `patched`.
fn database(folder: &Path, package: &str, patched: &str) -> TestResult<()> {
    let day = Command::new("date").args(["-u", "+%F"]).output()?;
    let day = String::from_utf8(day.stdout)?;
    let day = day.trim();
    let crates = folder.join("crates").join(package);
    fs::create_dir_all(&crates)?;
    let advisory = format!(
        "```toml\n[advisory]\nid = \"RUSTSEC-2099-0001\"\npackage = \"{package}\"\ndate = \"{day}\"\nurl = \"https://undertone.example/advisory\"\n\n[versions]\npatched = [\">= {patched}\"]\n```\n\n# A hole made for a test\n\nNothing is wrong with it.\n"
    );
    fs::write(crates.join("RUSTSEC-2099-0001.md"), advisory)?;
    Ok(())
}

/// Runs the check on a database, if there is one.
fn check(folder: Option<&Path>) -> TestResult<(Option<i32>, String)> {
    let mut command = Command::new(workspace::root().join(".ci/advisories.sh"));
    command.env_remove("UNDERTONE_ADVISORIES");
    if let Some(folder) = folder {
        command.env("UNDERTONE_ADVISORIES", folder);
    }
    let Output { status, stdout, stderr } = command.output()?;
    Ok((status.code(), String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr)))
}

#[test]
fn advisory_about_a_locked_package_is_reported() -> TestResult<()> {
    let deny = Command::new(workspace::root().join(".ci/deny.sh")).arg("--path").output()?;
    if !deny.status.success() {
        eprintln!("no cargo-deny: advisories are not checked");
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    database(folder.path(), "serde", "99.0.0")?;
    let (status, text) = check(Some(folder.path()))?;
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("RUSTSEC-2099-0001") && text.contains("A hole made for a test"), "{text}");

    // The same advisory, patched in every version: the check passes.
    database(folder.path(), "serde", "0.0.1")?;
    let (status, text) = check(Some(folder.path()))?;
    assert_eq!(status, Some(0), "{text}");
    Ok(())
}

#[test]
fn missing_advisory_database_is_no_success() -> TestResult<()> {
    let (status, text) = check(None)?;
    assert_eq!(status, Some(2), "{text}");
    assert!(text.contains("nothing was checked"), "{text}");
    let empty = tempfile::tempdir()?;
    let (status, text) = check(Some(empty.path()))?;
    assert_eq!(status, Some(2), "{text}");
    Ok(())
}

/// Returns the bill of materials of a program.
fn bill(program: &str) -> TestResult<Value> {
    let mut command = Command::new(workspace::root().join(".ci/sbom.py"));
    let output = command.args([program, "9.8.7"]).env("SOURCE_DATE_EPOCH", "1700000000").output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

#[test]
fn bill_of_materials_names_every_crate_with_digest_and_licence() -> TestResult<()> {
    let lock = fs::read_to_string(workspace::root().join("Cargo.lock"))?;
    for (program, crates) in [
        ("undertone-server", ["sea-orm", "tonic", "wasm-bindgen"]),
        ("undertone-worker", ["burn", "rusqlite", "tonic"]),
    ] {
        let bill = bill(program)?;
        assert_eq!((text(&bill, "bomFormat"), text(&bill, "specVersion")), ("CycloneDX", "1.6"));
        assert!(text(&bill, "serialNumber").starts_with("urn:uuid:"));
        let root = &bill["metadata"]["component"];
        assert_eq!((text(root, "name"), text(root, "version")), (program, "9.8.7"));
        assert_eq!(text(&bill["metadata"], "timestamp"), "2023-11-14T22:13:20Z");
        let components = bill["components"].as_array().ok_or("components")?;
        for component in components {
            let name = text(component, "name");
            assert!(component["licenses"][0]["expression"].is_string(), "{name} has no licence");
            if name.starts_with("undertone-") {
                continue;
            }
            assert_eq!(text(component, "purl"), format!("pkg:cargo/{name}@{}", text(component, "version")));
            let digest = text(&component["hashes"][0], "content");
            assert!(digest.len() == 64 && lock.contains(digest), "{name} has no digest of the lock file");
        }
        for name in crates {
            assert!(components.iter().any(|component| text(component, "name") == name), "{program}: {name}");
        }
        let mut references: BTreeSet<&str> = components.iter().map(|component| text(component, "bom-ref")).collect();
        assert_eq!(references.len(), components.len(), "each reference is one crate");
        references.insert(text(root, "bom-ref"));
        let dependencies = bill["dependencies"].as_array().ok_or("dependencies")?;
        assert_eq!(dependencies.len(), references.len());
        for dependency in dependencies {
            let below = dependency["dependsOn"].as_array().ok_or("dependsOn")?;
            let names = below.iter().filter_map(Value::as_str).chain([text(dependency, "ref")]);
            assert!(names.into_iter().all(|reference| references.contains(reference)), "{dependency}");
        }
    }
    Ok(())
}

#[test]
fn package_of_the_same_program_has_the_same_bytes() -> TestResult<()> {
    if !["dpkg-deb", "dpkg-shlibdeps"].into_iter().all(|tool| Command::new(tool).arg("--version").output().is_ok()) {
        eprintln!("not on Debian: packages are not compared");
        return Ok(());
    }
    let program = workspace::program("undertone-worker")?;
    let binaries = program.parent().ok_or("the program lies in a folder")?;
    let mut packages = Vec::new();
    for umask in ["022", "077"] {
        let out = tempfile::tempdir()?;
        let script = workspace::root().join(".ci/package.sh");
        let output = Command::new("sh")
            .arg("-c")
            .arg(format!("umask {umask}; exec \"$0\" \"$@\""))
            .arg(script)
            .args(["--compression", "none", "--version", "0.1.0"])
            .arg("--out")
            .arg(out.path())
            .arg("--binaries")
            .arg(binaries)
            .arg("worker")
            .env("TMPDIR", out.path())
            .env("SOURCE_DATE_EPOCH", "1700000000")
            .output()?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let path = String::from_utf8(output.stdout)?;
        let path = path.trim();
        let listed = Command::new("dpkg-deb").args(["--contents", path]).output()?;
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        assert!(listed.contains("./usr/share/doc/undertone-worker/sbom.cdx.json"), "{listed}");
        packages.push(fs::read(path)?);
    }
    assert!(packages[0] == packages[1], "the packages differ");
    Ok(())
}

/// The scripts that download tools, each with its pinned versions.
const FETCHED: [(&str, &[&str]); 8] = [
    ("aligner.sh", &["pocketsphinx.txt"]),
    ("axe.sh", &["axe/package-lock.json"]),
    ("bundle.sh", &["binaryen/package-lock.json"]),
    ("client.sh", &["client.txt"]),
    ("oidc.sh", &["oidc/package-lock.json"]),
    ("peer.sh", &["accounting.txt", "counting.txt", "rounds.txt", "training.txt"]),
    ("python.sh", &["python.txt"]),
    ("s3.sh", &["swift.txt"]),
];

#[test]
fn every_package_of_a_tool_is_pinned_by_its_digest() -> TestResult<()> {
    let folder = workspace::root().join(".ci");
    for (script, pins) in FETCHED {
        let source = fs::read_to_string(folder.join(script))?;
        assert!(source.contains("pinned_"), "{script} fetches without pins");
        for pin in pins {
            let text = fs::read_to_string(folder.join("pins").join(pin))?;
            if pin.rsplit('.').next() == Some("txt") {
                check_requirements(pin, &text);
            } else {
                check_lock(pin, &text)?;
            }
        }
    }
    // No other script downloads by itself.
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "sh") || path.ends_with("common.sh") {
            continue;
        }
        let source = fs::read_to_string(&path)?;
        for command in ["pip install", "pip\" install", "npm install", "npm pack", "npm ci"] {
            assert!(!source.contains(command), "{}: {command} without pins", path.display());
        }
    }
    Ok(())
}

/// Checks that every requirement names one version and is followed by a digest.
fn check_requirements(name: &str, text: &str) {
    let mut count = 0;
    let mut lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')).peekable();
    while let Some(line) = lines.next() {
        if line.starts_with(' ') {
            continue;
        }
        assert!(line.contains("=="), "{name}: {line}");
        let next = lines.peek().copied().unwrap_or_default();
        assert!(next.trim().starts_with("--hash=sha256:"), "{name}: {line}");
        count += 1;
    }
    assert!(count > 0, "{name} is empty");
}

/// Checks that every package of an npm lock file has the digest of its archive.
fn check_lock(name: &str, text: &str) -> TestResult<()> {
    let lock: Value = serde_json::from_str(text)?;
    let packages = lock["packages"].as_object().ok_or("packages")?;
    let fetched = packages.iter().filter(|(path, _)| !path.is_empty());
    for (path, package) in fetched.clone() {
        assert!(package["integrity"].as_str().is_some_and(|digest| digest.starts_with("sha512-")), "{name}: {path}");
    }
    assert!(fetched.count() > 0, "{name} is empty");
    Ok(())
}
