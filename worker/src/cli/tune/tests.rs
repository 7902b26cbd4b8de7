#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use clap::Parser;
use undertone_api::job::dp_sgd::{ModelPart, Optimizer};
use undertone_api::job::{JobKind, NewJob, Spec, dp_sgd};

use crate::cli::tests::enrolled_config;
use crate::cli::{CommandLine, format_error, run_command};
use crate::config::Config;
use crate::dp::device::{Compute, Processor};
use crate::run::dp_sgd::tune::tests::{datasets, predict_cost, row_spec, spec, tables, write_dataset, write_table};
use crate::site::folder::Folder;
use crate::site::policy::TEMPLATE;

fn run(dir: &std::path::Path, more: &[&str]) -> Result<String, (u8, String)> {
    let place = |name: &str| dir.join(name).display().to_string();
    let site = place("site");
    let file = place("job.json");
    let output = place("tuned.json");
    let paths = ["undertone-worker", "--site", &site, "tune", "--spec", &file, "--output", &output];
    let options = ["--dataset", "public", "--units", "20,20", "--rate", "1000", "--clip", "1", "--batch", "1"];
    let arguments = paths.into_iter().chain(options).chain(more.iter().copied());
    let command_line = CommandLine::try_parse_from(arguments).unwrap();
    let mut out = Vec::new();
    run_command(&command_line, &mut out).map_err(|failure| (failure.code, format_error(&*failure.error)))?;
    Ok(String::from_utf8(out).unwrap())
}

/// Makes a site with a dataset, and a job in a file.
fn site(policy: &str) -> tempfile::TempDir {
    let (dir, folder) = site_with_job("four sounds", spec(), policy);
    write_dataset(&folder.datasets().join("public"));
    dir
}

/// Makes a site with a public table, and a job in a file that predicts a number of it.
fn table_site() -> tempfile::TempDir {
    let mut spec = row_spec();
    predict_cost(&mut spec);
    spec.warm_start.epochs = 0;
    let private = spec.private.as_mut().unwrap();
    (private.rounds, private.optimizer) = (20, Optimizer::Adam { learning_rate: 5e-5 });
    let (dir, folder) = site_with_job("costs", spec, PUBLIC);
    write_table(&folder.datasets().join("public"), 0);
    dir
}

const PUBLIC: &str = "[datasets.public]\nvisibility = \"public\"\n";

fn site_with_job(title: &str, spec: dp_sgd::Spec, policy: &str) -> (tempfile::TempDir, Folder) {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::new(dir.path().join("site"));
    std::fs::create_dir_all(folder.datasets()).unwrap();
    std::fs::write(folder.policy(), format!("{TEMPLATE}\n{policy}")).unwrap();
    let job = NewJob { title: title.to_owned(), spec: Spec::DpSgd(spec) };
    std::fs::write(dir.path().join("job.json"), serde_json::to_string(&job).unwrap()).unwrap();
    (dir, folder)
}

fn tuned(dir: &std::path::Path) -> serde_json::Value {
    serde_json::from_str(&std::fs::read_to_string(dir.join("tuned.json")).unwrap()).unwrap()
}

#[test]
fn tuned_job_is_a_valid_proposal() {
    let dir = site(PUBLIC);
    let summary = run(dir.path(), &["--settings", "2", "--halvings", "0"]).unwrap();
    assert!(summary.contains("1*") && summary.contains("2 of 2") && summary.contains("nothing to hide"), "{summary}");
    let text = std::fs::read_to_string(dir.path().join("tuned.json")).unwrap();
    let job: NewJob = serde_json::from_str(&text).unwrap();
    let Spec::DpSgd(tuned) = job.spec else { panic!("it is of another kind") };
    assert_eq!((job.title.as_str(), tuned.check(&datasets())), ("four sounds", Vec::new()));
    assert!((tuned.private.unwrap().optimizer.learning_rate() - 1.0).abs() < 1e-12);
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["tuning"]["tried"].as_array().unwrap().len(), 2);
    // An existing file is refused before the search spends an hour.
    let (code, message) = run(dir.path(), &[]).unwrap_err();
    assert!(code == 1 && message.contains("exists already"), "{message}");
}

#[test]
fn job_on_a_table_is_tuned_by_the_error_of_its_number() {
    let dir = table_site();
    let summary = run(dir.path(), &["--settings", "2", "--halvings", "0"]).unwrap();
    assert!(summary.contains("RMSE") && !summary.contains("ACCURACY") && summary.contains("1*"), "{summary}");
    assert!(summary.contains("a share of the target's declared range"), "{summary}");
    let document = tuned(dir.path());
    let job: NewJob = serde_json::from_value(document.clone()).unwrap();
    let Spec::DpSgd(spec) = job.spec else { panic!("it is of another kind") };
    assert_eq!(spec.check(&tables(&dir.path().join("site/data/public"))), []);
    assert!((spec.private.unwrap().optimizer.learning_rate() - 0.05).abs() < 1e-12);
    let tuning = &document["tuning"];
    let (chosen, public) = (tuning["chosen"]["loss"].as_f64(), tuning["public_loss"].as_f64());
    assert!(tuning["measure"] == "rmse" && chosen < public, "{tuning}");
}

#[test]
fn copies_are_an_option_of_speech() {
    let dir = site(PUBLIC);
    let summary = run(dir.path(), &["--copies", "1", "--copies", "2", "--halvings", "0"]).unwrap();
    assert!(summary.contains(", 2 copies") && summary.contains("3 of 3"), "{summary}");
    let tried = tuned(dir.path())["tuning"]["tried"].as_array().unwrap().clone();
    assert_eq!(tried.iter().filter(|trial| trial["setting"]["copies"] == 2).count(), 1);
    for (dir, count) in [(site(PUBLIC), "17"), (table_site(), "2")] {
        let (code, message) = run(dir.path(), &["--copies", count]).unwrap_err();
        assert!(code == 1 && message.contains(&format!("--copies {count}: ")), "{message}");
        assert!(!dir.path().join("tuned.json").exists());
    }
}

#[test]
fn dataset_of_other_content_is_refused() {
    let dir = table_site();
    let job = NewJob { title: "four sounds".to_owned(), spec: Spec::DpSgd(spec()) };
    std::fs::write(dir.path().join("job.json"), serde_json::to_string(&job).unwrap()).unwrap();
    let (code, message) = run(dir.path(), &[]).unwrap_err();
    assert!(code == 1 && message.contains("--dataset") && message.contains("public dataset of speech"), "{message}");
}

#[test]
fn budget_is_divided_over_each_number_of_jobs() {
    let dir = site(PUBLIC);
    let goal = ["--epsilon", "8", "--delta", "1e-5", "--jobs", "2,1", "--settings", "1", "--halvings", "0"];
    let summary = run(dir.path(), &goal).unwrap();
    assert!(summary.contains("Best setting by the number of jobs"), "{summary}");
    let document = tuned(dir.path());
    let division = document["tuning"]["division"].as_array().unwrap();
    let z = |place: usize| division[place]["chosen"]["noise_multiplier"].as_f64().unwrap();
    assert_eq!((&division[0]["jobs"], &division[1]["jobs"]), (&2.into(), &1.into()));
    assert!(z(0) > z(1), "two jobs need more noise each: {division:?}");
    let job: NewJob = serde_json::from_value(document.clone()).unwrap();
    let Spec::DpSgd(tuned) = job.spec else { panic!("it is of another kind") };
    let written = tuned.participants.iter().find_map(|party| party.noise).unwrap().noise_multiplier.get();
    assert!((written - z(0)).abs() < 1e-9, "the file has the job of the first number");
}

#[cfg(not(feature = "cuda"))]
#[test]
fn unusable_device_of_the_site_is_refused_before_the_search() {
    let dir = site(PUBLIC);
    let compute = Compute { device: Processor::Cuda(0), threads: 0 };
    Config { compute, ..enrolled_config() }.store(&Folder::new(dir.path().join("site"))).unwrap();
    let (code, message) = run(dir.path(), &["--settings", "1"]).unwrap_err();
    assert!(code == 1 && message.contains("cuda"), "{message}");
    assert!(!dir.path().join("tuned.json").exists() && !dir.path().join("site/tune").exists());
}

#[test]
fn private_dataset_is_refused() {
    let dir = site("");
    let (code, message) = run(dir.path(), &[]).unwrap_err();
    assert!(code == 1 && message.contains("private") && message.contains("public"), "{message}");
    assert!(!dir.path().join("tuned.json").exists() && !dir.path().join("site/tune").exists());
}

#[test]
fn file_without_a_job_is_refused_with_the_reason() {
    let dir = site("");
    std::fs::write(dir.path().join("job.json"), r#"{"title":"x","kind":"dp_sgd","spec":{"unit":"record"}}"#).unwrap();
    let (_, message) = run(dir.path(), &[]).unwrap_err();
    assert!(message.contains("job.json") && message.contains("missing field"), "{message}");
}

#[test]
fn arguments_are_parsed() {
    assert_eq!(super::parse_optimizer("sgd:0.5:0"), Ok(Optimizer::Sgd { learning_rate: 0.5, momentum: 0.0 }));
    assert_eq!(super::parse_optimizer("dp_adam:0.01"), Ok(Optimizer::DpAdam { learning_rate: 0.01 }));
    assert!(super::parse_optimizer("sgd").is_err() && super::parse_optimizer("adam:x").is_err());
    let parts = super::parse_parts("layer1+output").unwrap().0.unwrap();
    assert_eq!(Vec::from(parts), [ModelPart::Layer1, ModelPart::Output]);
    assert!(super::parse_parts("all").unwrap().0.is_none() && super::parse_parts("lstm").is_err());
    assert!(super::parse_decay("none").unwrap().0.is_none() && super::parse_decay("1").is_err());
}
