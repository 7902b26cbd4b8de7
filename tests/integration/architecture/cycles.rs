//! Cycles of modules. Modules that import each other can only be understood together, so a crate may have pairs and no
//! larger cycles.
//!
//! Imports are read as text: `use` of `crate`, `super` and `self`, and paths that begin with `crate::`. A module's use of its
//! own children by their bare names is no import. Tests and their support are left out.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use super::{items, metadata, text};

/// The largest cycle of a crate.
const LARGEST: usize = 2;
/// The beginnings of folders and files for tests.
const FOR_TESTS: [&str; 5] = ["bench", "fake", "fixture", "fuzz", "testing"];

type ModulePath = Vec<String>;

/// The modules of a crate, each with the modules that it imports.
struct ModuleGraph(BTreeMap<ModulePath, BTreeSet<ModulePath>>);

#[test]
fn modules_of_a_crate_form_no_large_cycle() {
    let metadata = metadata(&["--no-deps"]);
    let root = Path::new(text(&metadata["workspace_root"]));
    let mut modules = 0;
    let mut broken = Vec::new();
    for package in items(&metadata["packages"]) {
        let manifest = Path::new(text(&package["manifest_path"]));
        let folder = manifest.with_file_name("src");
        if !folder.is_dir() {
            continue;
        }
        let folder = folder.strip_prefix(root).expect("a crate of the workspace").to_string_lossy().into_owned();
        let graph = ModuleGraph::read(&folder);
        modules += graph.0.len();
        let name = text(&package["name"]);
        let cycles = graph.cycles().into_iter().filter(|cycle| cycle.len() > LARGEST);
        broken.extend(cycles.map(|cycle| format!("{name}: {} modules: {}", cycle.len(), cycle.join(" "))));
    }
    assert!(modules > 500, "only {modules} modules were read: the test is blind");
    assert!(broken.is_empty(), "move what both sides need into a module below them:\n{}", broken.join("\n"));
}

impl ModuleGraph {
    /// Reads the sources below a folder.
    fn read(folder: &str) -> Self {
        let mut sources: BTreeMap<ModulePath, String> = BTreeMap::new();
        for file in support::workspace::files(folder, "rs").into_iter().filter(|file| !is_for_tests(file)) {
            let content = fs::read_to_string(support::workspace::root().join(&file)).expect("a text file");
            let module = file[folder.len()..].trim_start_matches('/').trim_end_matches(".rs");
            let module = if ["lib", "main"].contains(&module) { "" } else { module };
            let module = module.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
            sources.entry(module).or_default().push_str(&content);
        }
        let imports = sources.iter().map(|(module, content)| {
            let paths = import_paths(content).into_iter().map(|path| absolute_path(module, &path));
            let targets = paths.filter_map(|path| {
                let mut prefixes = (1..=path.len()).rev().map(|length| &path[..length]);
                prefixes.find(|prefix| sources.contains_key(*prefix)).map(<[String]>::to_vec)
            });
            (module.clone(), targets.filter(|target| target != module).collect())
        });
        Self(imports.collect())
    }

    /// Returns the strongly connected components of several modules.
    fn cycles(&self) -> Vec<Vec<String>> {
        let reachable: BTreeMap<_, _> = self.0.keys().map(|module| (module, self.reachable_from(module))).collect();
        let is_mutual =
            |from: &ModulePath, to: &ModulePath| reachable[from].contains(to) && reachable[to].contains(from);
        let components: BTreeSet<Vec<String>> = reachable
            .keys()
            .map(|module| self.0.keys().filter(|other| is_mutual(module, other)).map(|path| path.join("::")).collect())
            .collect();
        components.into_iter().filter(|component| component.len() > 1).collect()
    }

    fn reachable_from(&self, module: &ModulePath) -> BTreeSet<&ModulePath> {
        let mut reachable = BTreeSet::new();
        let mut ahead: Vec<&ModulePath> = self.0[module].iter().collect();
        while let Some(next) = ahead.pop() {
            if reachable.insert(next) {
                ahead.extend(&self.0[next]);
            }
        }
        reachable
    }
}

fn is_for_tests(file: &str) -> bool {
    let mut parts = file.split('/').map(|part| part.trim_end_matches(".rs"));
    parts.any(|part| ["test", "tests"].contains(&part) || FOR_TESTS.iter().any(|beginning| part.starts_with(beginning)))
}

/// Returns the imported paths of a source, without its inline tests and comments.
fn import_paths(content: &str) -> Vec<ModulePath> {
    let mut tests = content.match_indices("#[cfg(test)]").map(|(start, attribute)| {
        let item = content[start + attribute.len()..].trim_start();
        (start, item.strip_prefix("pub(crate) ").unwrap_or(item))
    });
    let end = tests.find(|(_, item)| item.starts_with("mod tests {")).map_or(content.len(), |(start, _)| start);
    let lines = content[..end].lines();
    let code: Vec<&str> = lines.map(|line| line.split_once("//").map_or(line, |(code, _)| code)).collect();
    let mut paths = Vec::new();
    for statement in code.join("\n").split(';') {
        let imports = ["use crate::", "use super::", "use self::"].iter().filter_map(|word| statement.find(word));
        let (body, import) = statement.split_at(imports.min().unwrap_or(statement.len()));
        expand_tree(&[], import.trim_start_matches("use "), &mut paths);
        for (start, _) in body.match_indices("crate::") {
            let is_path = |character: char| character.is_alphanumeric() || character == '_' || character == ':';
            let path = body[start..].split(|character: char| !is_path(character)).next().unwrap_or_default();
            expand_tree(&[], path, &mut paths);
        }
    }
    paths
}

/// Adds the paths of a tree such as `crate::a::{b, c::{d as e, *}}`.
fn expand_tree(prefix: &[String], tree: &str, paths: &mut Vec<ModulePath>) {
    let (head, branches) = tree.split_once('{').map_or((tree, None), |(head, rest)| (head, rest.rsplit_once('}')));
    let head = head.split(" as ").next().unwrap_or_default();
    let parts = head.split("::").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned);
    let path: ModulePath = prefix.iter().cloned().chain(parts).collect();
    let Some((branches, _)) = branches else {
        paths.push(path);
        return;
    };
    let mut depth = 0;
    let is_separator = |character: char| {
        depth += i32::from(character == '{') - i32::from(character == '}');
        character == ',' && depth == 0
    };
    for branch in branches.split(is_separator).filter(|branch| !branch.trim().is_empty()) {
        expand_tree(&path, branch, paths);
    }
}

/// Returns the path from the root of the crate, as `module` writes `path`.
fn absolute_path(module: &[String], path: &[String]) -> ModulePath {
    let mut start = module.to_vec();
    for part in path {
        match part.as_str() {
            "crate" => start.clear(),
            "super" => drop(start.pop()),
            "self" => {}
            name => start.push(name.to_owned()),
        }
    }
    start
}

#[test]
fn imports_are_read_from_nested_trees_and_paths() {
    let source = "pub use crate::a::{b, c::{d as e, *}};\n// use crate::z;\nuse super::f;\nfn g() { crate::h::i() }\n\
        #[cfg(test)]\nmod tests {\n    use super::j;\n}";
    let module = ["m".to_owned(), "n".to_owned()];
    let paths = import_paths(source).iter().map(|path| absolute_path(&module, path).join("::")).collect::<Vec<_>>();
    assert_eq!(paths[..4], ["a::b", "a::c::d", "a::c::*", "m::f"]);
    assert!(paths.contains(&"h::i".to_owned()) && !paths.iter().any(|path| path.ends_with('j')), "{paths:?}");
}

#[test]
fn cycle_of_three_modules_is_found() {
    let path = |name: &str| vec![name.to_owned()];
    let edges = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "d")];
    let mut graph = ModuleGraph(BTreeMap::new());
    for (from, to) in edges {
        graph.0.entry(path(from)).or_default().insert(path(to));
    }
    assert_eq!(graph.cycles(), [["a", "b", "c"]]);
}
