//! Copies of one consortium: its data are made once, and every test opens a copy of its own.

use std::fs::Permissions;
use std::io;
use std::path::{Path, PathBuf};

use time::OffsetDateTime;

use super::{TestApp, open_for_tests};
use crate::config::Config;
use crate::ctx::ManualClock;

/// A file of a data folder.
struct TemplateFile {
    /// The path in the data folder.
    path: PathBuf,
    content: Vec<u8>,
    permissions: Permissions,
}

/// The data of a closed consortium on SQLite, in memory. Any number of equal consortia can be opened from it.
pub struct AppTemplate {
    config: Config,
    now: OffsetDateTime,
    files: Vec<TemplateFile>,
}

impl TestApp {
    /// Closes a consortium on SQLite and returns its data.
    pub async fn into_template(self) -> AppTemplate {
        let config = self.ctx.config.clone();
        let now = self.clock.now();
        self.ctx.shutdown.cancel();
        self.ctx.db.clone().close().await.expect("closed");
        let mut files = Vec::new();
        read_folder(self.dir.path(), Path::new(""), &mut files).expect("the data can be read");
        AppTemplate { config, now, files }
    }
}

impl AppTemplate {
    /// Opens a copy of the consortium, at the time at which the template was closed.
    pub async fn open(&self) -> TestApp {
        let dir = tempfile::tempdir().expect("a temporary folder");
        for file in &self.files {
            write_file(dir.path(), file).expect("the data can be written");
        }
        let config = Config { data_dir: dir.path().to_owned(), ..self.config.clone() };
        let clock = ManualClock::starting_at(self.now);
        // Not the seed of the template: secrets and ids would repeat.
        let ctx = open_for_tests(config, &clock, 2).await.expect("the copy opens");
        TestApp { ctx, clock, dir, database: None }
    }
}

fn read_folder(root: &Path, folder: &Path, files: &mut Vec<TemplateFile>) -> io::Result<()> {
    for entry in std::fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            read_folder(root, &path, files)?;
        } else {
            let content = std::fs::read(entry.path())?;
            files.push(TemplateFile { path, content, permissions: entry.metadata()?.permissions() });
        }
    }
    Ok(())
}

fn write_file(root: &Path, file: &TemplateFile) -> io::Result<()> {
    let path = root.join(&file.path);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(&path, &file.content)?;
    std::fs::set_permissions(&path, file.permissions.clone())
}
