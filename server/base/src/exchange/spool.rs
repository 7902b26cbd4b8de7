//! A temporary file without a name between an export and its client. The database fills it at its own speed, and the
//! client reads it at its own. So a slow client occupies a file, but neither a database connection nor a snapshot of
//! the tables.
//!
//! The client reads while the export is still being written. The file is deleted with its export, even if the process
//! crashes.

use std::collections::HashMap;
use std::fs::File;
use std::hash::Hash;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt as _};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout, timeout_at};
use undertone_api::id::{MemberId, OrganizationId};
use undertone_api::problem::{Code, Problem};

use crate::auth::Actor;
use crate::error::Error;
use crate::metrics::{Limit, Metrics};

/// The highest number of exports that are written concurrently.
pub const MOST_WRITTEN: usize = 2;
/// The highest number of exports with a file, including those that clients still read.
pub const MOST_HELD: usize = 8;
/// Of these, exports of the members of one organization: half, so that no organization holds all places.
pub const MOST_OF_ORGANIZATION: usize = 4;
/// Of these, the highest number of one member.
pub const MOST_OF_MEMBER: usize = 2;
/// The highest number of bytes of one export.
pub const LARGEST: u64 = 4 << 30;
/// The longest wait for a turn to write.
pub const LONGEST_WAIT: Duration = Duration::from_secs(20);
/// The longest time in which a client may read an export.
pub const LONGEST_READ: Duration = Duration::from_hours(1);
/// Seconds after which a refused caller may retry.
const LATER: u32 = 60;
/// Bytes that are written and read at once.
const PIECE: usize = 256 << 10;

/// The limits of exports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpoolLimits {
    /// See [`MOST_WRITTEN`].
    pub written: usize,
    /// See [`MOST_HELD`].
    pub held: usize,
    /// See [`MOST_OF_ORGANIZATION`].
    pub of_organization: usize,
    /// See [`MOST_OF_MEMBER`].
    pub(crate) of_member: usize,
    /// See [`LARGEST`].
    pub bytes: u64,
    /// See [`LONGEST_WAIT`].
    pub wait: Duration,
    /// See [`LONGEST_READ`].
    pub read: Duration,
}

impl Default for SpoolLimits {
    fn default() -> Self {
        Self {
            written: MOST_WRITTEN,
            held: MOST_HELD,
            of_organization: MOST_OF_ORGANIZATION,
            of_member: MOST_OF_MEMBER,
            bytes: LARGEST,
            wait: LONGEST_WAIT,
            read: LONGEST_READ,
        }
    }
}

/// The turns and slots of exports in this process.
#[derive(Debug)]
pub struct SpoolSlots {
    limits: SpoolLimits,
    metrics: Metrics,
    turns: Arc<Semaphore>,
    open_spools: Mutex<OpenSpools>,
}

#[derive(Debug, Default)]
struct OpenSpools {
    total: usize,
    by_organization: HashMap<OrganizationId, usize>,
    by_member: HashMap<MemberId, usize>,
}

/// The caller of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpoolCaller {
    /// The member.
    pub member: MemberId,
    /// The member's organization, if there is one.
    pub organization: Option<OrganizationId>,
}

impl From<&Actor> for SpoolCaller {
    /// Returns the member with the organization that joined first, so that no request chooses.
    fn from(actor: &Actor) -> Self {
        Self { member: actor.id(), organization: actor.organizations().first().copied() }
    }
}

impl SpoolSlots {
    /// Makes free slots.
    pub(crate) fn new(limits: SpoolLimits, metrics: Metrics) -> Arc<Self> {
        let turns = Arc::new(Semaphore::new(limits.written));
        Arc::new(Self { limits, metrics, turns, open_spools: Mutex::default() })
    }

    /// Begins an export of `caller`, in a file in `folder`. Waits for a turn.
    ///
    /// # Errors
    /// `rate_limited` where the member or the organization has too many, `unavailable` where there are too many in all or no turn comes in time.
    pub async fn begin(
        self: &Arc<Self>,
        caller: SpoolCaller,
        folder: &Path,
    ) -> Result<(SpoolWriter, SpoolReader), Error> {
        let slot = self.hold(caller)?;
        let turn = timeout(self.limits.wait, Arc::clone(&self.turns).acquire_owned()).await;
        let turn = turn.ok().and_then(Result::ok).ok_or_else(|| self.refuse(Code::Unavailable, "other exports run"))?;
        let folder = folder.to_owned();
        let opened = tokio::task::spawn_blocking(move || {
            let file = tempfile::tempfile_in(folder)?;
            Ok::<_, io::Error>((file.try_clone()?, file))
        });
        let opened = opened.await.map_err(|error| Error::internal("opening an export's file", error))?;
        let (file, copy) = opened.map_err(|error| Error::internal("opening an export's file", error))?;
        let (progress, receiver) = watch::channel(SpoolProgress { bytes: 0, is_whole: false });
        let writer = SpoolWriter {
            file: tokio::fs::File::from_std(file),
            pending: Vec::with_capacity(PIECE),
            progress,
            most: self.limits.bytes,
            metrics: self.metrics.clone(),
            _turn: turn,
        };
        let deadline = Instant::now() + self.limits.read;
        Ok((writer, SpoolReader { file: Arc::new(copy), offset: 0, progress: receiver, deadline, _slot: slot }))
    }

    fn hold(self: &Arc<Self>, caller: SpoolCaller) -> Result<SpoolSlot, Error> {
        let mut spools = self.lock();
        let of_member = spools.by_member.get(&caller.member).copied().unwrap_or_default();
        if of_member >= self.limits.of_member {
            return Err(self.refuse(Code::RateLimited, "you have as many exports under way as a member may"));
        }
        let of_organization = caller.organization.and_then(|id| spools.by_organization.get(&id)).copied();
        let of_organization = of_organization.unwrap_or_default();
        if of_organization >= self.limits.of_organization {
            let reason = "the members of your organization have as many exports under way as an organization may";
            return Err(self.refuse(Code::RateLimited, reason));
        }
        if spools.total >= self.limits.held {
            return Err(self.refuse(Code::Unavailable, "other exports are still read"));
        }
        spools.total += 1;
        spools.by_member.insert(caller.member, of_member + 1);
        if let Some(id) = caller.organization {
            spools.by_organization.insert(id, of_organization + 1);
        }
        drop(spools);
        Ok(SpoolSlot { slots: Arc::clone(self), caller })
    }

    fn refuse(&self, code: Code, reason: &str) -> Error {
        self.metrics.reach(Limit::Exports);
        Problem::new(code, format!("{reason}: try again in {LATER} s")).with_retry_after(LATER).into()
    }

    fn lock(&self) -> MutexGuard<'_, OpenSpools> {
        self.open_spools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The slot of an export until its client has read it.
#[derive(Debug)]
struct SpoolSlot {
    slots: Arc<SpoolSlots>,
    caller: SpoolCaller,
}

impl Drop for SpoolSlot {
    fn drop(&mut self) {
        let mut spools = self.slots.lock();
        spools.total -= 1;
        subtract_one(&mut spools.by_member, &self.caller.member);
        if let Some(id) = self.caller.organization {
            subtract_one(&mut spools.by_organization, &id);
        }
    }
}

/// Takes one away from the count of `key`, and forgets a count of nothing.
fn subtract_one<K: Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// The written part of an export.
#[derive(Debug, Clone, Copy)]
struct SpoolProgress {
    bytes: u64,
    is_whole: bool,
}

/// Writes an export. An export that is dropped before [`Self::finish`] has failed, and its reader fails too.
#[derive(Debug)]
pub struct SpoolWriter {
    file: tokio::fs::File,
    pending: Vec<u8>,
    progress: watch::Sender<SpoolProgress>,
    most: u64,
    metrics: Metrics,
    _turn: OwnedSemaphorePermit,
}

impl SpoolWriter {
    /// Writes the next bytes.
    ///
    /// # Errors
    /// `too_large` above the limit; or if the disk fails, or the client has disconnected.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() < PIECE { Ok(()) } else { self.flush().await }
    }

    /// Completes an export.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub async fn finish(mut self) -> Result<(), Error> {
        self.flush().await?;
        self.progress.send_modify(|progress| progress.is_whole = true);
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), Error> {
        if self.progress.is_closed() {
            return Err(Error::internal("writing an export", "the client is gone"));
        }
        let bytes = self.progress.borrow().bytes + self.pending.len() as u64;
        if bytes > self.most {
            self.metrics.reach(Limit::ExportBytes);
            let most = self.most;
            let detail =
                format!("an export has at most {most} bytes: examine the database with `undertone-server verify`");
            return Err(Error::problem(Code::TooLarge, detail));
        }
        let failed = |error| Error::internal("writing an export", error);
        self.file.write_all(&self.pending).await.map_err(failed)?;
        // The reader sees only flushed bytes.
        self.file.flush().await.map_err(failed)?;
        self.pending.clear();
        self.progress.send_modify(|progress| progress.bytes = bytes);
        Ok(())
    }
}

/// Reads an export while it is being written.
#[derive(Debug)]
pub struct SpoolReader {
    file: Arc<File>,
    offset: u64,
    progress: watch::Receiver<SpoolProgress>,
    deadline: Instant,
    _slot: SpoolSlot,
}

impl SpoolReader {
    /// Returns the bytes in pieces. The stream fails if the export failed, or was not read in time.
    pub fn into_stream(self) -> BoxStream<'static, io::Result<Bytes>> {
        let pieces = stream::try_unfold(self, |mut reader| async move {
            let piece = reader.next().await?;
            Ok(piece.map(|piece| (piece, reader)))
        });
        pieces.boxed()
    }

    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        let late = || io::Error::new(io::ErrorKind::TimedOut, "the export was not read in time");
        loop {
            if Instant::now() >= self.deadline {
                return Err(late());
            }
            let SpoolProgress { bytes, is_whole } = *self.progress.borrow_and_update();
            if self.offset < bytes {
                return self.read(bytes).await.map(Some);
            }
            if is_whole {
                return Ok(None);
            }
            let changed = timeout_at(self.deadline, self.progress.changed()).await.map_err(|_| late())?;
            changed.map_err(|_| io::Error::other("the export failed: its cause is in the server's log"))?;
        }
    }

    async fn read(&mut self, end: u64) -> io::Result<Bytes> {
        let file = Arc::clone(&self.file);
        let offset = self.offset;
        let length = (end - offset).min(PIECE as u64) as usize;
        let read = tokio::task::spawn_blocking(move || {
            let mut piece = vec![0; length];
            file.read_exact_at(&mut piece, offset)?;
            Ok::<_, io::Error>(piece)
        });
        let piece = read.await.map_err(io::Error::other)??;
        self.offset += length as u64;
        Ok(piece.into())
    }
}

#[cfg(test)]
mod tests;
