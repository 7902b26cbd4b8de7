//! A vector on its way in, which may come in several attempts.
//!
//! What comes is kept in segments, each an object of its own beside the others of the same upload, named by where it begins and
//! when it came: so an attempt that breaks off loses less than a segment, any replica of the server can take the next one, and
//! nothing is ever appended to. When all has come the digest is checked over all segments, and only then are they unpacked and
//! written as plain f32 for [`super::average`]. On its way in no more than a segment of a vector is in memory, and the sender is
//! heard no faster than the store takes it in; while it is unpacked, no more than its form has, whatever its bytes say.
//!
//! Uploads end with their round; those that nobody goes on with are forgotten after [`EXPIRY`].

use futures::TryStreamExt as _;
use object_store::path::Path;
use object_store::{ObjectStoreExt as _, WriteMultipart};
use sha2::{Digest as _, Sha256};
use time::{Duration, OffsetDateTime};
use undertone_proto::CHUNK;
use undertone_proto::vector::{Form, Reader};

use super::object::{ObjectError, Store, failing, remove, remove_all};
use crate::fault;

/// Bytes of a whole segment: what an attempt that breaks off can lose.
pub const SEGMENT: usize = CHUNK;
/// Segments beyond those that the vector needs, for attempts that broke off within one; with more than these it begins anew.
pub(crate) const SPARE_SEGMENTS: u64 = 1024;
/// How long a segment is kept that nobody goes on from.
pub const EXPIRY: Duration = Duration::hours(24);

/// Where the segments of one vector lie: in a folder of their own, named by the digest, beside which no other of the same
/// contributor and round is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    folder: Path,
    digest: String,
}

/// A stored segment.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Segment {
    path: Path,
    start: u64,
    size: u64,
}

impl Place {
    /// The place of the vector with this SHA-256 (hex) among those of one contributor and round, which lie in `folder`.
    pub fn new(folder: Path, digest: &str) -> Self {
        Self { folder, digest: digest.to_ascii_lowercase() }
    }

    fn own(&self) -> Path {
        self.folder.clone().join(self.digest.as_str())
    }

    /// How many bytes of the vector are here, from its start.
    ///
    /// # Errors
    /// [`ObjectError::Store`].
    pub async fn received(&self, store: &Store, now: OffsetDateTime) -> Result<u64, ObjectError> {
        Ok(self.segments(store, now).await?.last().map_or(0, |last| last.start + last.size))
    }

    /// Segments that follow one another from the start; what is too old goes.
    async fn segments(&self, store: &Store, now: OffsetDateTime) -> Result<Vec<Segment>, ObjectError> {
        let mut found = Vec::new();
        let listed: Vec<_> = store.list(Some(&self.own())).try_collect().await?;
        for object in listed {
            let Some((start, came)) = object.location.filename().and_then(parse) else { continue };
            if came + EXPIRY.whole_seconds() < now.unix_timestamp() {
                remove(store, &object.location).await?;
            } else {
                found.push(Segment { path: object.location, start, size: object.size });
            }
        }
        // Attempts may overlap; of segments that begin at one place the longest leads furthest.
        found.sort_by_key(|segment| (segment.start, std::cmp::Reverse(segment.size)));
        let mut end = 0;
        found.retain(|segment| {
            let follows = segment.start == end && segment.size > 0;
            if follows {
                end += segment.size;
            }
            follows
        });
        Ok(found)
    }

    /// Forgets the vector.
    ///
    /// # Errors
    /// [`ObjectError::Store`].
    pub async fn forget(&self, store: &Store) -> Result<(), ObjectError> {
        remove_all(store, &self.own()).await
    }

    /// Forgets other vectors of the same contributor and round, and this one when it has come in too many pieces.
    async fn tidy(&self, store: &Store, size: u64) -> Result<(), ObjectError> {
        let (own, mut pieces) = (self.own(), 0);
        let listed: Vec<_> = store.list(Some(&self.folder)).try_collect().await?;
        for object in listed {
            if object.location.prefix_matches(&own) {
                pieces += 1;
            } else {
                remove(store, &object.location).await?;
            }
        }
        if pieces > size.div_ceil(SEGMENT as u64) + SPARE_SEGMENTS {
            self.forget(store).await?;
        }
        Ok(())
    }
}

/// Where a segment begins, and the second in which it came.
fn parse(name: &str) -> Option<(u64, i64)> {
    let (start, came) = name.split_once('-')?;
    Some((start.parse().ok()?, came.parse().ok()?))
}

/// One attempt.
pub struct Upload {
    store: Store,
    place: Place,
    size: u64,
    /// Bytes of the vector that are here, in the store or in memory.
    received: u64,
    /// The segment under way.
    segment: Vec<u8>,
    now: OffsetDateTime,
    over: bool,
}

impl Upload {
    /// Goes on with a vector of `size` bytes after its first `offset`; `None` when not so many of it are here.
    ///
    /// # Errors
    /// [`ObjectError::Store`].
    pub async fn go_on(
        store: &Store,
        place: Place,
        size: u64,
        offset: u64,
        now: OffsetDateTime,
    ) -> Result<Option<Self>, ObjectError> {
        place.tidy(store, size).await?;
        if offset > 0 && place.received(store, now).await? < offset {
            return Ok(None);
        }
        let (store, segment) = (store.clone(), Vec::new());
        Ok(Some(Self { store, place, size, received: offset, segment, now, over: false }))
    }

    /// The end of a vector that is known already: nothing may come of it.
    pub fn nothing_more(store: &Store, place: Place, size: u64) -> Self {
        let (store, segment, now) = (store.clone(), Vec::new(), OffsetDateTime::UNIX_EPOCH);
        Self { store, place, size, received: size, segment, now, over: true }
    }

    /// Whether it is such an end.
    pub const fn is_over(&self) -> bool {
        self.over
    }

    /// Takes the next bytes, wherever they are cut.
    ///
    /// # Errors
    /// [`ObjectError::Size`] as soon as too much has come, [`ObjectError::Store`].
    pub async fn write(&mut self, mut data: &[u8]) -> Result<(), ObjectError> {
        if self.received + data.len() as u64 > self.size {
            return Err(ObjectError::Size { announced: self.size, received: self.received + data.len() as u64 });
        }
        while !data.is_empty() {
            let (now, later) = data.split_at(data.len().min(SEGMENT - self.segment.len()));
            self.segment.extend_from_slice(now);
            self.received += now.len() as u64;
            data = later;
            if self.segment.len() == SEGMENT {
                self.keep().await?;
            }
        }
        Ok(())
    }

    /// Keeps what has come for the next attempt.
    ///
    /// # Errors
    /// [`ObjectError::Store`].
    pub async fn keep(&mut self) -> Result<(), ObjectError> {
        if self.segment.is_empty() {
            return Ok(());
        }
        let start = self.received - self.segment.len() as u64;
        let path = self.place.own().join(format!("{start:012}-{}", self.now.unix_timestamp()));
        self.store.put(&path, std::mem::take(&mut self.segment).into()).await?;
        Ok(())
    }

    /// Checks that all has come and writes its numbers to `to`, as f32, little-endian; its segments are not needed after.
    ///
    /// # Errors
    /// [`ObjectError::Size`] or [`ObjectError::Digest`] when it is not what was announced, [`ObjectError::Vector`] when it is none
    /// of its form: then it is forgotten. [`ObjectError::Store`].
    pub async fn finish(mut self, form: Form, to: &Path) -> Result<(), ObjectError> {
        let place = self.place.clone();
        let store = self.store.clone();
        let finished = self.unpacked(form, to).await;
        if matches!(finished, Err(ObjectError::Digest | ObjectError::Vector(_))) {
            place.forget(&store).await?;
        }
        finished
    }

    async fn unpacked(&mut self, form: Form, to: &Path) -> Result<(), ObjectError> {
        if self.received != self.size {
            // A connection that was cut may look like an end: the next attempt goes on from here.
            self.keep().await?;
            return Err(ObjectError::Size { announced: self.size, received: self.received });
        }
        let source = if self.segment.len() as u64 == self.size {
            // Shorter than a segment, in one attempt: it need not be stored to be read.
            Source::Memory(std::mem::take(&mut self.segment))
        } else {
            self.keep().await?;
            Source::Stored(self.place.segments(&self.store, self.now).await?)
        };
        let mut hasher = Sha256::new();
        let mut found = 0;
        for index in 0..source.pieces() {
            let piece = source.piece(&self.store, index).await?;
            found += piece.len() as u64;
            hasher.update(&piece);
        }
        if found != self.size {
            return Err(ObjectError::Size { announced: self.size, received: found });
        }
        if hex::encode(hasher.finalize()) != self.place.digest {
            return Err(ObjectError::Digest);
        }
        let mut writer = WriteMultipart::new(self.store.put_multipart(to).await?);
        let written = write_numbers(&self.store, &source, form, self.size, &mut writer).await;
        if let Err(error) = written {
            writer.abort().await?;
            return Err(error);
        }
        failing(fault::BEFORE_STORE)?;
        writer.finish().await?;
        failing(fault::AFTER_STORE)
    }
}

/// Where the bytes of a whole vector are.
enum Source {
    Memory(Vec<u8>),
    Stored(Vec<Segment>),
}

impl Source {
    const fn pieces(&self) -> usize {
        match self {
            Self::Memory(_) => 1,
            Self::Stored(segments) => segments.len(),
        }
    }

    async fn piece(&self, store: &Store, index: usize) -> Result<Vec<u8>, ObjectError> {
        match self {
            Self::Memory(bytes) => Ok(bytes.clone()),
            Self::Stored(segments) => match segments.get(index) {
                Some(segment) => Ok(store.get(&segment.path).await?.bytes().await?.to_vec()),
                None => Ok(Vec::new()),
            },
        }
    }
}

async fn write_numbers(
    store: &Store,
    source: &Source,
    form: Form,
    size: u64,
    writer: &mut WriteMultipart,
) -> Result<(), ObjectError> {
    let mut reader = Reader::new(form, size)?;
    let mut numbers = Vec::new();
    for index in 0..source.pieces() {
        for some in source.piece(store, index).await?.chunks(PIECE) {
            reader.take(some, &mut numbers)?;
            let bytes: Vec<u8> = numbers.drain(..).flat_map(f32::to_le_bytes).collect();
            writer.wait_for_capacity(1).await?;
            writer.write(&bytes);
        }
    }
    Ok(reader.finish()?)
}

/// Packed bytes that are unpacked at a time: what a few of them unpack to is bounded by the form alone.
const PIECE: usize = 4096;

#[cfg(test)]
mod tests;
