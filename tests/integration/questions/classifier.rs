//! The classifier of a finished job: its record in the registry, and its labels for the queries of a file.

use std::fs;

use support::stage::{TestConsortium, TestResult};
use undertone_api::job::Job;
use undertone_api::model::ModelSource;
use undertone_api::model::record::{ModelDesign, ModelRecord, QualityOrigin};

/// Checks the record of the classifier, and that a site labels queries with its file.
pub(super) async fn is_recorded_and_labels_queries(stage: &TestConsortium, job: &Job) -> TestResult<()> {
    let site = &stage.sites[0];
    let files = site.client.artifacts(job.summary.id).await?;
    let find = |name: &str| files.iter().find(|file| file.name == name).ok_or("a file of the job");
    let file = find("classifier.safetensors")?;
    let record: ModelRecord = site.client.get(&format!("/artifacts/{}/model", file.id)).await?;
    assert_eq!((record.file.source, record.version), (Some(ModelSource::Private), 1));
    let ModelDesign::Classifier { labels, .. } = &record.design else { return Err("a classifier".into()) };
    assert_eq!(labels.len(), 3);
    assert_eq!(record.privacy.len(), 2, "both hospitals paid: {:?}", record.privacy);
    assert!(record.privacy.iter().all(|sum| sum.figure.and_then(|figure| figure.epsilon).is_some()));
    let quality: Vec<_> = record.quality.iter().map(|one| (one.origin, &*one.test, &*one.metric)).collect();
    assert_eq!(quality, [(QualityOrigin::Training, "held out", "accuracy")]);
    let card = String::from_utf8(site.client.download(&format!("/artifacts/{}/model/card", file.id)).await?)?;
    assert!(card.contains("A classifier of queries") && card.contains("any one record"), "{card}");
    let archive = site.client.get::<serde_json::Value>(&format!("/artifacts/{}/model/archive", file.id)).await.err();
    let problem = archive.as_ref().and_then(|error| error.problem()).ok_or("it has no ONNX graph")?;
    assert!(problem.detail.contains("ONNX"), "{problem:?}");

    let path = site.folder().join(&file.name);
    fs::write(&path, site.client.content(file.id).await?)?;
    let answered = String::from_utf8(site.client.content(find("labels.jsonl")?.id).await?)?;
    let answered: Vec<serde_json::Value> = answered.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let texts: Vec<&str> = answered.iter().filter_map(|line| line["text"].as_str()).collect();
    let (queries, output) = (site.folder().join("queries.csv"), site.folder().join("labels.csv"));
    fs::write(&queries, format!("asked\n{}\n", texts.join("\n")))?;
    let utf8 = |path: &std::path::Path| path.to_str().map(str::to_owned).ok_or("a path in UTF-8");
    let (model, queries, written) = (utf8(&path)?, utf8(&queries)?, utf8(&output)?);
    site.command(&["predict", &model, &queries, "--column", "asked", "--output", &written])?;
    let labelled = fs::read_to_string(&output)?;
    let labels = labelled.lines().skip(1).filter_map(|line| line.split(',').nth(1));
    let right = labels.zip(&answered).filter(|(label, line)| line["label"] == *label).count();
    assert!(3 * right > 2 * texts.len(), "{right} of {} queries that it learned from: {labelled}", texts.len());
    Ok(())
}
