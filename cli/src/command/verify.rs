//! `undertone verify`: a certificate, examined on this machine by the same code as the server's program.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use undertone_api::id::JobId;
use undertone_api::signed::{self, Certificate, CertificateFile, SignedError};
use undertone_certificate::{CertificateVerdict, PointFinding, TrustedInputs, VerificationPoint, verify};
use utoipa::ToSchema;

use super::InputError;
use super::fetch::digest_file;
use crate::client::RestClient;
use crate::output::{StandardOutput, escape_line};
use crate::{CommandAnswer, CommandResult, ignore_closed_pipe};

/// The options of `verify`.
#[derive(Debug, clap::Args)]
pub(crate) struct VerifyOptions {
    /// The id of a job, or a certificate file. A file needs no server and no network.
    #[arg(value_name = "JOB|FILE")]
    subject: String,
    /// The model file that the certificate must describe.
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// The server's public key in hex, as pinned by a worker. Without it, the key in the certificate is used, which is a
    /// weaker check.
    #[arg(long, value_name = "HEX")]
    server_key: Option<String>,
    /// A site's public key in hex; may be repeated. If set, each site must have one of these keys.
    #[arg(long, value_name = "HEX")]
    site_key: Vec<String>,
    /// Write the certificate of the job to a new file, whatever its checks show.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

/// The result of a verification.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct VerificationReport {
    /// Whether no check failed. A point that could not be checked is no failure.
    holds: bool,
    /// The points, in the order of checking.
    points: Vec<PointReport>,
}

/// The result of one check.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PointReport {
    /// The point in one word: `signature`, `receipts`, `epsilon`.
    point: String,
    /// The result.
    result: PointResult,
    /// A summary, the reason why it could not be checked, or each defect.
    findings: Vec<String>,
}

/// The result of a check in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PointResult {
    /// It holds.
    Holds,
    /// It could not be checked.
    Unchecked,
    /// It does not hold.
    Fails,
}

/// The reason why nothing was verified.
#[derive(Debug, thiserror::Error)]
enum VerifyError {
    /// The file is no certificate.
    #[error("{path} is not a certificate file")]
    Form {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// The server's key is no key.
    #[error("--server-key: {0}; expected 64 hex digits")]
    ServerKey(#[source] SignedError),
    /// The certificate cannot be saved.
    #[error("cannot write {path}")]
    Save {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Another file is in the place of the certificate.
    #[error("--save: {path} is another file than the job's certificate: choose another name, or delete the file first")]
    Occupied {
        /// The file.
        path: PathBuf,
    },
    /// A certificate file needs no copy.
    #[error("--save needs the id of a job instead of the file {0:?}: leave out --save, or copy the file")]
    SaveOfFile(String),
    /// The server answered with the certificate of another job.
    #[error("the server answered with the certificate of another job ({0})")]
    OtherJob(JobId),
}

/// Verifies a certificate.
pub(crate) async fn run(options: &VerifyOptions, out: &mut StandardOutput) -> CommandResult {
    let trusted = TrustedInputs {
        server_key: options
            .server_key
            .as_deref()
            .map(signed::public_key)
            .transpose()
            .map_err(VerifyError::ServerKey)?,
        site_keys: options.site_key.iter().map(|key| key.to_lowercase()).collect(),
        model: options.model.as_deref().map(digest_model).transpose()?,
    };
    let path = Path::new(&options.subject);
    let file = match options.subject.parse::<JobId>() {
        Ok(job) if !path.exists() => take_certificate(job, options.save.as_deref()).await?,
        _ if options.save.is_some() => return Err(VerifyError::SaveOfFile(options.subject.clone()).into()),
        _ => read_certificate(path)?,
    };
    let report = VerificationReport::from_verdict(&verify(&file, &trusted));
    ignore_closed_pipe(out.print(&report, format_report))?;
    Ok(CommandAnswer::from_condition(report.holds))
}

fn digest_model(path: &Path) -> Result<(u64, String), InputError> {
    digest_file(path).map_err(|source| InputError::File { path: path.to_owned(), source })
}

fn read_certificate(path: &Path) -> Result<CertificateFile, Box<dyn std::error::Error + Send + Sync>> {
    let text = std::fs::read_to_string(path).map_err(|source| InputError::File { path: path.to_owned(), source })?;
    Ok(serde_json::from_str(&text).map_err(|source| VerifyError::Form { path: path.to_owned(), source })?)
}

/// Downloads the certificate of a job. The id in it must be the requested one, or its price would be another job's.
async fn take_certificate(
    job: JobId,
    save: Option<&Path>,
) -> Result<CertificateFile, Box<dyn std::error::Error + Send + Sync>> {
    let file: CertificateFile = RestClient::open()?.get(&format!("/jobs/{job}/certificate")).await?;
    if let Some(path) = save {
        save_certificate(path, &(serde_json::to_string_pretty(&file)? + "\n"))?;
    }
    match serde_json::from_str::<Certificate>(&file.payload) {
        Ok(certificate) if certificate.job.id != job => Err(VerifyError::OtherJob(certificate.job.id).into()),
        // A payload that is no certificate fails the check of its signature.
        _ => Ok(file),
    }
}

/// Writes a certificate to a new file. A file with the same content may be there already.
fn save_certificate(path: &Path, text: &str) -> Result<(), VerifyError> {
    let in_file = |source| VerifyError::Save { path: path.to_owned(), source };
    match File::create_new(path) {
        Ok(mut file) => file.write_all(text.as_bytes()).map_err(in_file),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match std::fs::read(path) {
            Ok(present) if present == text.as_bytes() => Ok(()),
            _ => Err(VerifyError::Occupied { path: path.to_owned() }),
        },
        Err(source) => Err(in_file(source)),
    }
}

impl VerificationReport {
    fn from_verdict(verdict: &CertificateVerdict) -> Self {
        let report = |point: VerificationPoint| {
            let (result, findings) = match verdict.finding(point)? {
                PointFinding::Holds(summary) => (PointResult::Holds, vec![summary.clone()]),
                PointFinding::Unchecked(reason) => (PointResult::Unchecked, vec![reason.clone()]),
                PointFinding::Fails(defects) => (PointResult::Fails, defects.clone()),
            };
            Some(PointReport { point: point.name().to_owned(), result, findings })
        };
        let points = VerificationPoint::ALL.into_iter().filter_map(report).collect();
        Self { holds: verdict.holds(), points }
    }
}

/// Returns a line for each finding, and the verdict.
fn format_report(report: &VerificationReport) -> String {
    let mut text = String::new();
    for point in &report.points {
        let mark = match point.result {
            PointResult::Holds => "ok",
            PointResult::Unchecked => "-",
            PointResult::Fails => "FAILED",
        };
        for finding in &point.findings {
            let note = if point.result == PointResult::Unchecked { "not checked: " } else { "" };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{mark:<8}{:<11}{note}{}", point.point, escape_line(finding));
        }
    }
    text + if report.holds { "No check failed.\n" } else { "The certificate does not hold.\n" }
}

#[cfg(test)]
mod tests {
    use undertone_api::signed::CertificateFile;
    use undertone_certificate::{TrustedInputs, verify};

    use super::{PointReport, PointResult, VerificationReport, VerifyError, format_report, save_certificate};

    #[test]
    fn finding_is_one_line() {
        let findings = vec!["north\u{1b}[1A\nok      signature  signed".to_owned()];
        let point = PointReport { point: "sites".to_owned(), result: PointResult::Fails, findings };
        let text = format_report(&VerificationReport { holds: false, points: vec![point] });
        assert_eq!(text.lines().count(), 2, "{text:?}");
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    }

    #[test]
    fn unsigned_certificate_does_not_hold() {
        let text =
            r#"{"payload":"{}","signature":"","evidence":{"manifest":{"payload":"","signature":""},"receipts":[]}}"#;
        let file: CertificateFile = serde_json::from_str(text).expect("a file");
        let report = VerificationReport::from_verdict(&verify(&file, &TrustedInputs::default()));
        assert!(!report.holds);
        assert_eq!((report.points.len(), report.points[0].result), (1, PointResult::Fails));
        let text = format_report(&report);
        assert!(text.starts_with("FAILED  signature  ") && text.ends_with("does not hold.\n"), "{text}");
    }

    #[test]
    fn other_file_is_no_place_for_a_certificate() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("certificate.json");
        save_certificate(&path, "first\n").expect("a new file");
        save_certificate(&path, "first\n").expect("the same content");
        let error = save_certificate(&path, "second\n").expect_err("other content");
        assert!(matches!(error, VerifyError::Occupied { .. }), "{error}");
        assert_eq!(std::fs::read_to_string(&path).expect("there"), "first\n");
        let error = save_certificate(&folder.path().join("missing/certificate.json"), "").expect_err("no folder");
        assert!(matches!(error, VerifyError::Save { .. }), "{error}");
    }
}
