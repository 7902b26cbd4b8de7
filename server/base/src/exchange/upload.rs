//! The upload of a vector, possibly in several attempts.
//!
//! Received bytes are first in memory: up to [`MOST_HELD`] of a vector and [`ROOM`] for all, so that a fast upload is
//! never stored in segments. Memory is reserved once a whole [`SEGMENT`] has arrived. Three kinds of bytes are stored
//! in segments: those that arrived [`LONGEST_HELD`] ago, once they fill a [`SEGMENT`]; those for which no memory is
//! left; and all received bytes of an interrupted attempt. Each segment is an object next to the others of the same
//! upload, named by its start and its time of arrival. So an interrupted attempt loses nothing, and a crash of the
//! server loses only the bytes in memory. Every replica of the server can continue the upload, and no object is ever
//! appended to. A complete upload is unpacked and written as plain f32 for [`super::average`], or unchanged if it is
//! masked. It becomes visible there only if the digest matches all segments. The server reads from the sender no faster than the store accepts.
//! Unpacking uses no more memory than the announced form, whatever the bytes contain.
//!
//! Uploads are deleted with their round; abandoned ones expire after [`EXPIRY`].

mod unpack;

use std::cmp::Ordering;
use std::sync::{Arc, LazyLock};

use futures::TryStreamExt as _;
use object_store::path::Path;
use object_store::{ObjectStoreExt as _, WriteMultipart};
use time::{Duration, OffsetDateTime};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;
use undertone_api::id::OrganizationId;
use undertone_proto::CHUNK;
use undertone_proto::vector::VectorForm;

use super::object::{ObjectError, Store, failing, remove, remove_all};
use crate::exchange::budget::{ByteBudget, ByteCharge};
use crate::fairness::{FairQueue, QueueLimits, WorkOwner};
use crate::fault;

use unpack::VectorUnpacker;

/// Bytes of a segment without reserved memory.
pub const SEGMENT: usize = CHUNK;
/// The highest number of bytes of one vector in memory before they are stored.
pub const MOST_HELD: usize = 8 << 20;
/// The highest number of bytes of all vectors in memory; an upload without a share of it has one [`SEGMENT`].
pub const ROOM: usize = 192 << 20;
/// Bytes of [`ROOM`] that the vectors of one organization may use.
pub const ROOM_OF_ORGANIZATION: usize = ROOM / 4;
/// The time after which received bytes are stored, once they fill a [`SEGMENT`]. It also bounds the number of segments
/// of a slow sender.
pub const LONGEST_HELD: std::time::Duration = std::time::Duration::from_secs(2);
/// The number of vectors that are unpacked concurrently.
pub const UNPACKED_AT_A_TIME: usize = 8;
/// The highest number of vectors that wait to be unpacked: in total, and of one organization.
pub const UNPACKING_WAITS: (usize, usize) = (512, 64);
/// The queue for unpacking.
pub const UNPACKING: QueueLimits = QueueLimits {
    name: "unpacking",
    turns: "vectors to be unpacked",
    at_a_time: UNPACKED_AT_A_TIME,
    waiting: UNPACKING_WAITS.0,
    waiting_of_owner: UNPACKING_WAITS.1,
    patience: std::time::Duration::from_mins(1),
};
/// Segments beyond the number that the vector needs, for attempts that ended within one; with more, the upload starts
/// again.
pub const SPARE_SEGMENTS: u64 = 1024;
/// The time after which an abandoned segment expires.
pub const EXPIRY: Duration = Duration::hours(24);

/// The unused part of [`ROOM`], KiB.
static LEFT: Semaphore = Semaphore::const_new(ROOM >> 10);
/// [`ROOM`] by organization.
static SHARES: LazyLock<Arc<ByteBudget<OrganizationId>>> =
    LazyLock::new(|| ByteBudget::new(ROOM, ROOM_OF_ORGANIZATION));

/// The bytes of an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadForm {
    /// Numbers in a form of the wire, stored as plain f32.
    Numbers(VectorForm),
    /// A masked vector of this number of bytes, stored as it came.
    Masked(u64),
}

impl UploadForm {
    /// Returns the greatest size on the wire, bytes.
    pub const fn bytes(&self) -> u64 {
        match self {
            Self::Numbers(form) => form.bytes(),
            Self::Masked(bytes) => *bytes,
        }
    }
}

impl From<VectorForm> for UploadForm {
    fn from(form: VectorForm) -> Self {
        Self::Numbers(form)
    }
}

/// The location of one vector's segments: a folder named by the digest. Vectors of the same contributor and round with
/// other digests are deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadPlace {
    folder: Path,
    digest: String,
}

/// A stored segment.
#[derive(Debug, Clone, PartialEq, Eq)]
struct UploadSegment {
    path: Path,
    start: u64,
    size: u64,
}

impl UploadSegment {
    const fn end(&self) -> u64 {
        self.start + self.size
    }
}

impl UploadPlace {
    /// Returns the place of the vector with this SHA-256 (hex) among those of one contributor and round, in `folder`.
    pub fn new(folder: Path, digest: &str) -> Self {
        Self { folder, digest: digest.to_ascii_lowercase() }
    }

    fn own(&self) -> Path {
        self.folder.clone().join(self.digest.as_str())
    }

    /// Returns the number of stored bytes of the vector, from its start without a gap.
    ///
    /// # Errors
    /// [`ObjectError::Store`].
    pub async fn received(&self, store: &Store, now: OffsetDateTime) -> Result<u64, ObjectError> {
        Ok(self.segments(store, now).await?.last().map_or(0, UploadSegment::end))
    }

    /// Returns the segments that cover the vector from its start without a gap. Each extends the one before it, which
    /// it may overlap. Expired segments are removed.
    async fn segments(&self, store: &Store, now: OffsetDateTime) -> Result<Vec<UploadSegment>, ObjectError> {
        let mut segments = Vec::new();
        let listed: Vec<_> = store.list(Some(&self.own())).try_collect().await?;
        for object in listed {
            let Some((start, came)) = object.location.filename().and_then(parse) else { continue };
            if came + EXPIRY.whole_seconds() < now.unix_timestamp() {
                remove(store, &object.location).await?;
            } else {
                segments.push(UploadSegment { path: object.location, start, size: object.size });
            }
        }
        Ok(chain(segments))
    }

    /// Deletes the segments.
    ///
    /// # Errors
    /// [`ObjectError::Store`].
    pub async fn forget(&self, store: &Store) -> Result<(), ObjectError> {
        remove_all(store, &self.own()).await
    }

    /// Deletes other vectors of the same contributor and round, and this one if it has too many segments.
    async fn tidy(&self, store: &Store, size: u64) -> Result<(), ObjectError> {
        let own = self.own();
        let mut pieces = 0;
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

/// Selects from arbitrarily overlapping segments those that reach furthest from the start: of all that leave no gap,
/// always the one that ends last.
fn chain(mut segments: Vec<UploadSegment>) -> Vec<UploadSegment> {
    segments.sort_by_key(|segment| segment.start);
    let mut end = 0;
    let mut chain = Vec::new();
    let mut rest = segments.into_iter().peekable();
    loop {
        let mut best: Option<UploadSegment> = None;
        while let Some(next) = rest.next_if(|next| next.start <= end) {
            if best.as_ref().is_none_or(|best| best.end() < next.end()) {
                best = Some(next);
            }
        }
        let Some(best) = best.filter(|best| best.end() > end) else { return chain };
        end = best.end();
        chain.push(best);
    }
}

/// Parses the start of a segment, and the second of its arrival.
fn parse(name: &str) -> Option<(u64, i64)> {
    let (start, came) = name.split_once('-')?;
    Some((start.parse().ok()?, came.parse().ok()?))
}

/// One attempt of an upload.
pub struct ResumableUpload {
    store: Store,
    place: UploadPlace,
    size: u64,
    /// Received bytes of the vector, in the store or in memory.
    received: u64,
    /// The current segment, and the time of its first byte.
    segment: Vec<u8>,
    since: Option<Instant>,
    /// The greatest length of the segment, the memory reserved for it, and the semaphore for more.
    longest: usize,
    room: Option<SemaphorePermit<'static>>,
    left: &'static Semaphore,
    /// The organization's charge for the memory; `None` if the sender is not an organization.
    share: Option<ByteCharge<OrganizationId>>,
    now: OffsetDateTime,
    over: bool,
    /// The greatest accepted L2 norm.
    most_norm: Option<f64>,
}

impl ResumableUpload {
    /// Continues a vector of `size` bytes after its first `offset`; `None` if fewer bytes are stored.
    ///
    /// # Errors
    /// [`ObjectError::Store`].
    pub async fn resume(
        store: &Store,
        place: UploadPlace,
        size: u64,
        offset: u64,
        now: OffsetDateTime,
    ) -> Result<Option<Self>, ObjectError> {
        Self::resume_in(&LEFT, store, place, size, offset, now).await
    }

    async fn resume_in(
        left: &'static Semaphore,
        store: &Store,
        place: UploadPlace,
        size: u64,
        offset: u64,
        now: OffsetDateTime,
    ) -> Result<Option<Self>, ObjectError> {
        place.tidy(store, size).await?;
        if offset > 0 && place.received(store, now).await? < offset {
            return Ok(None);
        }
        let (store, segment) = (store.clone(), Vec::new());
        let (received, since, longest, room, over) = (offset, None, SEGMENT, None, false);
        let share = match WorkOwner::current() {
            WorkOwner::Organization(id) => Some(SHARES.begin(id)),
            _ => None,
        };
        Ok(Some(Self {
            store,
            place,
            size,
            received,
            segment,
            since,
            longest,
            room,
            left,
            share,
            now,
            over,
            most_norm: None,
        }))
    }

    /// Makes the attempt for an already complete vector: it accepts no further bytes.
    pub fn new_complete(store: &Store, place: UploadPlace, size: u64) -> Self {
        let (store, segment, now) = (store.clone(), Vec::new(), OffsetDateTime::UNIX_EPOCH);
        let (received, since, longest, room) = (size, None, SEGMENT, None);
        Self {
            store,
            place,
            size,
            received,
            segment,
            since,
            longest,
            room,
            left: &LEFT,
            share: None,
            now,
            over: true,
            most_norm: None,
        }
    }

    /// Sets the greatest L2 norm; `finish` refuses a longer vector.
    #[must_use]
    pub fn with_most_norm(self, most_norm: Option<f64>) -> Self {
        Self { most_norm, ..self }
    }

    /// Returns whether the vector was complete already.
    pub const fn is_over(&self) -> bool {
        self.over
    }

    /// Appends the next bytes, independent of message boundaries.
    ///
    /// # Errors
    /// [`ObjectError::Size`] as soon as there are too many, [`ObjectError::Store`].
    pub async fn write(&mut self, mut data: &[u8]) -> Result<(), ObjectError> {
        if self.received + data.len() as u64 > self.size {
            return Err(ObjectError::Size { announced: self.size, received: self.received + data.len() as u64 });
        }
        while !data.is_empty() {
            if self.segment.is_empty() {
                let coming = (self.size - self.received).min(self.longest as u64);
                self.segment.reserve_exact(coming as usize);
                self.since = Some(Instant::now());
            }
            let (now, later) = data.split_at(data.len().min(self.longest - self.segment.len()));
            self.segment.extend_from_slice(now);
            self.received += now.len() as u64;
            data = later;
            if self.segment.len() == self.longest && !self.take_room() {
                self.keep().await?;
            }
        }
        Ok(())
    }

    /// Reserves memory for more than one segment, once a whole segment has arrived: a silent sender reserves none.
    /// Returns false if no memory is left, or the vector has its share already.
    fn take_room(&mut self) -> bool {
        if self.room.is_some() {
            return false;
        }
        let rest = self.size - self.received;
        let room_size = (self.segment.len() as u64 + rest).min(MOST_HELD as u64);
        if self.share.as_mut().is_some_and(|share| !share.add(room_size as usize)) {
            return false;
        }
        let Ok(room) = self.left.try_acquire_many(room_size.div_ceil(1 << 10) as u32) else {
            self.release_share();
            return false;
        };
        self.room = Some(room);
        self.longest = MOST_HELD;
        self.segment.reserve_exact(room_size as usize - self.segment.len());
        true
    }

    fn release_share(&mut self) {
        if let Some(share) = &mut self.share {
            share.release();
        }
    }

    /// Returns the time at which the bytes in memory must be stored; `None` with less than a [`SEGMENT`].
    pub fn due(&self) -> Option<Instant> {
        self.since.filter(|_| self.segment.len() >= SEGMENT).map(|since| since + LONGEST_HELD)
    }

    /// Stores the received bytes for the next attempt.
    ///
    /// # Errors
    /// [`ObjectError::Store`].
    pub async fn keep(&mut self) -> Result<(), ObjectError> {
        self.since = None;
        if !self.segment.is_empty() {
            let start = self.received - self.segment.len() as u64;
            let path = self.place.own().join(format!("{start:012}-{}", self.now.unix_timestamp()));
            self.store.put(&path, std::mem::take(&mut self.segment).into()).await?;
        }
        self.room = None;
        self.release_share();
        self.longest = SEGMENT;
        Ok(())
    }

    /// Checks that the vector is complete and writes its values to `to`, as f32, little-endian, or the bytes of a masked
    /// one; then its segments are not needed any more.
    ///
    /// # Errors
    /// [`ObjectError::Size`] or [`ObjectError::Digest`] if it does not match the announcement, [`ObjectError::Vector`]
    /// if it does not match its form, [`ObjectError::Norm`] if it is too long; the last three delete it.
    /// [`ObjectError::Lost`] if earlier bytes are gone, because another attempt has ended. [`ObjectError::Turn`] if
    /// `turns` has no turn; then it is kept. [`ObjectError::Store`].
    pub async fn finish(
        mut self,
        turns: &FairQueue,
        form: impl Into<UploadForm>,
        to: &Path,
    ) -> Result<(), ObjectError> {
        let result = self.unpack(turns, form.into(), to).await;
        if matches!(result, Err(ObjectError::Digest | ObjectError::Vector(_) | ObjectError::Norm { .. })) {
            self.place.forget(&self.store).await?;
        }
        result
    }

    async fn unpack(&mut self, turns: &FairQueue, form: UploadForm, to: &Path) -> Result<(), ObjectError> {
        if self.received != self.size {
            // A lost connection may look like the end: the next attempt continues from here.
            self.keep().await?;
            return Err(ObjectError::Size { announced: self.size, received: self.received });
        }
        let _turn = match turns.acquire(WorkOwner::current()).await {
            Ok(turn) => turn,
            Err(error) => {
                self.keep().await?;
                return Err(ObjectError::Turn(Box::new(error)));
            }
        };
        let mut writer = WriteMultipart::new(self.store.put_multipart(to).await?);
        if let Err(error) = self.write_numbers(form, &mut writer).await {
            writer.abort().await?;
            return Err(error);
        }
        failing(fault::BEFORE_STORE)?;
        writer.finish().await?;
        failing(fault::AFTER_STORE)
    }

    /// Unpacks all received bytes, read once: the stored segments, then the bytes in memory.
    async fn write_numbers(&mut self, form: UploadForm, writer: &mut WriteMultipart) -> Result<(), ObjectError> {
        let last = std::mem::take(&mut self.segment);
        let from = self.size - last.len() as u64;
        let mut unpacking = VectorUnpacker::new(form, self.size);
        let mut covered: u64 = 0;
        if from > 0 {
            for segment in self.place.segments(&self.store, self.now).await? {
                let bytes = self.store.get(&segment.path).await.map_err(or_lost)?.bytes().await?;
                // An overlap has been read already; a shorter segment may have replaced a listed one.
                let skip = covered.checked_sub(segment.start).filter(|skip| *skip <= bytes.len() as u64);
                let skip = skip.ok_or(ObjectError::Lost)?;
                covered += bytes.len() as u64 - skip;
                unpacking = unpacking.pour(bytes.into(), skip as usize, writer).await?;
            }
        }
        // Another attempt may have stored a part of it too.
        if (from..self.size).contains(&covered) {
            unpacking = unpacking.pour(last, (covered - from) as usize, writer).await?;
            covered = self.size;
        }
        match covered.cmp(&self.size) {
            Ordering::Less => Err(ObjectError::Lost),
            Ordering::Equal => unpacking.finish(&self.place.digest, self.most_norm),
            // The vector was announced with another size before.
            Ordering::Greater => Err(ObjectError::Size { announced: self.size, received: covered }),
        }
    }
}

/// Converts an error of reading: a segment that another attempt has deleted since the listing is not a failure of the
/// store.
fn or_lost(error: object_store::Error) -> ObjectError {
    match error {
        object_store::Error::NotFound { .. } => ObjectError::Lost,
        error => error.into(),
    }
}

#[cfg(test)]
mod tests;
