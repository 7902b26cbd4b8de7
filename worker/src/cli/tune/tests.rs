#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use clap::Parser;
use undertone_api::job::dp_sgd::{ModelPart, Optimizer};
use undertone_api::job::{JobKind, NewJob, Spec};

use crate::cli::{Cli, act, chain};
use crate::run::dp_sgd::tune::tests::{datasets, spec, write_dataset};
use crate::site::folder::Folder;
use crate::site::policy::TEMPLATE;

fn run(dir: &std::path::Path, more: &[&str]) -> Result<String, (u8, String)> {
    let place = |name: &str| dir.join(name).display().to_string();
    let (site, file, output) = (place("site"), place("job.json"), place("tuned.json"));
    let always = ["undertone-worker", "--site", &site, "tune", "--spec", &file, "--output", &output];
    let given = ["--dataset", "public", "--units", "20,20", "--rate", "1000", "--clip", "1", "--batch", "1"];
    let cli = Cli::try_parse_from(always.into_iter().chain(given).chain(more.iter().copied())).unwrap();
    let mut out = Vec::new();
    act(&cli, &mut out).map_err(|failure| (failure.code, chain(&*failure.error)))?;
    Ok(String::from_utf8(out).unwrap())
}

/// Makes a site with a dataset, and a job in a file.
fn site(policy: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::new(dir.path().join("site"));
    std::fs::create_dir_all(folder.datasets()).unwrap();
    write_dataset(&folder.datasets().join("public"));
    std::fs::write(folder.policy(), format!("{TEMPLATE}\n{policy}")).unwrap();
    let job = NewJob { title: "four sounds".to_owned(), spec: Spec::DpSgd(spec()) };
    std::fs::write(dir.path().join("job.json"), serde_json::to_string(&job).unwrap()).unwrap();
    dir
}

#[test]
fn what_is_written_is_a_proposal_that_the_contract_accepts() {
    let dir = site("[datasets.public]\nvisibility = \"public\"\n");
    let shown = run(dir.path(), &["--settings", "2", "--halvings", "0"]).unwrap();
    assert!(shown.contains("1*") && shown.contains("2 of 2") && shown.contains("nothing to hide"), "{shown}");
    let text = std::fs::read_to_string(dir.path().join("tuned.json")).unwrap();
    let job: NewJob = serde_json::from_str(&text).unwrap();
    let Spec::DpSgd(tuned) = job.spec else { panic!("it is of another kind") };
    assert_eq!((job.title.as_str(), tuned.check(&datasets())), ("four sounds", Vec::new()));
    assert!((tuned.private.unwrap().optimizer.learning_rate() - 1.0).abs() < 1e-12);
    let about: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(about["tuning"]["tried"].as_array().unwrap().len(), 2);
    // An existing file is refused before the search spends an hour.
    let (code, said) = run(dir.path(), &[]).unwrap_err();
    assert!(code == 1 && said.contains("exists already"), "{said}");
}

#[test]
fn a_dataset_that_the_policy_does_not_call_public_is_refused() {
    let dir = site("");
    let (code, said) = run(dir.path(), &[]).unwrap_err();
    assert!(code == 1 && said.contains("private") && said.contains("public"), "{said}");
    assert!(!dir.path().join("tuned.json").exists() && !dir.path().join("site/tune").exists());
}

#[test]
fn a_file_that_is_no_job_is_refused_with_the_reason() {
    let dir = site("");
    std::fs::write(dir.path().join("job.json"), r#"{"title":"x","kind":"dp_sgd","spec":{"unit":"record"}}"#).unwrap();
    let (_, said) = run(dir.path(), &[]).unwrap_err();
    assert!(said.contains("job.json") && said.contains("missing field"), "{said}");
}

#[test]
fn words_are_read_as_what_they_stand_for() {
    assert_eq!(super::optimizer("sgd:0.5:0"), Ok(Optimizer::Sgd { learning_rate: 0.5, momentum: 0.0 }));
    assert_eq!(super::optimizer("dp_adam:0.01"), Ok(Optimizer::DpAdam { learning_rate: 0.01 }));
    assert!(super::optimizer("sgd").is_err() && super::optimizer("adam:x").is_err());
    let named = super::parts("layer1+output").unwrap().0.unwrap();
    assert_eq!(Vec::from(named), [ModelPart::Layer1, ModelPart::Output]);
    assert!(super::parts("all").unwrap().0.is_none() && super::parts("lstm").is_err());
    assert!(super::decay("none").unwrap().0.is_none() && super::decay("1").is_err());
}
