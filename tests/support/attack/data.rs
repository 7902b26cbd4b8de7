//! Data are prepared so that one unit influences others, or so that people with a spent budget are added again.

use super::AttackOutcome;
use crate::scene;
use crate::stage::{SpeechCorpus, TestDatabase, TestResult};

pub(super) async fn play() -> TestResult<Vec<AttackOutcome>> {
    let stage = scene::set(TestDatabase::Sqlite).await?;
    let corpus = SpeechCorpus::small()?;
    let (input, labels) = (corpus.folder().to_string_lossy(), corpus.alignments().to_string_lossy());
    let site = &stage.sites[0];
    let classes = undertone_worker::speech::synthesize::CLASSES.to_string();
    // Runs the preparation only.
    let takes = |name: &str, subset: &str, options: &[&str]| {
        let mut arguments = vec!["data", "prepare", "--input", &input, "--alignments", &labels, "--name", name];
        arguments.extend(["--subset", subset, "--visibility", "private"]);
        arguments.extend(options);
        site.command(&arguments)
    };
    let accepted = |tries: &[(&str, &[&str])], reason: &str| -> TestResult<u64> {
        tries.iter().map(|(name, options)| count_accepted(takes(name, "one", options), reason)).sum()
    };
    let mixing = accepted(
        &[
            ("by-frames", &["--least-frames", "2"]),
            ("by-phones", &["--phone-frames", "2", "--classes", &classes]),
            ("by-place", &["--speaker-range", "0..1", "--classes", &classes]),
        ],
        "computes over all recordings",
    )?;
    let exact_facts = accepted(&[("counted", &[])], "--classes is missing")?;

    takes("ward", "two", &["--classes", &classes])?;
    let refusal = "--continues ward";
    let mut again = count_accepted(takes("ward-again", "two", &["--classes", &classes]), refusal)?;
    let recordings = corpus.folder().join("two").to_string_lossy().into_owned();
    let sound = ["data", "add-recordings", "--input", &recordings, "--name", "ward-sound", "--visibility", "private"];
    again += count_accepted(site.command(&sound), refusal)?;
    let line = site.command(&["lineage", "show"])?;
    if !line.contains("ward") {
        return Err(format!("the site does not know what it prepared: {line}").into());
    }
    Ok(vec![
        AttackOutcome {
            attack: "options_that_mix_units",
            gained: mixing,
            gained_before: 3,
            what: "ways to prepare private data in which one unit changes others",
        },
        AttackOutcome {
            attack: "classes_of_private_labels",
            gained: exact_facts,
            gained_before: 1,
            what: "exact facts of private labels that registration tells",
        },
        AttackOutcome {
            attack: "same_people_under_another_name",
            gained: again,
            gained_before: 2,
            what: "further lifetime budgets for the same people",
        },
    ])
}

/// Returns 1 if a command succeeded, 0 if it was refused for this reason.
fn count_accepted(command: TestResult<String>, reason: &str) -> TestResult<u64> {
    match command {
        Ok(_) => Ok(1),
        Err(error) if error.to_string().contains(reason) => Ok(0),
        // Another error of the attack is not a refusal.
        Err(error) => Err(error),
    }
}
