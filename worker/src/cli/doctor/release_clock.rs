//! Release clocks of the site's parts: reports late releases.

use super::CheckResults;
use crate::daemon::ClockRecord;
use crate::site::folder::Folder;

const CHECK: &str = "release clock";

pub(super) fn check_release_clocks(folder: &Folder, results: &mut CheckResults) {
    let parts =
        |path: std::path::PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten().map(|item| item.path());
    let records = parts(folder.all_work()).flat_map(|job| {
        let name = job.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        parts(job).filter_map(move |part| Some((name.clone(), ClockRecord::load(&part)?)))
    });
    let mut late = Vec::new();
    let mut count = 0;
    for (job, record) in records {
        count += 1;
        if record.late > 0 {
            late.push((job, record));
        }
    }
    if late.is_empty() {
        return results.ok(CHECK, if count == 0 { "no job has used one" } else { "no release missed its first tick" });
    }
    for (job, record) in late {
        let problem = format!(
            "job {job}: {} of at least {} releases missed the first tick of {} s, and other participants can see this",
            record.late,
            record.releases,
            record.period_millis as f64 / 1_000.0
        );
        let remedy = "raise jobs.release_period_seconds in policy.toml, or run fewer jobs at a time";
        results.warn(CHECK, problem, remedy);
    }
}
