#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod differential;
mod encode;
mod lineage;
mod table;
mod transcripts;

use clap::Parser;

use super::*;
use crate::speech::dataset::Dataset;

#[derive(Debug, Parser)]
struct TestProgram {
    #[command(flatten)]
    data: DataCommand,
}

/// Runs `data <args>` at the site in `dir`; `{}` in an argument stands for the folder.
fn data(dir: &std::path::Path, args: &str) -> Result<String, String> {
    data_at(&dir.join("site"), dir, args)
}

/// Runs `data <args>` at the site in `site`; `{}` in an argument stands for `dir`.
fn data_at(site: &std::path::Path, dir: &std::path::Path, args: &str) -> Result<String, String> {
    let place = dir.display().to_string();
    let args: Vec<String> = args.split_whitespace().map(|arg| arg.replace("{}", &place)).collect();
    let program =
        TestProgram::try_parse_from(std::iter::once("data".to_owned()).chain(args)).map_err(|e| e.to_string())?;
    let mut out = Vec::new();
    let folder = Folder::new(site);
    program.data.run(&folder, OffsetDateTime::UNIX_EPOCH, &mut out).map_err(|error| error.to_string())?;
    Ok(String::from_utf8(out).unwrap())
}

#[test]
fn prepared_datasets_are_listed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    assert!(data(dir, "list").unwrap().contains("No dataset"));
    let synthesis =
        data(dir, "synthesize --output {}/corpus --subset ward=2 --subset test=1 --outlier odd=1 --utterances 2")
            .unwrap();
    assert!(synthesis.contains("8 utterances, 4 speakers"), "{synthesis}");
    let prepare = "prepare --input {}/corpus --alignments {}/corpus/alignments/phone-states.jsonl";
    let report = data(dir, &format!("{prepare} --classes 126 --name ward --subset ward")).unwrap();
    assert!(report.contains("8 found, 4 chosen, 4 kept") && report.contains("site/data/ward"), "{report}");
    data(dir, &format!("{prepare} --classes 126 --name odd --subset odd --subset test --hold-out 1")).unwrap();
    let dataset = Dataset::open(&dir.join("site/data/ward")).unwrap();
    assert_eq!((dataset.meta().classes, dataset.meta().created.as_str()), (126, "1970-01-01T00:00:00Z"));
    let list = data(dir, "list --check").unwrap();
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!(lines.len(), 3, "{list}");
    assert!(lines[1].starts_with("odd   speech ") && lines[2].contains(&dataset.meta().digest[..12]), "{list}");
    std::fs::write(dir.join("site/data/ward/data.bin"), "x").unwrap();
    let list = data(dir, "list --check").unwrap();
    assert!(list.contains("is not an Undertone dataset"), "{list}");
    assert!(data(dir, &format!("{prepare} --name ward --subset ward")).unwrap_err().contains("--replace"));
    data(dir, &format!("{prepare} --classes 126 --name ward --subset ward --replace")).unwrap();
    assert_eq!(Dataset::open(&dir.join("site/data/ward")).unwrap().meta().digest, dataset.meta().digest);
}

#[test]
fn missing_aligner_is_reported_with_its_installation() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    data(dir, "synthesize --output {}/corpus --speakers 1 --utterances 2").unwrap();
    let prepare = "prepare --input {}/corpus --name ward --align pocketsphinx --aligner-command";
    let message = data(dir, &format!("{prepare} {{}}/none")).unwrap_err();
    assert!(message.contains("pip install pocketsphinx") && !dir.join("site/data").exists(), "{message}");
    let Some(aligner) = crate::speech::fixture::aligner() else { return };
    let report = data(dir, &format!("{prepare} {}", aligner.display())).unwrap();
    assert!(
        report.contains("2 chosen, 2 kept") && report.contains("by pocketsphinx 5.1.1, 0 of them earlier"),
        "{report}"
    );
    let second = data(dir, &format!("{prepare} {} --replace --deltas 2", aligner.display())).unwrap();
    assert!(second.contains("by pocketsphinx 5.1.1, 2 of them earlier"), "{second}");
    assert!(dir.join("site/data/ward.alignments.jsonl").is_file() && data(dir, "list").unwrap().lines().count() == 2);
    assert_eq!(Dataset::open(&dir.join("site/data/ward")).unwrap().meta().inputs, 39);
}

#[test]
fn contradictory_arguments_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let message = |args: &str| {
        data(dir.path(), &format!("prepare --input {{}} --alignments {{}}/a --name n {args}")).unwrap_err()
    };
    assert!(message("--first 1 --skip 1").contains("--skip"));
    assert!(message("--classes 5 --least-frames 5").contains("--least-frames"));
    assert!(message("--speakers a --speaker-range 0..2").contains("--speaker-range"));
    assert!(message("--speaker-range 2..2").contains("FROM..TO"));
    assert!(message("--speakers ,").contains("contains no name"));
    assert!(message("--speakers-from {}/none").contains("--speakers-from"));
    assert!(message("--class-map {}/none").contains("--class-map"));
    assert!(message("--longest 0").contains("--longest"));
    assert!(message("--hold-out 2").contains("--hold-out"));
    assert!(message("--output {}/o --visibility open").contains("--visibility"));
    assert!(message("--first 1 --utterances a").contains("--utterances"));
    assert!(message("--utterances a --utterances-from {}/u").contains("--utterances-from"));
    assert!(message("--classes 5").contains("--alignments"));
    assert!(message("").contains("--classes N"), "private data declare their classes");
    assert!(message("--align pocketsphinx --label-step 3").contains("--label-step"));
    assert!(message("--align pocketsphinx --aligner-command {}/none").contains("--input"), "no recordings come first");
    assert!(message("--model {}/m").contains("--align"));
    assert!(message("--units {}/u.csv").contains("--unit-column"));
    assert!(message("--classes 5 --units {}/u.csv --unit-column patient").contains("--units"));
    assert!(message("--deltas 3").contains("--deltas"));
    assert!(message("--normalize batch").contains("utterance"));
    assert!(data(dir.path(), "prepare --input x --name n").unwrap_err().contains("--alignments"));
    assert!(data(dir.path(), "prepare --input x --alignments y --name ../up").unwrap_err().contains("../up"));
    assert!(data(dir.path(), "synthesize --output {}/c --subset ward").unwrap_err().contains("NAME=SPEAKERS"));
    assert!(data(dir.path(), "synthesize --output {}/c --speakers 3 --subset a=1").unwrap_err().contains("--subset"));
}

#[test]
fn prepared_query_logs_are_listed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let synthesis = data(
        dir,
        "synthesize --queries --output {}/log.csv --rows 2000 --test-share 0.2 --malformed-share 0.01 --seed 4",
    )
    .unwrap();
    assert!(
        synthesis.contains("synthetic: no person asked these queries") && synthesis.contains("2000 in "),
        "{synthesis}"
    );
    assert!(synthesis.contains("--subset-column split --test-subset test --visibility public"), "{synthesis}");
    let plain = data(dir, "synthesize --queries --output {}/plain.csv --rows 100 --seed 6").unwrap();
    assert!(plain.contains("--label-column intent --visibility public"), "no row is held out: {plain}");
    let private = data(dir, "prepare --queries {}/log.csv --user-column session --name ward").unwrap();
    assert!(private.contains("2000 found") && private.contains("NFC, lower case, single blanks"), "{private}");
    assert!(private.contains("site/data/ward") && private.contains("shown in report.json"), "{private}");
    data(dir, "synthesize --queries --output {}/public.csv --rows 2000 --test-share 0.2 --seed 5").unwrap();
    let columns = "--label-column intent --subset-column split --test-subset test";
    let message = data(dir, &format!("prepare --queries {{}}/public.csv {columns} --name commons")).unwrap_err();
    assert!(message.contains("--label-column") && message.contains("--visibility public"), "{message}");
    let public =
        data(dir, &format!("prepare --queries {{}}/public.csv {columns} --name commons --visibility public")).unwrap();
    assert!(public.contains("Labels           12 (column intent)"), "{public}");
    let list = data(dir, "list --check").unwrap();
    let lines: Vec<Vec<&str>> = list.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!((lines[1][..2].join(" "), lines[1][7]), ("commons queries".to_owned(), "12"));
    assert_eq!((lines[2][..2].join(" "), lines[2][3], lines[2][7]), ("ward queries".to_owned(), "-", "-"));
    assert!(lines[2][4].starts_with('~') && lines[1][4] == "-", "{list}");
    let report = data(
        dir,
        "prepare --queries {}/log.csv --name strict --continues ward --punctuation drop --digits zero --form nfkc",
    )
    .unwrap();
    assert!(report.contains("NFKC, lower case, no punctuation, every digit 0, single blanks"), "{report}");
    std::fs::write(dir.join("site/data/ward/rows/000000.parquet"), "x").unwrap();
    assert!(data(dir, "list --check").unwrap().contains("truncated"));
}

#[test]
fn arguments_of_logs_and_recordings_do_not_mix() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.csv"), "text\nhello\n").unwrap();
    let message = |args: &str| data(dir.path(), &format!("prepare --name n {args}")).unwrap_err();
    assert!(message("--queries {}/a.csv --input {}").contains("--input"));
    assert!(message("--queries {}/a.csv --deltas 1").contains("--deltas"));
    assert!(message("--queries {}/a.csv --alignments x").contains("--alignments"));
    assert!(message("--input {} --alignments x --user-column u").contains("--user-column"));
    assert!(message("--queries {}/a.csv --user-column age").contains("no column \"age\""));
    assert!(message("--queries {}/a.csv --test-subset test").contains("--subset-column"));
    assert!(message("--queries {}/a.csv --case upper").contains("`lower`"));
    assert!(message("--queries {}/a.csv --delimiter ab").contains("ASCII"));
    assert!(message("--queries {}/a.csv --hold-out 2").contains("--hold-out"));
    assert!(message("").contains("--input"));
    let synthesize = |args: &str| data(dir.path(), &format!("synthesize --output {{}}/q.csv {args}")).unwrap_err();
    assert!(synthesize("--queries --speakers 3").contains("--speakers"));
    assert!(synthesize("--rows 3").contains("--queries"));
    assert!(synthesize("--queries --rows 0").contains("--rows"));
    data(dir.path(), "prepare --queries {}/a.csv --name n --longest-query 5 --header text").unwrap();
}

#[test]
fn forecast_estimates_the_queries_that_gates_release() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let rare = (0..100).fold(String::new(), |rows, text| rows + &format!("rare {text},1\n"));
    std::fs::write(dir.join("log.csv"), format!("text,count\nwhere is my card,1000\n{rare}")).unwrap();
    data(dir, "prepare --queries {}/log.csv --count-column count --name ward").unwrap();
    let report = data(dir, "forecast ward --rates 0.25,1 --thresholds 1,20,1000").unwrap();
    let lines: Vec<Vec<&str>> = report.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(report.starts_with("ward has 1100 occurrences of 101 to "), "{report}");
    assert_eq!(lines[2], ["rate", "0.25", "1"]);
    // A quarter of the rare queries pass a threshold of one. Only the frequent query passes the others, and it does not
    // reach 1,000 at rate ¼.
    assert_eq!(
        lines[3..],
        [["threshold", "1", "26", "101"], ["threshold", "20", "1", "1"], ["threshold", "1000", "0", "1"]]
    );
    assert!(data(dir, "forecast ward --rates 2").unwrap_err().contains("--rates"));
    assert!(data(dir, "forecast ward --thresholds 0").unwrap_err().contains("--thresholds"));
    assert!(data(dir, "forecast none").is_err());
}

#[test]
fn recordings_are_added_and_listed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::create_dir(dir.join("in")).unwrap();
    let sound = crate::speech::transcribe::wav::write(&vec![0.25; 24_000]);
    std::fs::write(dir.join("in/visit.wav"), sound).unwrap();
    std::fs::write(dir.join("in/visit.txt"), "go forward").unwrap();
    let report = data(dir, "add-recordings --input {}/in --name visits").unwrap();
    assert!(report.contains("Recordings      1") && report.contains("With reference  1"), "{report}");
    let list = data(dir, "list --check").unwrap();
    assert!(
        list.lines()
            .nth(1)
            .is_some_and(|line| line.starts_with("visits") && line.contains("audio") && line.contains("2 s")),
        "{list}"
    );
    assert!(data(dir, "add-recordings --input {}/in --name visits").unwrap_err().contains("--replace"));
    assert!(data(dir, "add-recordings --input {}/none --name other").unwrap_err().contains("--input"));
    assert!(
        data(dir, "add-recordings --input {}/in --name other --visibility open").unwrap_err().contains("--visibility")
    );
}

/// Recognition needs flite; the earlier steps are refused without it.
#[test]
fn public_recordings_are_transcribed_once_and_counted() {
    use crate::clouds::{Ear, FakeCloud, KEY};

    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let folder = Folder::new(dir.join("site"));
    folder.create().unwrap();
    std::fs::write(folder.policy(), crate::site::policy::TEMPLATE).unwrap();
    assert!(data(dir, "index-speech").is_err(), "no worker is enrolled here");
    crate::fixture::config().store(&folder).unwrap();
    crate::site::store::Store::create(&folder.ledger()).unwrap();
    assert!(data(dir, "index-speech").unwrap_err().contains("[transcription.recognizer]"));
    // A real server, which recognizes one word in every sound.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let ear: Ear = std::sync::Arc::new(|_: &[u8]| vec![("medicine".to_owned(), 0.1, 0.2)]);
    let cloud = runtime.block_on(FakeCloud::start(ear)).unwrap();
    crate::site::folder::write_durably(&folder.root().join("site.key"), KEY.as_bytes()).unwrap();
    let mut config = crate::fixture::config();
    config.transcription = toml::from_str(&format!(
        "[recognizer]\nkind = \"server\"\nprotocol = \"open_ai\"\nurl = \"{}\"\nkey_file = \"site.key\"\n",
        cloud.url()
    ))
    .unwrap();
    config.store(&folder).unwrap();
    assert!(data(dir, "index-speech").unwrap_err().contains("--input"), "there are no recordings yet");
    let Some(speech) = crate::speech::synthesize::synthesize_text("take the letter to the office") else { return };
    std::fs::create_dir(dir.join("in")).unwrap();
    let sound = [vec![0.000_1; 8_000], speech, vec![0.000_1; 12_000]].concat();
    std::fs::write(dir.join("in/a.wav"), crate::speech::transcribe::wav::write(&sound)).unwrap();
    std::fs::write(dir.join("words.txt"), "window\nmedicine\n").unwrap();
    let report = data(dir, "index-speech --input {}/in --words {}/words.txt").unwrap();
    assert!(report.contains("Recordings      1") && report.contains("Not used yet"), "{report}");
    let requests = cloud.received().len();
    let count_pieces = |word: &str| {
        let line = report.lines().find(|line| line.ends_with(word)).unwrap();
        line.split_whitespace().next().unwrap().parse::<usize>().unwrap()
    };
    assert_eq!((count_pieces("medicine"), count_pieces("window"), count_pieces("(none of them)")), (requests, 0, 0));
    assert!(data(dir, "index-speech --input {}/in").unwrap_err().contains("--replace"));
    let second = data(dir, "index-speech").unwrap();
    let digest = |report: &str| report.lines().find(|line| line.starts_with("Digest")).map(str::to_owned);
    assert_eq!((digest(&second), cloud.received().len()), (digest(&report), requests), "nothing is heard twice");
    let german = data(dir, "index-speech --language de").unwrap_err();
    assert!(german.contains("other language") && german.contains("--replace"), "{german}");
}
