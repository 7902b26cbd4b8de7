//! `data synthesize`: creates a small corpus of synthetic speakers, or a synthetic query log.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::{DataError, TerminalProgress, count_threads};
use crate::queries::synthesize as query_log;
use crate::speech::synthesize::{self, ALIGNMENTS_FILE, CLASSES, CorpusConfig, SpeakerGroup, SpeechEngines};

/// Create a small corpus of synthetic speakers (requires flite and espeak-ng), or a synthetic query log with --queries.
#[derive(Debug, Args)]
pub(super) struct SynthesizeCommand {
    /// The folder to create; with --queries, the file to create: .csv, .tsv, .jsonl or .parquet.
    #[arg(long, value_name = "FOLDER|FILE")]
    output: PathBuf,
    /// Number of speakers, all in the subset `synthetic`.
    #[arg(long, value_name = "N", default_value_t = 8, conflicts_with = "subsets")]
    speakers: usize,
    /// A separate group of speakers, for a party or a test set; may be repeated.
    #[arg(long = "subset", value_name = "NAME=SPEAKERS", value_parser = parse_group)]
    subsets: Vec<(String, usize)>,
    /// A group of speakers with voices far from all others; may be repeated.
    #[arg(long = "outlier", value_name = "NAME=SPEAKERS", value_parser = parse_group)]
    outliers: Vec<(String, usize)>,
    /// Number of utterances of each speaker.
    #[arg(long, value_name = "N", default_value_t = 12)]
    utterances: usize,
    /// The random seed for voices and texts, or for queries.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Create a query log instead, with the columns session, text, intent and split; texts follow Zipf's law.
    #[arg(long, conflicts_with_all = ["speakers", "subsets", "outliers", "utterances"])]
    queries: bool,
    /// For --queries: number of rows.
    #[arg(long, value_name = "N", default_value_t = 10_000, requires = "queries")]
    rows: u64,
    /// For --queries: number of different texts; by default a tenth of the rows, and at least 1000.
    #[arg(long, value_name = "N", requires = "queries")]
    distinct: Option<u64>,
    /// For --queries: exponent of Zipf's law; with 0, all texts are equally frequent.
    #[arg(long, value_name = "S", default_value_t = 1.1, requires = "queries")]
    exponent: f64,
    /// For --queries: average number of rows of a session.
    #[arg(long, value_name = "N", default_value_t = 4.0, requires = "queries")]
    session_rows: f64,
    /// For --queries: share of sessions with the split `test`.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, requires = "queries")]
    test_share: f64,
    /// For --queries: share of malformed rows.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, requires = "queries")]
    malformed_share: f64,
}

impl SynthesizeCommand {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<(), DataError> {
        if self.queries {
            return self.write_log(out);
        }
        let config = self.config();
        let report = synthesize::corpus(&config, &TerminalProgress::default())?;
        let place = config.output.display();
        let utterances = report.utterances;
        let speakers = report.speakers.len();
        let minutes = report.seconds / 60.0;
        writeln!(
            out,
            "Corpus           {place}\n\
             Speech           {utterances} utterances, {speakers} speakers, {minutes:.1} minutes\n\
             Engines          {}\n\
             Next             undertone-worker data prepare --input {place} --alignments {place}/{ALIGNMENTS_FILE} \
             --classes {CLASSES} --subset {} --name <name>",
            report.engines.join("; "),
            config.subsets[0].name,
        )
        .map_err(DataError::Print)
    }

    fn write_log(&self, out: &mut dyn Write) -> Result<(), DataError> {
        let defaults = query_log::SyntheticConfig::new(self.rows, self.seed);
        let config = query_log::SyntheticConfig {
            queries: self.distinct.unwrap_or(defaults.queries),
            exponent: self.exponent,
            session: self.session_rows,
            test: self.test_share,
            malformed: self.malformed_share,
            ..defaults
        };
        let report = query_log::log(&config, &self.output, &TerminalProgress::default())?;
        let place = self.output.display();
        // Without held-out rows there is no subset to name.
        let subset = if self.test_share > 0.0 { "--subset-column split --test-subset test " } else { "" };
        writeln!(
            out,
            "Log              {place} (synthetic: no person asked these queries)\n\
             Rows             {} in {} sessions, {} of them malformed\n\
             Next             undertone-worker data prepare --queries {place} --user-column session --name <name>\n\
             \u{20}                or, as public and labelled data: --label-column intent {subset}--visibility public",
            config.rows, report.sessions, report.malformed,
        )
        .map_err(DataError::Print)
    }

    fn config(&self) -> CorpusConfig {
        let group = |outlier| {
            move |(name, speakers): &(String, usize)| SpeakerGroup { name: name.clone(), speakers: *speakers, outlier }
        };
        let mut subsets: Vec<SpeakerGroup> = self.subsets.iter().map(group(false)).collect();
        if subsets.is_empty() {
            subsets.push(SpeakerGroup { name: "synthetic".to_owned(), speakers: self.speakers, outlier: false });
        }
        subsets.extend(self.outliers.iter().map(group(true)));
        CorpusConfig {
            output: self.output.clone(),
            subsets,
            utterances: self.utterances,
            seed: self.seed,
            threads: count_threads(),
            engines: SpeechEngines::default(),
        }
    }
}

/// Parses `NAME=SPEAKERS`.
fn parse_group(text: &str) -> Result<(String, usize), String> {
    let pair = text.split_once('=').and_then(|(name, count)| Some((name.to_owned(), count.parse().ok()?)));
    pair.ok_or_else(|| format!("{text:?} is not NAME=SPEAKERS, as ward-7=6"))
}
