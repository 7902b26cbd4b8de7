//! The initial model: the manifest's, a whole chain of jobs, and sums that follow from the stated charges.

use undertone_api::model::ModelSource;
use undertone_api::signed::certificate::{LineageSum, MOST_EARLIER_JOBS, ModelLineage};

use super::OpenedCertificate;
use super::figures::{format_figure, same};
use crate::PointFinding;
use crate::price;

/// Checks the lineage of the initial model. The charges of earlier jobs are those that the server signed here; their
/// own certificates, named by digest, prove them.
pub(super) fn check(opened: &OpenedCertificate) -> PointFinding {
    let (stated, origin) = (&opened.certificate.initial_model, &opened.manifest.initial_model);
    let (model, origin) = match (stated, origin) {
        (None, None) => return PointFinding::Holds("the job began with no earlier model".to_owned()),
        (Some(model), Some(origin)) => (model, origin),
        (None, Some(_)) => return fails("the manifest names an initial model, and the certificate no lineage of it"),
        (Some(_), None) => return fails("the certificate names an initial model that the manifest does not have"),
    };
    let mut wrong = Vec::new();
    let newest = model.jobs.first();
    let is_stated = newest.is_some_and(|job| {
        (job.job, job.source) == (origin.job, origin.source)
            && (&job.title, &job.file, &job.digest) == (&origin.title, &origin.file, &origin.digest)
    });
    if model.digest != origin.digest || !is_stated || !opened.manifest.has_valid_origin() {
        wrong.push("the initial model is not the one that the manifest names".to_owned());
    }
    wrong.extend(find_chain_defects(model));
    match price::lineage_sums(&opened.certificate) {
        Ok(sums) => wrong.extend(compare_sums(&model.sums, &sums)),
        Err(error) => wrong.push(format!("the sums cannot be computed: {error}")),
    }
    let earlier: Vec<_> =
        model.jobs.iter().map(|job| format!("{} (certificate {})", job.job, job.certificate)).collect();
    PointFinding::from_defects(wrong, || format!("began with {}, of job {}", model.digest, earlier.join(", of job ")))
}

fn fails(what: &str) -> PointFinding {
    PointFinding::Fails(vec![what.to_owned()])
}

/// Returns the defects of the chain of jobs alone.
fn find_chain_defects(model: &ModelLineage) -> Vec<String> {
    let mut wrong = Vec::new();
    if model.jobs.len() > MOST_EARLIER_JOBS {
        wrong.push(format!("the lineage has {} jobs, more than {MOST_EARLIER_JOBS}", model.jobs.len()));
    }
    for job in &model.jobs {
        let is_repeated = model.jobs.iter().filter(|other| other.job == job.job).count() > 1;
        if is_repeated {
            wrong.push(format!("the job {} is in its own lineage", job.job));
        }
        match job.source {
            ModelSource::Open => wrong.push(format!("{} of the job {} is not protected", job.file, job.job)),
            ModelSource::Public if !job.charges.is_empty() => {
                wrong.push(format!("{} of the job {} is of public data, and is charged", job.file, job.job));
            }
            ModelSource::Public | ModelSource::Private => {}
        }
    }
    wrong
}

/// Returns every difference between the stated sums and the computed ones.
fn compare_sums(stated: &[LineageSum], computed: &[LineageSum]) -> Vec<String> {
    if stated.len() != computed.len() {
        return vec!["the sums are of other accounts than the jobs of the lineage charged".to_owned()];
    }
    let pairs = stated.iter().zip(computed);
    let differing = pairs.filter(|(stated, computed)| {
        let whole = LineageSum { figure: stated.figure, ..(*computed).clone() };
        **stated != whole || !same(stated.figure, computed.figure)
    });
    let describe = |(stated, computed): (&LineageSum, &LineageSum)| {
        format!(
            "{}: the cost of all jobs is {}, not {}",
            computed.organization_name,
            format_figure(computed.figure),
            format_figure(stated.figure)
        )
    };
    differing.map(describe).collect()
}
