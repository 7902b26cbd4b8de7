//! `data synthesize`: a small corpus of synthetic speakers.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::{Bar, DataError, threads};
use crate::speech::synthesize::{self, ALIGNMENTS_FILE, CLASSES, Config, Engines, Subset};

/// Make a small corpus of synthetic speakers (needs flite and espeak-ng).
#[derive(Debug, Args)]
pub(super) struct Synthesize {
    /// Folder to make.
    #[arg(long, value_name = "FOLDER")]
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
    /// Decides voices and texts.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Synthesize {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<(), DataError> {
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

    fn config(&self) -> Config {
        let group = |outlier| {
            move |(name, speakers): &(String, usize)| Subset { name: name.clone(), speakers: *speakers, outlier }
        };
        let mut subsets: Vec<Subset> = self.subsets.iter().map(group(false)).collect();
        if subsets.is_empty() {
            subsets.push(Subset { name: "synthetic".to_owned(), speakers: self.speakers, outlier: false });
        }
        subsets.extend(self.outliers.iter().map(group(true)));
        let (output, utterances, seed) = (self.output.clone(), self.utterances, self.seed);
        Config { output, subsets, utterances, seed, threads: threads(), engines: Engines::default() }
    }
}

/// Reads `NAME=SPEAKERS`.
fn pair(text: &str) -> Result<(String, usize), String> {
    let pair = text.split_once('=').and_then(|(name, count)| Some((name.to_owned(), count.parse().ok()?)));
    pair.ok_or_else(|| format!("{text:?} is not NAME=SPEAKERS, as ward-7=6"))
}
