//! Streams of bytes out of the object store, in messages of one size.

use futures::stream::{self, Stream, StreamExt as _};
use object_store::ObjectStoreExt as _;
use object_store::path::Path;
use tonic::Status;
use undertone_api::problem::{Code, Problem};
use undertone_proto::{CHUNK, status_of};

use crate::ctx::Ctx;

/// What a method that answers with a stream gives.
pub(super) type Answer<T> = std::pin::Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// A header alone.
pub(super) fn header<T: Send + 'static>(header: T) -> Answer<T> {
    Box::pin(stream::iter([Ok(header)]))
}

/// A header, then the `size` bytes of an object.
pub(super) fn object<T: Send + 'static>(
    ctx: &Ctx,
    header: T,
    object: Path,
    size: u64,
    data: fn(Vec<u8>) -> T,
) -> Answer<T> {
    let ctx = ctx.clone();
    let starts = stream::iter((0..size).step_by(CHUNK));
    let pieces = starts.then(move |start| {
        let (ctx, object) = (ctx.clone(), object.clone());
        async move {
            let end = (start + CHUNK as u64).min(size);
            match ctx.store.get_range(&object, start..end).await {
                Ok(bytes) => Ok(data(bytes.to_vec())),
                Err(error) => {
                    tracing::error!(error = %error, "a stored object could not be read");
                    Err(status_of(&Problem::new(Code::Unavailable, "the stored bytes cannot be read just now")))
                }
            }
        }
    });
    Box::pin(stream::iter([Ok(header)]).chain(pieces))
}
