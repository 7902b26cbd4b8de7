#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use clap::Parser;

use super::*;
use crate::speech::dataset::Dataset;

#[derive(Debug, Parser)]
struct Program {
    #[command(flatten)]
    data: DataCommand,
}

/// Runs `data <args>` at the site in `dir`, with `{}` in an argument standing for the folder.
fn data(dir: &std::path::Path, args: &str) -> Result<String, String> {
    let place = dir.display().to_string();
    let args: Vec<String> = args.split_whitespace().map(|arg| arg.replace("{}", &place)).collect();
    let program = Program::try_parse_from(std::iter::once("data".to_owned()).chain(args)).map_err(|e| e.to_string())?;
    let mut out = Vec::new();
    let folder = Folder::new(dir.join("site"));
    program.data.run(&folder, OffsetDateTime::UNIX_EPOCH, &mut out).map_err(|error| error.to_string())?;
    Ok(String::from_utf8(out).unwrap())
}

#[test]
fn from_nothing_to_a_list_of_datasets() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    assert!(data(dir, "list").unwrap().contains("No dataset"));
    let made =
        data(dir, "synthesize --output {}/corpus --subset ward=2 --subset test=1 --outlier odd=1 --utterances 2")
            .unwrap();
    assert!(made.contains("8 utterances, 4 speakers"), "{made}");
    let prepare = "prepare --input {}/corpus --alignments {}/corpus/alignments/phone-states.jsonl";
    let said = data(dir, &format!("{prepare} --classes 126 --name ward --subset ward")).unwrap();
    assert!(said.contains("8 found, 4 chosen, 4 kept") && said.contains("site/data/ward"), "{said}");
    data(dir, &format!("{prepare} --classes 126 --name odd --subset odd --subset test --hold-out 1")).unwrap();
    let dataset = Dataset::open(&dir.join("site/data/ward")).unwrap();
    assert_eq!((dataset.meta().classes, dataset.meta().created.as_str()), (126, "1970-01-01T00:00:00Z"));
    let listed = data(dir, "list --check").unwrap();
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 3, "{listed}");
    assert!(lines[1].starts_with("odd ") && lines[2].contains(&dataset.meta().digest[..12]), "{listed}");
    std::fs::write(dir.join("site/data/ward/data.bin"), "x").unwrap();
    let damaged = data(dir, "list --check").unwrap();
    assert!(damaged.contains("is not an Undertone dataset"), "{damaged}");
    assert!(data(dir, &format!("{prepare} --name ward --subset ward")).unwrap_err().contains("--replace"));
    data(dir, &format!("{prepare} --classes 126 --name ward --subset ward --replace")).unwrap();
    assert_eq!(Dataset::open(&dir.join("site/data/ward")).unwrap().meta().digest, dataset.meta().digest);
}

#[test]
fn arguments_that_contradict_or_mean_nothing_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |args: &str| {
        data(dir.path(), &format!("prepare --input {{}} --alignments {{}}/a --name n {args}")).unwrap_err()
    };
    assert!(refused("--first 1 --skip 1").contains("--skip"));
    assert!(refused("--classes 5 --least-frames 5").contains("--least-frames"));
    assert!(refused("--speakers a --speaker-range 0..2").contains("--speaker-range"));
    assert!(refused("--speaker-range 2..2").contains("FROM..TO"));
    assert!(refused("--speakers ,").contains("names nobody"));
    assert!(refused("--speakers-from {}/nobody").contains("--speakers-from"));
    assert!(refused("--class-map {}/none").contains("--class-map"));
    assert!(refused("--longest 0").contains("--longest"));
    assert!(refused("--hold-out 2").contains("--hold-out"));
    assert!(refused("--output {}/o --visibility public").contains("--visibility"));
    assert!(refused("").contains("--alignments"));
    assert!(data(dir.path(), "prepare --input x --alignments y --name ../up").unwrap_err().contains("../up"));
    assert!(data(dir.path(), "synthesize --output {}/c --subset ward").unwrap_err().contains("NAME=SPEAKERS"));
    assert!(data(dir.path(), "synthesize --output {}/c --speakers 3 --subset a=1").unwrap_err().contains("--subset"));
}
