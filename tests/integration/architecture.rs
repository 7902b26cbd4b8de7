//! Checks of the workspace's architecture: the permitted dependencies of each crate, the crates without a runtime, and
//! the modules that may name a library. `deny.toml` restricts whole crates; these tests restrict files.

mod cycles;
pub(super) mod sources;

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use serde_json::Value;
use sources::SourceFile;

/// The workspace's crates with the workspace crates that each may name. A crate that is missing here fails the test.
const MAY_NAME: [(&str, &[&str]); 29] = [
    ("undertone-privacy", &[]),
    ("undertone-secure-aggregation", &[]),
    ("undertone-bits", &["undertone-privacy"]),
    // Mutated documents, for the tests of crates with fuzz targets.
    ("undertone-fuzz", &[]),
    ("undertone-api", &["undertone-privacy", "undertone-fuzz"]),
    ("undertone-proto", &["undertone-secure-aggregation", "undertone-api", "undertone-fuzz"]),
    ("undertone-migrations", &[]),
    ("undertone-onnx", &["undertone-api"]),
    ("undertone-certificate", &["undertone-api", "undertone-privacy"]),
    // A client as any other: it knows no more of the server than REST.
    ("undertone-cli", &["undertone-certificate", "undertone-api"]),
    // `undertone-server-core` only on the server (feature `ssr`): see `only_feature_ssr_of_the_dashboard_names_the_server`.
    ("undertone-app", &["undertone-server-core", "undertone-certificate", "undertone-api", "undertone-privacy"]),
    ("undertone-bundle", &[]),
    // Founds a consortium through the server's rules.
    ("undertone-demo", &["undertone-server-core", "undertone-api", "undertone-privacy", "undertone-server"]),
    ("undertone-failpoints", &[]),
    ("undertone-configuration", &[]),
    (
        "undertone-worker-site",
        &["undertone-failpoints", "undertone-secure-aggregation", "undertone-api", "undertone-privacy"],
    ),
    ("undertone-worker-training", &["undertone-worker-site", "undertone-api", "undertone-privacy"]),
    ("undertone-worker-tables", &["undertone-worker-site", "undertone-api"]),
    ("undertone-worker-encoder", &["undertone-worker-site", "undertone-worker-speech"]),
    ("undertone-worker-speech", &["undertone-worker-site", "undertone-api", "undertone-privacy", "undertone-fuzz"]),
    (
        "undertone-worker-transcription",
        &[
            "undertone-worker-site",
            "undertone-worker-training",
            "undertone-worker-speech",
            "undertone-api",
            "undertone-privacy",
            "undertone-fuzz",
        ],
    ),
    (
        "undertone-worker-queries",
        &[
            "undertone-worker-site",
            "undertone-worker-training",
            // A pool of questions is charged in its wire form.
            "undertone-proto",
            "undertone-api",
            "undertone-privacy",
            "undertone-fuzz",
        ],
    ),
    (
        "undertone-worker",
        &[
            "undertone-worker-site",
            "undertone-worker-training",
            "undertone-worker-speech",
            "undertone-worker-transcription",
            "undertone-worker-queries",
            "undertone-worker-tables",
            "undertone-worker-encoder",
            "undertone-failpoints",
            "undertone-configuration",
            "undertone-certificate",
            "undertone-onnx",
            "undertone-proto",
            "undertone-secure-aggregation",
            "undertone-api",
            "undertone-privacy",
            "undertone-fuzz",
        ],
    ),
    (
        "undertone-server-base",
        &[
            "undertone-failpoints",
            "undertone-configuration",
            "undertone-proto",
            "undertone-migrations",
            "undertone-api",
            "undertone-privacy",
            "undertone-fuzz",
        ],
    ),
    ("undertone-server-entity", &["undertone-server-base", "undertone-api", "undertone-privacy"]),
    (
        "undertone-server-core",
        &[
            "undertone-server-entity",
            "undertone-server-base",
            "undertone-certificate",
            "undertone-onnx",
            "undertone-proto",
            "undertone-secure-aggregation",
            "undertone-api",
            "undertone-privacy",
        ],
    ),
    (
        "undertone-server",
        &[
            "undertone-server-core",
            "undertone-app",
            "undertone-certificate",
            "undertone-failpoints",
            "undertone-proto",
            "undertone-api",
            "undertone-privacy",
            "undertone-fuzz",
        ],
    ),
    (
        "undertone-tests",
        &[
            "undertone-bits",
            "undertone-failpoints",
            "undertone-proto",
            "undertone-certificate",
            "undertone-api",
            "undertone-privacy",
            "undertone-worker",
            "undertone-server-core",
            "undertone-server",
        ],
    ),
    (
        "undertone-benches",
        &[
            "undertone-bits",
            // The programs and consortia that the tests start.
            "undertone-tests",
            "undertone-secure-aggregation",
            "undertone-proto",
            "undertone-api",
            "undertone-privacy",
            "undertone-worker",
            "undertone-server-core",
            "undertone-server",
        ],
    ),
];

/// Crates with mathematics, protocol and contract only: no dependency on a runtime, socket, database, tensor or page.
const PURE: [&str; 4] = ["undertone-privacy", "undertone-api", "undertone-certificate", "undertone-secure-aggregation"];
const IMPURE: [&str; 11] =
    ["tokio", "mio", "socket2", "hyper", "axum", "tonic", "reqwest", "sea-orm", "rusqlite", "burn", "leptos"];

/// Features of the workspace that are for tests.
const FOR_TESTS: [&str; 2] = ["enabled", "testing"];

/// The files that may name a library, by the beginning of their path.
const ROOMS: [(&str, &[&str]); 14] = [
    // Besides the tables: the mapping of errors, the start that reports them, and the tests' databases.
    (
        "sea_orm",
        &[
            "server/entity/",
            "server/core/src/rule",
            "server/core/src/service",
            "server/core/src/view",
            "server/base/src/db.rs",
            "server/base/src/db/",
            "migrations/",
            "server/base/src/error.rs",
            "server/base/src/error/outage.rs",
            "server/base/src/testing.rs",
            "server/core/src/open.rs",
            "server/core/src/testing",
            "server/core/src/tests/column.rs",
            "server/src/backup.rs",
            "server/src/terminal/verify.rs",
            // The auditors read the disk independently of the product's code.
            "tests/support/simulation/audit",
        ],
    ),
    ("sea_orm_migration", &["migrations/"]),
    // The benchmark compares burn's own differentiation with the product's; the adversary of transcription trains with
    // burn.
    (
        "burn",
        &[
            "worker/training/src",
            "worker/transcription/src/attack",
            "worker/queries/src/classifier",
            "benches/src/dp_step",
        ],
    ),
    ("datafusion", &["worker/queries/src/count"]),
    // The differential test of preparation writes logs.
    ("arrow", &["worker/queries/src", "worker/tables/src", "worker/src/cli/data/tests/differential"]),
    ("parquet", &["worker/queries/src", "worker/tables/src", "worker/src/cli/data/tests/differential"]),
    ("ballista", &["worker/queries/src/count"]),
    ("rten", &["worker/encoder/src"]),
    ("rten_onnx", &["worker/encoder/src"]),
    ("image", &["worker/encoder/src"]),
    ("leptos", &["app/", "server/src/dashboard.rs"]),
    ("leptos_axum", &["app/", "server/src/dashboard.rs"]),
    // A collector of traces, in a test.
    ("tonic", &["proto/", "server/src/grpc", "server/src/telemetry", "worker/src/gateway"]),
    // An attacker changes the content of the server's database.
    ("rusqlite", &["worker/site/src", "tests/support/simulation", "tests/support/attack"]),
];

/// The highest number of lines: a longer file has more than one subject.
const LONGEST: usize = 500;

#[test]
fn a_crate_names_only_what_the_plan_allows() {
    let metadata = metadata(&["--no-deps"]);
    let plan = BTreeMap::from(MAY_NAME);
    let mut broken = Vec::new();
    for package in items(&metadata["packages"]) {
        let name = text(&package["name"]);
        let Some(allowed) = plan.get(name) else {
            broken.push(format!("{name} is not in the plan"));
            continue;
        };
        let dependencies = items(&package["dependencies"]).iter().map(|dependency| text(&dependency["name"]));
        let ours = dependencies.filter(|dependency| dependency.starts_with("undertone-"));
        broken.extend(
            ours.filter(|dependency| !allowed.contains(dependency))
                .map(|dependency| format!("{name} names {dependency}")),
        );
    }
    assert_eq!(items(&metadata["packages"]).len(), plan.len(), "a crate of the plan is missing");
    assert_eq!(broken, [""; 0]);
}

/// Checks that the part of the dashboard that is compiled for browsers does not contain the server's rules.
#[test]
fn only_feature_ssr_of_the_dashboard_names_the_server() {
    let metadata = metadata(&["--no-deps"]);
    let packages = items(&metadata["packages"]);
    let dashboard = packages.iter().find(|package| package["name"] == "undertone-app").expect("a crate of the plan");
    let is_compiled =
        |dependency: &&Value| dependency["name"] == "undertone-server-core" && dependency["kind"].is_null();
    let compiled: Vec<&Value> = items(&dashboard["dependencies"]).iter().filter(is_compiled).collect();
    assert!(!compiled.is_empty() && compiled.iter().all(|dependency| dependency["optional"] == true));
    let features = dashboard["features"].as_object().expect("a table").iter();
    let is_enabled =
        |enables: &Value| items(enables).iter().any(|enabled| text(enabled).contains("undertone-server-core"));
    let enabling: Vec<&str> =
        features.filter(|(_, enables)| is_enabled(enables)).map(|(feature, _)| feature.as_str()).collect();
    assert_eq!(enabling, ["ssr"]);
}

/// Checks that no package has failpoints, or constructors of proofs and permissions for tests.
#[test]
fn features_for_tests_are_of_dev_dependencies() {
    let metadata = metadata(&["--no-deps"]);
    let (mut enabled, mut broken) = (0, Vec::new());
    for package in items(&metadata["packages"]) {
        let name = text(&package["name"]);
        for dependency in items(&package["dependencies"]) {
            let features = items(&dependency["features"]).iter().map(text);
            let for_tests = features.filter(|feature| FOR_TESTS.contains(feature)).count();
            enabled += for_tests;
            if for_tests > 0 && dependency["kind"] != "dev" {
                broken.push(format!("{name} enables one of {}", text(&dependency["name"])));
            }
        }
        for (feature, enables) in package["features"].as_object().expect("a table") {
            let passed_on = items(enables).iter().map(text).filter_map(|enabled| enabled.split_once('/'));
            let passed_on = passed_on.filter(|(_, enabled)| FOR_TESTS.contains(enabled)).count();
            if passed_on > 0 && !FOR_TESTS.contains(&feature.as_str()) {
                broken.push(format!("{name} enables one by `{feature}`"));
            }
        }
    }
    assert!(enabled > 5, "only {enabled} are enabled: the test is blind");
    assert_eq!(broken, [""; 0]);
}

/// Checks that no package has the code of measurements.
#[test]
fn bench_feature_is_enabled_by_the_benches_only() {
    let metadata = metadata(&["--no-deps"]);
    let enables = |package: &Value| {
        let dependencies = items(&package["dependencies"]).iter();
        let ours = dependencies.filter(|dependency| text(&dependency["name"]).starts_with("undertone-"));
        ours.flat_map(|dependency| items(&dependency["features"])).any(|feature| feature == "bench")
    };
    let packages = items(&metadata["packages"]).iter().filter(|package| enables(package));
    assert_eq!(packages.map(|package| text(&package["name"])).collect::<Vec<_>>(), ["undertone-benches"]);
}

#[test]
fn mathematics_and_contract_reach_no_runtime() {
    let metadata = metadata(&["--all-features"]);
    let names: BTreeMap<&str, &str> =
        items(&metadata["packages"]).iter().map(|package| (text(&package["id"]), text(&package["name"]))).collect();
    let nodes: BTreeMap<&str, &Value> =
        items(&metadata["resolve"]["nodes"]).iter().map(|node| (text(&node["id"]), node)).collect();
    for pure in PURE {
        let root = names.iter().find(|(_, name)| **name == pure).map(|(id, _)| *id).expect("a crate of the plan");
        let reached: BTreeSet<&str> = reach(root, &nodes).into_iter().map(|id| names[id]).collect();
        assert!(reached.contains("serde"), "{pure} reaches nothing at all: the test is blind");
        let broken: Vec<&str> = IMPURE.into_iter().filter(|impure| reached.contains(impure)).collect();
        assert_eq!(broken, [""; 0], "below {pure}");
    }
}

#[test]
fn a_library_is_named_only_in_its_room() {
    let sources = sources::all();
    let mut broken = Vec::new();
    for (library, rooms) in ROOMS {
        let outside = sources.iter().filter(|source| !rooms.iter().any(|room| source.path.starts_with(room)));
        let mentions = outside.filter_map(|source| source.names(library).map(|line| (source, line)));
        broken.extend(mentions.map(|(source, line)| format!("{}:{line} names {library}", source.path)));
    }
    assert_eq!(broken, [""; 0]);
}

/// Checks the use of [`SelectionPermit`](undertone_worker::site::clearance::SelectionPermit), which is public between
/// crates, so that the compiler cannot.
#[test]
fn selection_permit_becomes_a_ticket_in_one_place_only() {
    let sources = sources::all();
    let turns = sources.iter().filter(|source| source.holds(".into_ticket()"));
    let turns: Vec<&str> = turns.map(|source| source.path.as_str()).collect();
    assert_eq!(turns, ["worker/site/src/clearance/permit.rs", "worker/training/src/private_selection.rs"]);
}

#[test]
fn a_file_holds_one_subject() {
    let sources = sources::all();
    let too_long = sources.iter().filter(|source| source.lines() > LONGEST);
    let too_long: Vec<String> = too_long.map(|source| format!("{}: {} lines", source.path, source.lines())).collect();
    assert_eq!(too_long, [""; 0]);
    let unnamed: Vec<&SourceFile> = sources.iter().filter(|source| source.path.ends_with("/mod.rs")).collect();
    assert!(unnamed.is_empty(), "a module is `name.rs` beside `name/`, never `mod.rs`: {unnamed:?}");
}

/// The page of the book that has a row for each job kind.
const KINDS_PAGE: &str = "docs/src/development/adding-a-kind.md";

#[test]
fn paths_in_the_documents_exist() {
    let root = support::workspace::root();
    let roots = ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"];
    let book = support::workspace::files("docs/src", "md");
    let folders = [
        "api/",
        "app/src/",
        "benches/",
        "certificate/",
        "cli/",
        "configuration/",
        "docs/",
        "migrations/",
        "packaging/",
        "privacy/",
        "proto/",
        "server/",
        "tests/",
        "tools/",
        "worker/",
        ".ci/",
    ];
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte));
    let (mut checked, mut missing) = (0, Vec::new());
    for document in roots.into_iter().map(str::to_owned).chain(book) {
        let content = std::fs::read_to_string(root.join(&document)).expect("it can be read");
        let code = content.split('`').filter(|text| folders.iter().any(|folder| text.starts_with(folder)));
        for path in code.filter(|text| plain(text)) {
            checked += 1;
            if !root.join(path).exists() {
                missing.push(format!("{document}: {path}"));
            }
        }
    }
    assert!(checked > 60, "only {checked} paths are named: the test is blind");
    assert_eq!(missing, [""; 0]);
}

#[test]
fn each_kind_has_a_row_in_the_book() {
    let root = support::workspace::root();
    let page = std::fs::read_to_string(root.join(KINDS_PAGE)).expect("it can be read");
    let mut kinds = 0;
    for entry in std::fs::read_dir(root.join("api/src/job")).expect("it can be read") {
        let path = entry.expect("it can be read").path();
        if path.join("spec.md").exists() {
            let kind = path.file_name().and_then(|name| name.to_str()).expect("a name");
            assert!(page.contains(&format!("\n| `{kind}` | ")), "{kind} has no row in {KINDS_PAGE}");
            kinds += 1;
        }
    }
    assert!(kinds >= 3, "{kinds} kinds");
}

/// Returns all packages compiled into `root`, itself included, without build and test dependencies.
fn reach<'a>(root: &'a str, nodes: &BTreeMap<&str, &'a Value>) -> BTreeSet<&'a str> {
    let (mut reached, mut ahead) = (BTreeSet::new(), vec![root]);
    while let Some(id) = ahead.pop() {
        if !reached.insert(id) {
            continue;
        }
        let compiled = |dependency: &&Value| items(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
        ahead.extend(items(&nodes[id]["deps"]).iter().filter(compiled).map(|dependency| text(&dependency["pkg"])));
    }
    reached
}

fn metadata(arguments: &[&str]) -> Value {
    let cargo = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(arguments)
        .current_dir(support::workspace::root())
        .output()
        .expect("cargo starts");
    assert!(cargo.status.success(), "{}", String::from_utf8_lossy(&cargo.stderr));
    serde_json::from_slice(&cargo.stdout).expect("cargo speaks JSON")
}

fn items(value: &Value) -> &[Value] {
    value.as_array().expect("a list").as_slice()
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}
