#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod differential;
mod lineage;

use clap::Parser;

use super::*;
use crate::speech::dataset::Dataset;

#[derive(Debug, Parser)]
struct Program {
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
    let program = Program::try_parse_from(std::iter::once("data".to_owned()).chain(args)).map_err(|e| e.to_string())?;
    let mut out = Vec::new();
    let folder = Folder::new(site);
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
    assert!(lines[1].starts_with("odd   speech ") && lines[2].contains(&dataset.meta().digest[..12]), "{listed}");
    std::fs::write(dir.join("site/data/ward/data.bin"), "x").unwrap();
    let damaged = data(dir, "list --check").unwrap();
    assert!(damaged.contains("is not an Undertone dataset"), "{damaged}");
    assert!(data(dir, &format!("{prepare} --name ward --subset ward")).unwrap_err().contains("--replace"));
    data(dir, &format!("{prepare} --classes 126 --name ward --subset ward --replace")).unwrap();
    assert_eq!(Dataset::open(&dir.join("site/data/ward")).unwrap().meta().digest, dataset.meta().digest);
}

#[test]
fn recordings_whose_aligner_is_missing_are_told_how_to_get_one() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    data(dir, "synthesize --output {}/corpus --speakers 1 --utterances 2").unwrap();
    let prepare = "prepare --input {}/corpus --name ward --align pocketsphinx --aligner-command";
    let refused = data(dir, &format!("{prepare} {{}}/none")).unwrap_err();
    assert!(refused.contains("pip install pocketsphinx") && !dir.join("site/data").exists(), "{refused}");
    let Some(aligner) = crate::speech::fixture::aligner() else { return };
    let made = data(dir, &format!("{prepare} {}", aligner.display())).unwrap();
    assert!(made.contains("2 chosen, 2 kept") && made.contains("by pocketsphinx 5.1.1, 0 of them earlier"), "{made}");
    let again = data(dir, &format!("{prepare} {} --replace --deltas 2", aligner.display())).unwrap();
    assert!(again.contains("by pocketsphinx 5.1.1, 2 of them earlier"), "{again}");
    assert!(dir.join("site/data/ward.alignments.jsonl").is_file() && data(dir, "list").unwrap().lines().count() == 2);
    assert_eq!(Dataset::open(&dir.join("site/data/ward")).unwrap().meta().inputs, 39);
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
    assert!(refused("--output {}/o --visibility open").contains("--visibility"));
    assert!(refused("--first 1 --utterances a").contains("--utterances"));
    assert!(refused("--utterances a --utterances-from {}/u").contains("--utterances-from"));
    assert!(refused("--classes 5").contains("--alignments"));
    assert!(refused("").contains("--classes N"), "private data declare their classes");
    assert!(refused("--align pocketsphinx --label-step 3").contains("--label-step"));
    assert!(refused("--align pocketsphinx --aligner-command {}/none").contains("--input"), "no recordings come first");
    assert!(refused("--model {}/m").contains("--align"));
    assert!(refused("--units {}/u.csv").contains("--unit-column"));
    assert!(refused("--classes 5 --units {}/u.csv --unit-column patient").contains("--units"));
    assert!(refused("--deltas 3").contains("--deltas"));
    assert!(refused("--normalize batch").contains("utterance"));
    assert!(data(dir.path(), "prepare --input x --name n").unwrap_err().contains("--alignments"));
    assert!(data(dir.path(), "prepare --input x --alignments y --name ../up").unwrap_err().contains("../up"));
    assert!(data(dir.path(), "synthesize --output {}/c --subset ward").unwrap_err().contains("NAME=SPEAKERS"));
    assert!(data(dir.path(), "synthesize --output {}/c --speakers 3 --subset a=1").unwrap_err().contains("--subset"));
}

#[test]
fn from_nothing_to_datasets_of_queries() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let made = data(
        dir,
        "synthesize --queries --output {}/log.csv --rows 2000 --test-share 0.2 --malformed-share 0.01 --seed 4",
    )
    .unwrap();
    assert!(made.contains("synthetic: nobody asked any of it") && made.contains("2000 in "), "{made}");
    assert!(made.contains("--subset-column split --test-subset test --visibility public"), "{made}");
    let without = data(dir, "synthesize --queries --output {}/plain.csv --rows 100 --seed 6").unwrap();
    assert!(without.contains("--label-column intent --visibility public"), "no row is held out: {without}");
    let private = data(dir, "prepare --queries {}/log.csv --user-column session --name ward").unwrap();
    assert!(private.contains("2000 found") && private.contains("NFC, lower case, single blanks"), "{private}");
    assert!(private.contains("site/data/ward") && private.contains("shown in report.json"), "{private}");
    data(dir, "synthesize --queries --output {}/public.csv --rows 2000 --test-share 0.2 --seed 5").unwrap();
    let labelled = "--label-column intent --subset-column split --test-subset test";
    let refused = data(dir, &format!("prepare --queries {{}}/public.csv {labelled} --name commons")).unwrap_err();
    assert!(refused.contains("--label-column") && refused.contains("--visibility public"), "{refused}");
    let public =
        data(dir, &format!("prepare --queries {{}}/public.csv {labelled} --name commons --visibility public")).unwrap();
    assert!(public.contains("Labels           12 (column intent)"), "{public}");
    let listed = data(dir, "list --check").unwrap();
    let lines: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!((lines[1][..2].join(" "), lines[1][7]), ("commons queries".to_owned(), "12"));
    assert_eq!((lines[2][..2].join(" "), lines[2][3], lines[2][7]), ("ward queries".to_owned(), "-", "-"));
    assert!(lines[2][4].starts_with('~') && lines[1][4] == "-", "{listed}");
    let shown = data(
        dir,
        "prepare --queries {}/log.csv --name strict --continues ward --punctuation drop --digits zero --form nfkc",
    )
    .unwrap();
    assert!(shown.contains("NFKC, lower case, no punctuation, every digit 0, single blanks"), "{shown}");
    std::fs::write(dir.join("site/data/ward/rows/000000.parquet"), "x").unwrap();
    assert!(data(dir, "list --check").unwrap().contains("truncated"));
}

#[test]
fn arguments_of_query_logs_and_of_recordings_do_not_mix() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.csv"), "text\nhello\n").unwrap();
    let refused = |args: &str| data(dir.path(), &format!("prepare --name n {args}")).unwrap_err();
    assert!(refused("--queries {}/a.csv --input {}").contains("--input"));
    assert!(refused("--queries {}/a.csv --deltas 1").contains("--deltas"));
    assert!(refused("--queries {}/a.csv --alignments x").contains("--alignments"));
    assert!(refused("--input {} --alignments x --user-column u").contains("--user-column"));
    assert!(refused("--queries {}/a.csv --user-column who").contains("no column \"who\""));
    assert!(refused("--queries {}/a.csv --test-subset test").contains("--subset-column"));
    assert!(refused("--queries {}/a.csv --case upper").contains("`lower`"));
    assert!(refused("--queries {}/a.csv --delimiter ab").contains("ASCII"));
    assert!(refused("--queries {}/a.csv --hold-out 2").contains("--hold-out"));
    assert!(refused("").contains("--input"));
    let synthesize = |args: &str| data(dir.path(), &format!("synthesize --output {{}}/q.csv {args}")).unwrap_err();
    assert!(synthesize("--queries --speakers 3").contains("--speakers"));
    assert!(synthesize("--rows 3").contains("--queries"));
    assert!(synthesize("--queries --rows 0").contains("--rows"));
    data(dir.path(), "prepare --queries {}/a.csv --name n --longest-query 5 --header text").unwrap();
}

#[test]
fn a_forecast_says_what_gates_would_let_through_of_a_log() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let rare = (0..100).fold(String::new(), |rows, text| rows + &format!("rare {text},1\n"));
    std::fs::write(dir.join("log.csv"), format!("text,count\nwhere is my card,1000\n{rare}")).unwrap();
    data(dir, "prepare --queries {}/log.csv --count-column count --name ward").unwrap();
    let told = data(dir, "forecast ward --rates 0.25,1 --thresholds 1,20,1000").unwrap();
    let lines: Vec<Vec<&str>> = told.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(told.starts_with("ward has 1100 occurrences of 101 to "), "{told}");
    assert_eq!(lines[2], ["rate", "0.25", "1"]);
    // A quarter of the rare queries pass a threshold of one. Only the frequent query passes the others, and it does not
    // reach 1,000 at rate ¼.
    assert_eq!(
        lines[3..],
        [["threshold", "1", "26", "101"], ["threshold", "20", "1", "1"], ["threshold", "1000", "0", "1"]]
    );
    assert!(data(dir, "forecast ward --rates 2").unwrap_err().contains("--rates"));
    assert!(data(dir, "forecast ward --thresholds 0").unwrap_err().contains("--thresholds"));
    assert!(data(dir, "forecast nobody").is_err());
}

#[test]
fn recordings_are_added_and_listed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::create_dir(dir.join("in")).unwrap();
    let sound = crate::speech::transcribe::wav::write(&vec![0.25; 24_000]);
    std::fs::write(dir.join("in/visit.wav"), sound).unwrap();
    std::fs::write(dir.join("in/visit.txt"), "go forward").unwrap();
    let said = data(dir, "add-recordings --input {}/in --name visits").unwrap();
    assert!(said.contains("Recordings      1") && said.contains("With reference  1"), "{said}");
    let listed = data(dir, "list --check").unwrap();
    assert!(
        listed
            .lines()
            .nth(1)
            .is_some_and(|line| line.starts_with("visits") && line.contains("audio") && line.contains("2 s")),
        "{listed}"
    );
    assert!(data(dir, "add-recordings --input {}/in --name visits").unwrap_err().contains("--replace"));
    assert!(data(dir, "add-recordings --input {}/none --name other").unwrap_err().contains("--input"));
    assert!(
        data(dir, "add-recordings --input {}/in --name other --visibility open").unwrap_err().contains("--visibility")
    );
}

/// Recognition needs flite; the earlier steps are refused without it.
#[test]
fn recordings_that_anybody_may_have_are_heard_once_and_counted_by_word() {
    use crate::clouds::{Cloud, Ear, KEY};

    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let folder = Folder::new(dir.join("site"));
    folder.create().unwrap();
    std::fs::write(folder.policy(), crate::site::policy::TEMPLATE).unwrap();
    assert!(data(dir, "index-speech").is_err(), "nobody is enrolled here");
    crate::fixture::config().store(&folder).unwrap();
    crate::site::store::Store::create(&folder.ledger()).unwrap();
    assert!(data(dir, "index-speech").unwrap_err().contains("[transcription.recognizer]"));
    // A real server, which recognizes one word in every sound.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let ear: Ear = std::sync::Arc::new(|_: &[u8]| vec![("medicine".to_owned(), 0.1, 0.2)]);
    let cloud = runtime.block_on(Cloud::start(ear)).unwrap();
    crate::site::folder::write_durably(&folder.root().join("site.key"), KEY.as_bytes()).unwrap();
    let mut config = crate::fixture::config();
    config.transcription = toml::from_str(&format!(
        "[recognizer]\nkind = \"server\"\nprotocol = \"open_ai\"\nurl = \"{}\"\nkey_file = \"site.key\"\n",
        cloud.url()
    ))
    .unwrap();
    config.store(&folder).unwrap();
    assert!(data(dir, "index-speech").unwrap_err().contains("--input"), "there are no recordings yet");
    let Some(said) = crate::speech::synthesize::synthesize_text("take the letter to the office") else { return };
    std::fs::create_dir(dir.join("in")).unwrap();
    let sound = [vec![0.000_1; 8_000], said, vec![0.000_1; 12_000]].concat();
    std::fs::write(dir.join("in/a.wav"), crate::speech::transcribe::wav::write(&sound)).unwrap();
    std::fs::write(dir.join("words.txt"), "window\nmedicine\n").unwrap();
    let told = data(dir, "index-speech --input {}/in --words {}/words.txt").unwrap();
    assert!(told.contains("Recordings      1") && told.contains("Not used yet"), "{told}");
    let heard = cloud.received().len();
    let counted = |word: &str| {
        let line = told.lines().find(|line| line.ends_with(word)).unwrap();
        line.split_whitespace().next().unwrap().parse::<usize>().unwrap()
    };
    assert_eq!((counted("medicine"), counted("window"), counted("(none of them)")), (heard, 0, 0));
    assert!(data(dir, "index-speech --input {}/in").unwrap_err().contains("--replace"));
    let again = data(dir, "index-speech").unwrap();
    let digest = |told: &str| told.lines().find(|line| line.starts_with("Digest")).map(str::to_owned);
    assert_eq!((digest(&again), cloud.received().len()), (digest(&told), heard), "nothing is heard twice");
    let german = data(dir, "index-speech --language de").unwrap_err();
    assert!(german.contains("other language") && german.contains("--replace"), "{german}");
}
