//! Checks that every operation of a member calls the policy before it changes anything, by reading the sources of the
//! service layer, its rules and its views. An operation calls the policy itself, or calls a function with its actor; that
//! function is checked in the same way. If a name may refer to several functions, all of them must call the policy.

use std::collections::BTreeSet;

/// The calls that change something.
const EFFECTS: [&str; 8] =
    [".insert(", ".update(", ".exec(", "exec_without", "delete_by_id(", "delete_many(", "record(", "note("];

/// A function of the service layer with the caller as an argument.
struct ServiceFunction {
    file: String,
    /// The first part of its path: `job` for `job.rs` and for all files in `job/`.
    room: String,
    name: String,
    /// Whether the interfaces may call it.
    operation: bool,
    body: String,
}

impl ServiceFunction {
    fn key(&self) -> (String, String) {
        (self.file.clone(), self.name.clone())
    }
}

fn in_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn functions(sources: &[(String, String)]) -> Vec<ServiceFunction> {
    let mut list = Vec::new();
    for (file, text) in sources {
        let path = super::LAYERS.iter().find_map(|layer| file.rsplit_once(&format!("src/{layer}/")));
        let path = path.map_or(file.as_str(), |(_, path)| path);
        let room = path.split('/').next().unwrap_or_default().trim_end_matches(".rs");
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let mut declaration = line.trim_start();
            let end = format!("{}}}", &line[..line.len() - declaration.len()]);
            for word in ["pub(crate) ", "pub(super) ", "pub ", "async "] {
                declaration = declaration.strip_prefix(word).unwrap_or(declaration);
            }
            let Some(declaration) = declaration.strip_prefix("fn ") else { continue };
            let whole: Vec<&str> = lines[at..].iter().copied().take_while(|line| *line != end).collect();
            let whole = whole.join("\n");
            let Some((_, body)) = whole.split_once('{').filter(|(head, _)| head.contains("actor: &Actor")) else {
                continue;
            };
            list.push(ServiceFunction {
                file: file.clone(),
                room: room.to_owned(),
                name: declaration.chars().take_while(|letter| in_word(*letter)).collect(),
                operation: line.starts_with("pub async fn "),
                body: body.to_owned(),
            });
        }
    }
    list
}

/// Returns the text up to the parenthesis that closes the one before `text`.
fn arguments(text: &str) -> &str {
    let mut depth = 1_u32;
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[..at];
        }
    }
    text
}

/// Returns whether every function to which `path` may refer, as written in `room`, is in `asking`.
fn leads_to_asking(path: &str, room: &str, all: &[ServiceFunction], asking: &BTreeSet<(String, String)>) -> bool {
    let (module, name) = path.rsplit_once("::").unwrap_or(("", path));
    let module = module.rsplit("::").next().unwrap_or_default();
    let there = if all.iter().any(|function| function.room == module) { module } else { room };
    let candidates: Vec<&ServiceFunction> = all.iter().filter(|function| function.name == name).collect();
    let own: Vec<&ServiceFunction> = candidates.iter().copied().filter(|function| function.room == there).collect();
    let targets = if own.is_empty() { candidates } else { own };
    !targets.is_empty() && targets.iter().all(|function| asking.contains(&function.key()))
}

/// Returns whether the function calls the policy before it changes anything.
fn asks(function: &ServiceFunction, all: &[ServiceFunction], asking: &BTreeSet<(String, String)>) -> bool {
    let body = &function.body;
    let before = &body[..EFFECTS.iter().filter_map(|effect| body.find(effect)).min().unwrap_or(body.len())];
    before.contains("policy::check(")
        || before.match_indices('(').any(|(at, _)| {
            let path = &before[before[..at].trim_end_matches(|letter| in_word(letter) || letter == ':').len()..at];
            arguments(&body[at + 1..]).split(|letter| !in_word(letter)).any(|word| word == "actor")
                && leads_to_asking(path, &function.room, all, asking)
        })
}

/// Returns the number of operations, and the names of those that do not call the policy.
fn find_unchecked(sources: &[(String, String)]) -> (usize, Vec<String>) {
    let all = functions(sources);
    let mut asking = BTreeSet::new();
    loop {
        let more: BTreeSet<_> =
            all.iter().filter(|function| asks(function, &all, &asking)).map(ServiceFunction::key).collect();
        if more == asking {
            break;
        }
        asking = more;
    }
    let operations: Vec<&ServiceFunction> = all.iter().filter(|function| function.operation).collect();
    let silent = operations.iter().filter(|function| !asking.contains(&function.key()));
    (operations.len(), silent.map(|function| format!("{} in {}", function.name, function.file)).collect())
}

#[test]
fn every_operation_of_a_member_asks_the_policy() {
    let sources: Vec<_> = super::service().into_iter().filter(|(file, _)| !file.contains("/tests/")).collect();
    let (operations, silent) = find_unchecked(&sources);
    assert_eq!(silent, Vec::<String>::new(), "these do not ask the policy before they change anything");
    assert!(operations > 100, "only {operations} operations were found: has the layout changed?");
}

#[test]
fn an_operation_that_asks_late_or_not_at_all_is_found() {
    let operation =
        |name: &str, body: &str| format!("pub async fn {name}(ctx: &Ctx, actor: &Actor) {{\n    {body}\n}}\n");
    let one = [
        operation("asks", "policy::check(actor, operation, place)?;\n    row.insert(tx).await"),
        operation("through", "asks(ctx, actor).await"),
        operation("late", "row.insert(tx).await?;\n    policy::check(actor, operation, place)"),
        operation("by_late", "late(ctx, actor).await"),
        operation("never", "let id = actor.id();\n    asks(ctx, id).await"),
        operation("shared", "policy::check(actor, operation, place)"),
    ];
    let two = [
        operation("shared", "Ok(())"),
        operation("by_shared", "shared(ctx, actor).await"),
        operation("by_the_other", "one::shared(ctx, actor).await"),
    ];
    let sources = [("src/service/one.rs", one.concat()), ("src/service/two.rs", two.concat())];
    let sources = sources.map(|(file, text)| (file.to_owned(), text));
    let (operations, silent) = find_unchecked(&sources);
    let silent: Vec<&str> = silent.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!((operations, silent), (9, vec!["late", "by_late", "never", "shared", "by_shared"]));
}
