//! Streams of bytes from the object store, in messages of one size.

use futures::stream::{self, Stream, StreamExt as _};
use object_store::ObjectStoreExt as _;
use object_store::path::Path;
use tonic::Status;
use undertone_api::problem::{Code, Problem};
use undertone_proto::{CHUNK, to_status};

use undertone_server_core::ctx::Ctx;

/// The stream that a method returns.
pub(super) type Answer<T> = std::pin::Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Returns a stream of a header only.
pub(super) fn header<T: Send + 'static>(header: T) -> Answer<T> {
    Box::pin(stream::iter([Ok(header)]))
}

/// Returns a stream of a header and bytes in memory.
pub(super) fn bytes<T: Send + 'static>(header: T, bytes: &[u8], data: fn(Vec<u8>) -> T) -> Answer<T> {
    let pieces: Vec<_> = bytes.chunks(CHUNK).map(|piece| Ok(data(piece.to_vec()))).collect();
    Box::pin(stream::iter([Ok(header)]).chain(stream::iter(pieces)))
}

/// Returns a stream of a header and the bytes of an object from `offset` to `size`.
pub(super) fn object<T: Send + 'static>(
    ctx: &Ctx,
    header: T,
    object: Path,
    offset: u64,
    size: u64,
    data: fn(Vec<u8>) -> T,
) -> Answer<T> {
    objects(ctx, header, vec![(object, size)], offset, data)
}

/// Returns a stream of a header and the concatenated bytes of objects of these sizes, except the first `offset`.
pub(super) fn objects<T: Send + 'static>(
    ctx: &Ctx,
    header: T,
    objects: Vec<(Path, u64)>,
    mut offset: u64,
    data: fn(Vec<u8>) -> T,
) -> Answer<T> {
    let ctx = ctx.clone();
    let ranges = objects.into_iter().flat_map(move |(object, size)| {
        let begin = offset.min(size);
        offset -= begin;
        (begin..size).step_by(CHUNK).map(move |start| (object.clone(), start..(start + CHUNK as u64).min(size)))
    });
    let pieces = stream::iter(ranges).then(move |(object, range)| {
        let ctx = ctx.clone();
        async move {
            match ctx.store.get_range(&object, range).await {
                Ok(bytes) => Ok(data(bytes.to_vec())),
                Err(error) => {
                    tracing::error!(error = %error, "cannot read a stored object");
                    Err(to_status(&Problem::new(Code::Unavailable, "the stored bytes are temporarily unavailable")))
                }
            }
        }
    });
    Box::pin(stream::iter([Ok(header)]).chain(pieces))
}
