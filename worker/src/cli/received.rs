//! `received`: what the recognizers of a finished transcription received, for this terminal alone.

use std::io::Write;
use std::num::NonZeroU32;

use clap::Args;
use undertone_api::id::JobId;
use undertone_api::job::transcription::Report;
use undertone_privacy::Epsilon;
use undertone_privacy::histogram::TruncatedLaplace;

use super::CommandFailure;
use super::table::{format_table, round_up};
use crate::run::transcription::finished::FinishedError;
use crate::run::transcription::received::{ReceivedReport, WordCount, read_received};
use crate::run::transcription::sounds::KeptSound;
use crate::site::folder::Folder;

/// The words of the table of counts, the most counted first; `histogram.tsv` has all of them.
const ROWS: usize = 20;
/// The probability of a number of dummies outside of the printed range, 1 in 20.
const OUTSIDE: f64 = 0.05;

/// Show what each recognizer of a finished transcription could count, and play sounds as it received them.
///
/// The table has the counts of words with and without dummies, and the promise about them. The sounds are a few true pieces and
/// dummies of each recognizer. The command reads the site's own files; it sends nothing.
#[derive(Debug, Args)]
pub(super) struct ReceivedCommand {
    /// The job, whose results lie in this site's `transcripts/<job>`.
    #[arg(value_name = "JOB")]
    job: JobId,
    /// Write this sound of the list as a WAV file to the output, for a player: `--sound 1 | aplay`.
    #[arg(long, value_name = "NUMBER")]
    sound: Option<u32>,
}

impl ReceivedCommand {
    /// Prints the report of the job, or writes a sound, to `out`.
    pub(super) fn run(&self, folder: &Folder, out: &mut dyn Write) -> Result<(), CommandFailure> {
        let report = read_received(&folder.transcripts(self.job))?.ok_or(FinishedError::Unfinished(self.job))?;
        match self.sound {
            None => out.write_all(format_received(&report)?.as_bytes())?,
            Some(number) => {
                let missing =
                    || format!("--sound {number}: the list has no such sound; run `received` without `--sound`");
                out.write_all(&report.read_sound(number)?.ok_or_else(missing)?)?;
            }
        }
        Ok(())
    }
}

fn format_received(report: &ReceivedReport) -> Result<String, CommandFailure> {
    let planned = &report.planned;
    let mut parts = vec![format_noise(planned)?, format_promises(planned)];
    for provider in &planned.providers {
        parts.push(format_counts(provider, &report.counts));
    }
    parts.push(format_sounds(&report.sounds));
    Ok(parts.join("\n"))
}

/// Describes the dummies by which a count exceeds the truth.
fn format_noise(planned: &Report) -> Result<String, CommandFailure> {
    let noise = TruncatedLaplace::new(Epsilon::new(planned.rate)?, planned.shift)?;
    let [low, high] = central_range(noise);
    Ok(format!(
        "Each recognizer counts {:.1} dummies of each word on average; in 95 of 100 cases {low} to {high}.\n\
         A recognizer that tells dummies from true pieces by their sound knows the true counts: see `attacks` in report.json.\n",
        noise.mean()
    ))
}

/// Returns the smallest and the largest number of dummies between the tails of half [`OUTSIDE`] each.
fn central_range(noise: TruncatedLaplace) -> [u64; 2] {
    let quantile = |share: f64| {
        let mut sum = 0.0;
        (0..u64::from(u32::MAX)).find(|dummies| {
            sum += noise.probability(*dummies);
            sum >= share
        })
    };
    [OUTSIDE / 2.0, 1.0 - OUTSIDE / 2.0].map(|share| quantile(share).unwrap_or(u64::from(u32::MAX)))
}

fn format_promises(planned: &Report) -> String {
    let distance = planned.distance;
    let mut text = format!("Any {distance} counts, added and removed together, are hidden from a reader of counts:\n");
    let row = |colluding: NonZeroU32, epsilon: f64, delta: f64| {
        let mark = if colluding.get() == planned.colluding { "charged" } else { "" };
        vec![colluding.to_string(), round_up(epsilon), format!("{delta:.1e}"), mark.to_owned()]
    };
    let rows: Vec<Vec<String>> =
        planned.promises.iter().map(|promise| row(promise.colluding, promise.epsilon, promise.delta)).collect();
    text += &format_table(&["TOGETHER", "EPSILON", "DELTA", ""], &rows);
    text
}

/// Formats the counts of one recognizer, the largest first.
fn format_counts(provider: &str, counts: &[WordCount]) -> String {
    let mut own: Vec<&WordCount> = counts.iter().filter(|count| count.provider == provider).collect();
    own.sort_by(|one, other| other.heard.cmp(&one.heard).then_with(|| one.word.cmp(&other.word)));
    let rows: Vec<Vec<String>> = own
        .iter()
        .take(ROWS)
        .map(|count| vec![count.word.clone(), count.heard.to_string(), count.said.to_string()])
        .collect();
    let note = match own.len().saturating_sub(ROWS) {
        0 => String::new(),
        rest => format!("{rest} words more are in histogram.tsv\n"),
    };
    format!("Counts at {provider}\n{}{note}", format_table(&["WORD", "COUNTED", "SAID"], &rows))
}

fn format_sounds(sounds: &[KeptSound]) -> String {
    if sounds.is_empty() {
        return "No sounds of this job were kept.\n".to_owned();
    }
    let row = |sound: &KeptSound| {
        let kind = if sound.is_dummy { "dummy" } else { "true piece" };
        vec![sound.number.to_string(), sound.provider.clone(), kind.to_owned(), sound.answer.clone()]
    };
    let rows: Vec<Vec<String>> = sounds.iter().map(row).collect();
    let table = format_table(&["SOUND", "RECOGNIZER", "IS", "ANSWER"], &rows);
    format!("Sounds as received; `--sound NUMBER` writes one as a WAV file\n{table}")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use undertone_api::job::transcription::Spec;

    use super::*;

    #[test]
    fn range_of_dummies_leaves_a_fortieth_on_each_side() {
        for (rate, shift) in [(0.1, 60), (0.5, 14), (2.0, 3)] {
            let noise = TruncatedLaplace::new(Epsilon::new(rate).unwrap(), shift).unwrap();
            let [low, high] = central_range(noise);
            let below = |end: u64| (0..end).map(|dummies| noise.probability(dummies)).sum::<f64>();
            assert!(below(low) < 0.025 && below(low + 1) >= 0.025, "{rate}: {low}");
            assert!(below(high) < 0.975 && below(high + 1) >= 0.975, "{rate}: {high}");
            assert!((low..=high).contains(&u64::from(shift)), "{rate}: the mode is in the range");
        }
    }

    #[test]
    fn largest_counts_come_first_and_the_rest_is_named() {
        let count = |number: u64| WordCount {
            word: format!("word{number}"),
            provider: if number == 99 { "two" } else { "one" }.to_owned(),
            said: 0,
            heard: number,
        };
        let counts: Vec<WordCount> = (1..=ROWS as u64 + 3).chain([99]).map(count).collect();
        let text = format_counts("one", &counts);
        assert!(text.contains("word23") && text.contains("word4 ") && !text.contains("word3 "), "{text}");
        assert!(text.contains("3 words more") && !text.contains("word99"), "{text}");
        assert!(text.find("word23") < text.find("word22"), "{text}");
    }

    #[test]
    fn promises_mark_the_charged_one() {
        let spec: Spec = crate::run::transcription::tests::transcription::spec();
        let text = format_promises(&Report::from_plan(&spec).unwrap());
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].contains("Any 10 counts") && lines[2].starts_with('1') && lines[2].ends_with("charged"),
            "{text}"
        );
        assert!(lines[3].starts_with('2') && !lines[3].ends_with("charged"), "{text}");
    }

    #[test]
    fn job_without_results_has_a_specific_error() {
        let folder = tempfile::tempdir().unwrap();
        let command = ReceivedCommand { job: crate::fixture::JOB, sound: Some(1) };
        let error = command.run(&Folder::new(folder.path().to_owned()), &mut Vec::new()).unwrap_err();
        assert!(error.error.to_string().contains("no transcripts of such a job"), "{}", error.error);
    }
}
