//! `data synthesize`: makes a small corpus of synthetic speakers, or a synthetic query log.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::{Bar, DataError, threads};
use crate::queries::synthesize as query_log;
use crate::speech::synthesize::{self, ALIGNMENTS_FILE, CLASSES, CorpusConfig, SpeakerGroup, SpeechEngines};

/// Make a small corpus of synthetic speakers (needs flite and espeak-ng), or with --queries a synthetic query log.
#[derive(Debug, Args)]
pub(super) struct Synthesize {
    /// Folder to make; with --queries, the file: .csv, .tsv, .jsonl or .parquet.
    #[arg(long, value_name = "FOLDER|FILE")]
    output: PathBuf,
    /// Number of speakers, all in the subset `synthetic`.
    #[arg(long, value_name = "N", default_value_t = 8, conflicts_with = "subsets")]
    speakers: usize,
    /// A group of speakers that no other group shares, as a party has or a test set; may be repeated.
    #[arg(long = "subset", value_name = "NAME=SPEAKERS", value_parser = pair)]
    subsets: Vec<(String, usize)>,
    /// A group of speakers whose voices are far from all others; may be repeated.
    #[arg(long = "outlier", value_name = "NAME=SPEAKERS", value_parser = pair)]
    outliers: Vec<(String, usize)>,
    /// Utterances of each speaker.
    #[arg(long, value_name = "N", default_value_t = 12)]
    utterances: usize,
    /// Decides voices and texts, or queries.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Make a query log instead: columns session, text, intent and split; which text comes next follows Zipf's law.
    #[arg(long, conflicts_with_all = ["speakers", "subsets", "outliers", "utterances"])]
    queries: bool,
    /// For --queries: rows.
    #[arg(long, value_name = "N", default_value_t = 10_000, requires = "queries")]
    rows: u64,
    /// For --queries: different texts there may be; unless given, a tenth of the rows, and at least 1000.
    #[arg(long, value_name = "N", requires = "queries")]
    distinct: Option<u64>,
    /// For --queries: how steep Zipf's law is; 0 for all equally often.
    #[arg(long, value_name = "S", default_value_t = 1.1, requires = "queries")]
    exponent: f64,
    /// For --queries: rows of a session on average.
    #[arg(long, value_name = "N", default_value_t = 4.0, requires = "queries")]
    session_rows: f64,
    /// For --queries: share of the sessions whose split is `test`.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, requires = "queries")]
    test_share: f64,
    /// For --queries: share of the rows that are broken, to see what becomes of them.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, requires = "queries")]
    malformed_share: f64,
}

impl Synthesize {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<(), DataError> {
        if self.queries {
            return self.log(out);
        }
        let config = self.config();
        let report = synthesize::corpus(&config, &Bar::default())?;
        let place = config.output.display();
        let (utterances, speakers, minutes) = (report.utterances, report.speakers.len(), report.seconds / 60.0);
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

    fn log(&self, out: &mut dyn Write) -> Result<(), DataError> {
        let usual = query_log::SyntheticConfig::new(self.rows, self.seed);
        let config = query_log::SyntheticConfig {
            queries: self.distinct.unwrap_or(usual.queries),
            exponent: self.exponent,
            session: self.session_rows,
            test: self.test_share,
            malformed: self.malformed_share,
            ..usual
        };
        let report = query_log::log(&config, &self.output, &Bar::default())?;
        let place = self.output.display();
        // Without held-out rows there is no subset to name.
        let subset = if self.test_share > 0.0 { "--subset-column split --test-subset test " } else { "" };
        writeln!(
            out,
            "Log              {place} (synthetic: nobody asked any of it)\n\
             Rows             {} in {} sessions, {} of them broken\n\
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
        let (output, utterances, seed) = (self.output.clone(), self.utterances, self.seed);
        CorpusConfig { output, subsets, utterances, seed, threads: threads(), engines: SpeechEngines::default() }
    }
}

/// Parses `NAME=SPEAKERS`.
fn pair(text: &str) -> Result<(String, usize), String> {
    let pair = text.split_once('=').and_then(|(name, count)| Some((name.to_owned(), count.parse().ok()?)));
    pair.ok_or_else(|| format!("{text:?} is not NAME=SPEAKERS, as ward-7=6"))
}
