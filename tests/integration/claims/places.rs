//! The texts in which Undertone makes claims to people: README, book, pages, certificates, the policy template and `--help`.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use proc_macro2::{TokenStream, TokenTree};
use support::workspace;

use super::sentences::{comment_claims, fewest_words, help_claims, markdown_claims, text_claims};

/// The pages of the book.
const BOOK: &str = "docs/src";

/// Parts of the book that make no claims to users: the list of claims itself, and the chapter for developers.
const NO_CLAIMS: [&str; 2] = [super::LIST, "docs/src/development/"];

/// Source folders whose string literals the dashboard shows.
const PAGES: &str = "app/src";

/// The policy of a new site.
const TEMPLATE: &str = "worker/site/src/policy/template.toml";

/// Programs whose `--help` is read, with every subcommand.
const PROGRAMS: [&str; 3] = ["undertone-worker", "undertone-server", "undertone"];

/// Returns every claim with the first place that makes it.
pub(super) fn all() -> BTreeMap<String, String> {
    let root = workspace::root();
    let mut claims = BTreeMap::new();
    let mut add = |place: &str, sentences: Vec<String>| {
        for sentence in sentences {
            claims.entry(sentence).or_insert_with(|| place.to_owned());
        }
    };
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    add("README.md", markdown_claims(&read("README.md")));
    for name in book_pages() {
        add(&name, markdown_claims(&read(&name)));
    }
    add(TEMPLATE, comment_claims(&read(TEMPLATE)));
    for (name, text) in literals(&root, &root.join(PAGES)) {
        add(&name, text_claims(&text).into_iter().filter(|sentence| fewest_words(sentence)).collect());
    }
    for program in PROGRAMS {
        let path = workspace::program(program).unwrap_or_else(|error| panic!("{error}"));
        let mut waiting: Vec<Vec<String>> = vec![Vec::new()];
        while let Some(arguments) = waiting.pop() {
            let place = format!("{program} {} --help", arguments.join(" "));
            let text = help(&path, &arguments);
            add(&place, help_claims(&text));
            waiting.extend(subcommands(&text).into_iter().map(|name| [arguments.clone(), vec![name]].concat()));
        }
    }
    claims
}

/// Returns the paths of the pages of the book that make claims, in order.
fn book_pages() -> Vec<String> {
    let mut names = workspace::files(BOOK, "md");
    names.retain(|name| !NO_CLAIMS.iter().any(|prefix| name.starts_with(prefix)));
    assert!(names.len() > 30, "only {} pages of the book make claims: the test is blind", names.len());
    names
}

/// Returns every string literal of the dashboard with its file, without its tests.
fn literals(root: &Path, folder: &Path) -> Vec<(String, String)> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of the workspace") {
        let path = entry.expect("a readable folder").path();
        let name = path.strip_prefix(root).expect("a file below the root").to_string_lossy().into_owned();
        if name.contains("test") {
            continue;
        }
        if path.is_dir() {
            texts.extend(literals(root, &path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&path).expect("a text file");
            let tokens = source.parse::<TokenStream>().unwrap_or_else(|error| panic!("{name}: {error}"));
            texts.extend(strings(tokens).into_iter().map(|text| (name.clone(), text)));
        }
    }
    texts
}

/// Returns the string literals of a token stream, without those of attributes (doc comments) and of test modules.
fn strings(tokens: TokenStream) -> Vec<String> {
    let mut texts = Vec::new();
    let (mut is_attribute, mut is_test) = (false, false);
    for token in tokens {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '#' => is_attribute = true,
            // `#![...]`.
            TokenTree::Punct(punct) if punct.as_char() == '!' && is_attribute => {}
            TokenTree::Group(group) if is_attribute => {
                is_attribute = false;
                let attribute = group.to_string().replace(' ', "");
                is_test |= attribute == "[cfg(test)]" || attribute.starts_with("[cfg(all(test,");
            }
            // The body of an item under `#[cfg(test)]`.
            TokenTree::Group(group) if is_test && group.delimiter() == proc_macro2::Delimiter::Brace => {
                let _ = group;
                is_test = false;
            }
            TokenTree::Punct(punct) if is_test && punct.as_char() == ';' => is_test = false,
            TokenTree::Group(group) => texts.extend(strings(group.stream())),
            TokenTree::Literal(literal) if !is_test => {
                texts.extend(syn::parse_str::<syn::LitStr>(&literal.to_string()).ok().map(|text| text.value()));
            }
            _ => is_attribute = false,
        }
    }
    texts
}

/// Returns the output of `program ARGUMENTS --help`.
pub(crate) fn help(program: &Path, arguments: &[String]) -> String {
    let output = Command::new(program).args(arguments).arg("--help").output().expect("the program starts");
    assert!(output.status.success(), "{} {}: {output:?}", program.display(), arguments.join(" "));
    String::from_utf8(output.stdout).expect("help is text")
}

/// Returns the names under `Commands:`, without `help`.
pub(crate) fn subcommands(help: &str) -> Vec<String> {
    let section =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.trim().is_empty());
    let names = section.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn literals_of_tests_and_comments_are_no_claims() {
    let source = r##"
        //! never
        #[doc = "ever"]
        fn page() -> &'static str { format!("It \"never\" {x}", "all"); r#"only"# }
        #[cfg(test)]
        mod tests { const A: &str = "nobody"; }
        const B: &str = "after";
    "##;
    assert_eq!(strings(source.parse().expect("it is Rust")), ["It \"never\" {x}", "all", "only", "after"]);
}
