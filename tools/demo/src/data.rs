//! Starts the sites: prepares data, enrols and starts workers, sets budgets.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use undertone_api::budget::NewBudget;
use undertone_api::dataset::DatasetContent;
use undertone_api::worker::NewEnrolment;
use undertone_privacy::{Delta, Epsilon, PrivacyUnit};
use undertone_server_core::ctx::{Ctx, JobChannels};
use undertone_server_core::service::{budget, dataset, worker};

use crate::consortium::{DemoConsortium, PartyMember};
use crate::process::{WorkerDaemon, WorkerProgram};
use crate::recipe::{CorpusFolder, DatasetRecipe, DemoRecipe, GROUPS, PartyRecipe, UTTERANCES, utterances};
use crate::transcription::{self, LocalRecognizers};
use crate::{DemoError, explain_refusal, questions, visits};

/// The lifetime limit of every private dataset of speech or queries.
const LIMIT: (f64, f64) = (10.0, 1e-5);
/// The time within which the workers must register their datasets.
const PATIENCE: Duration = Duration::from_mins(1);

/// The policy of every site of the demo, including the lead's, whose policy must allow the kinds of jobs as well.
const POLICY: &str = r#"# A site of the demo: the kinds of its jobs may run, and what they may spend is enough for each.
[jobs]
kinds = ["dp_sgd", "active_learning", "transcription", "analytics"]
approval = "steward"
least_noise_multiplier = 0.5
most_epsilon_per_job = 10.0
# The demo's data are made up: nobody has to wait long for their releases.
release_period_seconds = { dp_sgd = 0.1, active_learning = 1.0, transcription = 1.0, analytics = 1.0 }

# The demo's jobs protect records. A budget for speakers beside this one would refuse them: nothing bounds what a speaker loses, who
# may have any number of records.
[budget.record]
epsilon = 10.0
delta = 1e-5
"#;

/// Returns the policy of every site. The recordings alone have an account of words, and the tables one of users: no other
/// job of the demo charges it.
fn policy() -> String {
    let (epsilon, delta) = transcription::LIMIT;
    let dataset = transcription::DATASET;
    let words = format!("\n[datasets.\"{dataset}\"]\nbudget.words = {{ epsilon = {epsilon:?}, delta = {delta:?} }}\n");
    format!("{POLICY}{words}{}", visits::policy(LIMIT))
}

/// Enrols every worker, prepares its data, starts it and sets the budgets. The workers end when the returned value is
/// dropped.
pub(super) async fn start_sites(
    ctx: &Ctx,
    dir: &Path,
    program: &WorkerProgram,
    recipe: &DemoRecipe,
    consortium: &DemoConsortium,
    recognizers: Option<&LocalRecognizers>,
) -> Result<Vec<WorkerDaemon>, DemoError> {
    let sites = dir.join("sites");
    std::fs::create_dir_all(&sites)?;
    let corpus = match &recipe.corpus {
        Some(corpus) => corpus.clone(),
        None => synthesize(dir, program).await?,
    };
    let classes = classes(&corpus.labels)?;
    for (number, (party, person)) in recipe.parties.iter().zip(&consortium.people).enumerate() {
        let site = sites.join(party.site);
        std::fs::create_dir_all(&site)?;
        enrol(ctx, program, &site, person).await?;
        std::fs::write(site.join("policy.toml"), policy())?;
        pin(program, &site, person).await?;
        keep_key(&dir.join("stewards"), party.site, person)?;
        for data in &party.datasets {
            println!("{}: prepares `{}`", party.name, data.name);
            let reach = match (number, recipe.is_open) {
                (0, _) => "public",
                (_, true) => "open",
                (_, false) => "private",
            };
            program.run(&site, &prepare(&corpus, data, reach, classes)?).await?;
        }
    }
    println!("two clinics and the archive: prepare what people ask their assistants");
    let folders: Vec<PathBuf> = recipe.parties.iter().map(|party| sites.join(party.site)).collect();
    questions::prepare(program, &folders).await?;
    visits::prepare(program, &recipe.parties, &folders).await?;
    if let Some(recognizers) = recognizers {
        println!("{}: prepares `{}`", recipe.parties[transcription::PARTY].name, transcription::DATASET);
        recognizers.prepare(program, &folders[transcription::PARTY]).await?;
    }
    let mut daemons = start(dir, &sites, program, &recipe.parties)?;
    let speech: usize = recipe.parties.iter().map(|party| party.datasets.len()).sum();
    let expected = speech + questions::DATASETS + visits::TABLES.len() + usize::from(recognizers.is_some());
    wait_for_datasets(ctx, expected, consortium, &mut daemons).await?;
    set_budgets(ctx, consortium).await?;
    Ok(daemons)
}

async fn synthesize(dir: &Path, program: &WorkerProgram) -> Result<CorpusFolder, DemoError> {
    println!("no data given: synthesizes a small corpus");
    let folder = dir.join("corpus");
    let mut arguments = vec!["data".to_owned(), "synthesize".to_owned()];
    arguments.extend(["--output".to_owned(), folder.display().to_string()]);
    arguments.extend(["--utterances".to_owned(), UTTERANCES.to_string()]);
    for (name, speakers, outlier) in GROUPS {
        arguments.push(if outlier { "--outlier" } else { "--subset" }.to_owned());
        arguments.push(format!("{name}={speakers}"));
    }
    program.run(dir, &arguments).await?;
    let labels = folder.join("alignments").join("phone-states.jsonl");
    Ok(CorpusFolder { folder, labels })
}

async fn enrol(ctx: &Ctx, program: &WorkerProgram, site: &Path, person: &PartyMember) -> Result<(), DemoError> {
    let new = NewEnrolment { name: format!("worker of {}", person.name) };
    let enrolment =
        worker::invite(ctx, &person.actor, person.organization, &new).await.map_err(explain_refusal("enrolling"))?;
    program.run(site, &["enroll".to_owned(), enrolment.token]).await?;
    Ok(())
}

/// Pins the key with which the site's steward approves jobs, like a site's operator at its terminal.
async fn pin(program: &WorkerProgram, site: &Path, person: &PartyMember) -> Result<(), DemoError> {
    let key = person.public_approval_key();
    let (line, fingerprint) = (key.to_line(), key.fingerprint().to_string());
    let arguments = ["approval-keys", "add", &line, "--fingerprint", &fingerprint, "--label", &person.name];
    program.run(site, &arguments.map(str::to_owned)).await?;
    Ok(())
}

/// Stores the key of a site's steward in a file, for further jobs in the demo: `steward-key sign` accepts it.
fn keep_key(folder: &Path, site: &str, person: &PartyMember) -> Result<(), DemoError> {
    use std::io::Write as _;
    std::fs::create_dir_all(folder)?;
    let mut options = std::fs::OpenOptions::new();
    options.create(true).truncate(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(folder.join(format!("{site}.key")))?;
    writeln!(file, "{}", hex::encode(person.approval_key.to_bytes()))?;
    Ok(())
}

/// Returns the number of classes of every party's datasets: one more than the largest label, as the aligner counts. The
/// demo has all labels in one file and declares the same number for all; a real site gets it from its aligner or from
/// the lead. All labels are kept: if rare labels shared one class, words that occur at one site only would count as
/// correct merely for being rare.
fn classes(labels: &Path) -> Result<u32, DemoError> {
    #[derive(Deserialize)]
    struct Line {
        runs: Vec<(u32, u32)>,
    }
    let wrong = |reason: String| DemoError::Data { path: labels.to_owned(), reason };
    let text = std::fs::read_to_string(labels).map_err(|error| wrong(error.to_string()))?;
    let mut most = 0;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let line: Line =
            serde_json::from_str(line).map_err(|error| wrong(format!("a line is no alignment: {error}")))?;
        most = line.runs.iter().map(|(label, _)| *label).fold(most, u32::max);
    }
    Ok(most + 1)
}

fn prepare(corpus: &CorpusFolder, data: &DatasetRecipe, reach: &str, classes: u32) -> Result<Vec<String>, DemoError> {
    let text = |path: &PathBuf| path.display().to_string();
    let mut arguments: Vec<String> = ["data", "prepare", "--input"].map(str::to_owned).to_vec();
    arguments.extend([text(&corpus.folder), "--alignments".to_owned(), text(&corpus.labels)]);
    arguments.extend(["--name", data.name, "--visibility", reach].map(str::to_owned));
    arguments.extend(["--classes".to_owned(), classes.to_string()]);
    arguments.extend(data.choice.iter().cloned());
    if let Some(first) = data.first {
        let wrong = |reason: String| DemoError::Data { path: corpus.folder.clone(), reason };
        // A folder follows each option of the choice.
        let names: Vec<&str> = data.choice.iter().skip(1).step_by(2).map(String::as_str).collect();
        let ids = utterances(&corpus.folder, &names).map_err(wrong)?;
        let ids = ids.get(..first).ok_or_else(|| wrong(format!("fewer than {first} utterances of {names:?}")))?;
        arguments.extend(["--utterances".to_owned(), ids.join(",")]);
    }
    Ok(arguments)
}

fn start(
    dir: &Path,
    sites: &Path,
    program: &WorkerProgram,
    parties: &[PartyRecipe],
) -> Result<Vec<WorkerDaemon>, DemoError> {
    let logs = dir.join("logs");
    std::fs::create_dir_all(&logs)?;
    let started = parties.iter().map(|party| {
        program.start(&sites.join(party.site), &logs.join(format!("{}.log", party.site))).map_err(DemoError::from)
    });
    started.collect()
}

/// Waits until the server knows the expected number of datasets.
async fn wait_for_datasets(
    ctx: &Ctx,
    expected: usize,
    consortium: &DemoConsortium,
    daemons: &mut [WorkerDaemon],
) -> Result<(), DemoError> {
    let end = tokio::time::Instant::now() + PATIENCE;
    let mut waiter = ctx.changes().subscribe_to_display();
    loop {
        let actor = &consortium.people[0].actor;
        let datasets =
            dataset::list(ctx, actor, consortium.id).await.map_err(explain_refusal("listing the datasets"))?;
        if datasets.len() == expected {
            return Ok(());
        }
        for daemon in &mut *daemons {
            daemon.check()?;
        }
        if tokio::time::Instant::now() > end {
            let count = datasets.len();
            return Err(DemoError::Job(format!(
                "'s workers registered {count} of {expected} datasets in time; see logs/"
            )));
        }
        waiter.wait(JobChannels::ALL, Duration::from_millis(500)).await;
    }
}

async fn set_budgets(ctx: &Ctx, consortium: &DemoConsortium) -> Result<(), DemoError> {
    let wrong = |error| DemoError::Job(format!("'s budget is wrong: {error}"));
    for person in &consortium.people[1..] {
        let own =
            dataset::list(ctx, &person.actor, consortium.id).await.map_err(explain_refusal("listing the datasets"))?;
        for dataset in own.iter().filter(|dataset| dataset.organization == person.organization) {
            let (unit, limit) = match dataset.content {
                // The unit that the demo's jobs protect: a limit for speakers would refuse them.
                DatasetContent::Speech | DatasetContent::Queries => (PrivacyUnit::Record, LIMIT),
                DatasetContent::Recordings => (PrivacyUnit::Words, transcription::LIMIT),
                DatasetContent::Table => (PrivacyUnit::User, LIMIT),
            };
            let (epsilon, delta) = (Epsilon::new(limit.0).map_err(wrong)?, Delta::new(limit.1).map_err(wrong)?);
            let new = NewBudget { unit, epsilon, delta, filter: None };
            budget::set(ctx, &person.actor, dataset.id, new).await.map_err(explain_refusal("setting a budget"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::classes;

    #[test]
    fn all_parties_count_the_classes_of_the_whole_label_file() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("labels.jsonl");
        let write = |text: &str| std::fs::write(&path, text).expect("written");
        write(
            "{\"u\": \"a\", \"frames\": 3, \"runs\": [[96, 1], [7, 2]]}\n\n{\"u\": \"b\", \"frames\": 1, \"runs\": [[4, 1]]}\n",
        );
        assert_eq!(classes(&path).expect("alignments"), 97);
        write("{\"u\": \"a\"}\n");
        let error = classes(&path).expect_err("no runs").to_string();
        assert!(error.contains("labels.jsonl") && error.contains("runs"), "{error}");
    }
}
