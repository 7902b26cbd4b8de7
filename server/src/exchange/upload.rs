//! A vector on its way in, which may come in several attempts.
//!
//! What comes is in memory first: up to [`MOST_HELD`] of a vector and [`ROOM`] of all, so that one that comes quickly is never
//! stored in pieces. Room is taken once a whole [`SEGMENT`] has come. What came [`LONGEST_HELD`] ago, once it is a whole [`SEGMENT`], what has no room, and all that has come when
//! an attempt breaks off is kept in segments, each an object of its own beside the others of the same upload, named by where it
//! begins and when it came: so an attempt that breaks off loses nothing, a server that dies loses no more than it had in memory,
//! any replica of the server can take the next attempt, and nothing is ever appended to. When all has come it is unpacked and
//! written as plain f32 for [`super::average`], and becomes visible there only if the digest is that of all segments. The sender is
//! heard no faster than the store takes it in; while it is unpacked, no more than its form has is in memory, whatever its bytes
//! say.
//!
//! Uploads end with their round; those that nobody goes on with are forgotten after [`EXPIRY`].

use std::cmp::Ordering;
use std::sync::{Arc, LazyLock};

use futures::TryStreamExt as _;
use object_store::path::Path;
use object_store::{ObjectStoreExt as _, WriteMultipart};
use sha2::{Digest as _, Sha256};
use time::{Duration, OffsetDateTime};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;
use undertone_api::id::OrganizationId;
use undertone_proto::CHUNK;
use undertone_proto::vector::{Form, Reader, VectorError, code};

use super::object::{ObjectError, PARTS_UNDER_WAY, Store, beside, failing, remove, remove_all};
use crate::connections::{ByteBudget, ByteCharge};
use crate::fairness::{FairQueue, QueueLimits, WorkOwner};
use crate::fault;

/// Bytes of a segment where there is no room for more of the vector in memory.
pub const SEGMENT: usize = CHUNK;
/// Bytes of one vector that may be in memory before they are stored.
pub const MOST_HELD: usize = 8 << 20;
/// Bytes of all vectors that may be in memory; whoever finds no room has a [`SEGMENT`].
pub const ROOM: usize = 192 << 20;
/// Bytes of [`ROOM`] that the vectors of one organization may have.
pub(crate) const ROOM_OF_ORGANIZATION: usize = ROOM / 4;
/// What came so long ago is stored, once it is a whole [`SEGMENT`], and no longer in memory alone. However slow a sender is, it makes
/// no more pieces than that.
pub const LONGEST_HELD: std::time::Duration = std::time::Duration::from_secs(2);
/// Vectors that are unpacked at a time.
pub(crate) const UNPACKED_AT_A_TIME: usize = 8;
/// Vectors that wait to be unpacked; of one organization.
pub(crate) const UNPACKING_WAITS: (usize, usize) = (512, 64);
/// Turns at unpacking.
pub(crate) const UNPACKING: QueueLimits = QueueLimits {
    name: "unpacking",
    turns: "vectors to be unpacked",
    at_a_time: UNPACKED_AT_A_TIME,
    waiting: UNPACKING_WAITS.0,
    waiting_of_owner: UNPACKING_WAITS.1,
    patience: std::time::Duration::from_mins(1),
};
/// Segments beyond those that the vector needs, for attempts that broke off within one; with more than these it begins anew.
pub(crate) const SPARE_SEGMENTS: u64 = 1024;
/// How long a segment is kept that nobody goes on from.
pub const EXPIRY: Duration = Duration::hours(24);

/// [`ROOM`] that is left, in KiB.
static LEFT: Semaphore = Semaphore::const_new(ROOM >> 10);
/// [`ROOM`] by organization.
static SHARES: LazyLock<Arc<ByteBudget<OrganizationId>>> =
    LazyLock::new(|| ByteBudget::new(ROOM, ROOM_OF_ORGANIZATION));

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

impl Segment {
    const fn end(&self) -> u64 {
        self.start + self.size
    }
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
        Ok(self.segments(store, now).await?.last().map_or(0, Segment::end))
    }

    /// Segments that lead from the start without a gap, each further than the one before it, which it may overlap; what is too old
    /// goes.
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
        Ok(chain(found))
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

/// Of segments that may overlap in any way, those that lead furthest from the start: of all that leave no gap, always the one that
/// ends last.
fn chain(mut found: Vec<Segment>) -> Vec<Segment> {
    found.sort_by_key(|segment| segment.start);
    let (mut end, mut chain, mut rest) = (0, Vec::new(), found.into_iter().peekable());
    loop {
        let mut best: Option<Segment> = None;
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
    /// The segment under way, and since when.
    segment: Vec<u8>,
    since: Option<Instant>,
    /// How long it may become, the room that it has for that, and where it gets more.
    longest: usize,
    room: Option<SemaphorePermit<'static>>,
    left: &'static Semaphore,
    /// What its organization has of the room; none where no organization sends.
    share: Option<ByteCharge<OrganizationId>>,
    now: OffsetDateTime,
    over: bool,
    /// The greatest L2 norm that is taken.
    most_norm: Option<f64>,
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
        Self::go_on_in(&LEFT, store, place, size, offset, now).await
    }

    async fn go_on_in(
        left: &'static Semaphore,
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

    /// The end of a vector that is known already: nothing may come of it.
    pub fn nothing_more(store: &Store, place: Place, size: u64) -> Self {
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

    /// Refuses the vector at its end when it is longer than this.
    #[must_use]
    pub fn with_most_norm(self, most_norm: Option<f64>) -> Self {
        Self { most_norm, ..self }
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

    /// Takes room for more of the vector than a segment, once that has come: a sender who is silent before holds none. Returns false
    /// where there is none, or the vector has its share already.
    fn take_room(&mut self) -> bool {
        if self.room.is_some() {
            return false;
        }
        let rest = self.size - self.received;
        let held = (self.segment.len() as u64 + rest).min(MOST_HELD as u64);
        if self.share.as_mut().is_some_and(|share| !share.add(held as usize)) {
            return false;
        }
        let Ok(room) = self.left.try_acquire_many(held.div_ceil(1 << 10) as u32) else {
            self.release_share();
            return false;
        };
        self.room = Some(room);
        self.longest = MOST_HELD;
        self.segment.reserve_exact(held as usize - self.segment.len());
        true
    }

    fn release_share(&mut self) {
        if let Some(share) = &mut self.share {
            share.release();
        }
    }

    /// When what is in memory alone is to be kept; otherwise less than a [`SEGMENT`] is there.
    pub fn due(&self) -> Option<Instant> {
        self.since.filter(|_| self.segment.len() >= SEGMENT).map(|since| since + LONGEST_HELD)
    }

    /// Keeps what has come for the next attempt.
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

    /// Checks that all has come and writes its numbers to `to`, as f32, little-endian; its segments are not needed after.
    ///
    /// # Errors
    /// [`ObjectError::Size`] or [`ObjectError::Digest`] when it is not what was announced, [`ObjectError::Vector`] when it is none
    /// of its form, [`ObjectError::Norm`] when it is too long: then it is forgotten. [`ObjectError::Lost`] when what it goes on from is no longer here, since another attempt
    /// has come to its end. [`ObjectError::Turn`] when none of `turns` comes: then it is kept. [`ObjectError::Store`].
    pub(crate) async fn finish(mut self, turns: &FairQueue, form: Form, to: &Path) -> Result<(), ObjectError> {
        let finished = self.unpacked(turns, form, to).await;
        if matches!(finished, Err(ObjectError::Digest | ObjectError::Vector(_) | ObjectError::Norm { .. })) {
            self.place.forget(&self.store).await?;
        }
        finished
    }

    async fn unpacked(&mut self, turns: &FairQueue, form: Form, to: &Path) -> Result<(), ObjectError> {
        if self.received != self.size {
            // A connection that was cut may look like an end: the next attempt goes on from here.
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

    /// All that has come, read once: the stored segments, then what is in memory.
    async fn write_numbers(&mut self, form: Form, writer: &mut WriteMultipart) -> Result<(), ObjectError> {
        let last = std::mem::take(&mut self.segment);
        let from = self.size - last.len() as u64;
        let mut unpacking = Unpacking::new(form, self.size);
        let mut found: u64 = 0;
        if from > 0 {
            for segment in self.place.segments(&self.store, self.now).await? {
                let bytes = self.store.get(&segment.path).await.map_err(or_lost)?.bytes().await?;
                // What overlaps has been read; a shorter piece may have taken the place of one that is listed.
                let skip = found.checked_sub(segment.start).filter(|skip| *skip <= bytes.len() as u64);
                let skip = skip.ok_or(ObjectError::Lost)?;
                found += bytes.len() as u64 - skip;
                unpacking = unpacking.pour(bytes.into(), skip as usize, writer).await?;
            }
        }
        // Another attempt may have kept some of it, too.
        if (from..self.size).contains(&found) {
            unpacking = unpacking.pour(last, (found - from) as usize, writer).await?;
            found = self.size;
        }
        match found.cmp(&self.size) {
            Ordering::Less => Err(ObjectError::Lost),
            Ordering::Equal => unpacking.finish(&self.place.digest, self.most_norm),
            // It was announced with another size before.
            Ordering::Greater => Err(ObjectError::Size { announced: self.size, received: found }),
        }
    }
}

/// A piece that another attempt has forgotten since it was listed is no failure of the store.
fn or_lost(error: object_store::Error) -> ObjectError {
    match error {
        object_store::Error::NotFound { .. } => ObjectError::Lost,
        error => error.into(),
    }
}

/// Bytes that are unpacked at a time: what a few of them unpack to is bounded by the form alone.
const PIECE: usize = 512 << 10;

/// A vector on its way from the bytes that travelled to plain numbers.
struct Unpacking {
    hasher: Sha256,
    /// Once it is no vector, the only question is whether it was sent so.
    reader: Result<Reader, VectorError>,
    numbers: Vec<f32>,
    /// Σ x² of the numbers so far.
    square: f64,
}

impl Unpacking {
    fn new(form: Form, size: u64) -> Self {
        Self { hasher: Sha256::new(), reader: Reader::new(form, size), numbers: Vec::new(), square: 0.0 }
    }

    /// Takes the next bytes, but for the first `from`.
    async fn pour(self, bytes: Vec<u8>, from: usize, writer: &mut WriteMultipart) -> Result<Self, ObjectError> {
        let (mut unpacking, bytes) = (self, Arc::new(bytes));
        for start in (from..bytes.len()).step_by(PIECE) {
            let bytes = Arc::clone(&bytes);
            let (next, plain) = beside(move || {
                let plain = unpacking.take(&bytes[start..bytes.len().min(start + PIECE)]);
                Ok((unpacking, plain))
            })
            .await?;
            unpacking = next;
            writer.wait_for_capacity(PARTS_UNDER_WAY).await?;
            writer.put(plain.into());
        }
        Ok(unpacking)
    }

    /// The numbers that the next bytes complete, as f32, little-endian.
    fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.hasher.update(bytes);
        let mut plain = Vec::new();
        if let Ok(reader) = &mut self.reader {
            if let Err(wrong) = reader.take(bytes, &mut self.numbers) {
                self.reader = Err(wrong);
            }
            self.square += self.numbers.iter().map(|number| f64::from(*number).powi(2)).sum::<f64>();
            code::plain(&self.numbers, &mut plain);
            self.numbers.clear();
        }
        plain
    }

    fn finish(self, digest: &str, most_norm: Option<f64>) -> Result<(), ObjectError> {
        if hex::encode(self.hasher.finalize()) != digest {
            return Err(ObjectError::Digest);
        }
        self.reader?.finish()?;
        let norm = self.square.sqrt();
        match most_norm {
            Some(most) if norm > most => Err(ObjectError::Norm { norm, most }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
