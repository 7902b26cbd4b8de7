//! Sends sounds to recognizers: only sounds that were charged, bit for bit; a charged sound may be sent any number of times.
//!
//! The module is a chain of types. A [`BatchDraft`] writes finished sounds to disk; none of them can be sent. A
//! [`BatchPermit`] is made only from the site's [`Clearance`](undertone_worker_site::clearance::Clearance), for exactly the
//! release of the plan. [`BatchDraft::seal`] consumes it and returns a [`SealedSounds`] batch, which is durable and not yet
//! paid. The site issues a
//! [`DepartureProof`](undertone_worker_site::clearance::DepartureProof) once the batch is paid and the server has countersigned the
//! payment. With it, the batch yields [`OutgoingSound`]s, and a [`ProviderLine`](super::provider::line::ProviderLine) sends
//! nothing else. A caller cannot construct an outgoing sound:
//!
//! ```compile_fail,E0451
//! use undertone_worker_transcription::outbound::OutgoingSound;
//! let bare = OutgoingSound { wav: vec![0; 48] };
//! ```
//!
//! A draft yields no outgoing sound, and a permit seals one batch:
//!
//! ```compile_fail,E0599
//! use undertone_worker_transcription::outbound::BatchDraft;
//! fn send(draft: &BatchDraft) {
//!     let _ = draft.outgoing(0, 0);
//! }
//! ```
//!
//! ```compile_fail,E0382
//! use undertone_worker_transcription::outbound::{BatchPermit, BatchDraft};
//! fn twice(one: BatchDraft, two: BatchDraft, permit: BatchPermit) {
//!     let _ = one.seal(permit);
//!     let _ = two.seal(permit);
//! }
//! ```
//!
//! After a crash, [`SealedSounds::open`] loads the sealed batch with its answers. The worker pays for it if it is unpaid, and
//! sends the same bits to the same recognizer without a second charge. Other bits are not sent: each sound is compared with
//! its sealed digest, and each recognizer with its sealed name and address. An unsealed draft is discarded and made again,
//! with new noise.
//!
//! Files in the folder: `sounds-N` (the WAV files of provider N, concatenated), `index` (position and digest of each sound),
//! `seal.json` (digest of the index, recipients, privacy event; written last), `answers` (append-only: sent sounds and their
//! answers). Only the owner may read them.

pub(crate) mod deliver;
pub(crate) mod draft;
pub(crate) mod error;
mod journal;
pub(crate) mod outgoing;
pub(crate) mod sealed;

pub use self::deliver::{DeliveryResult, GIVE_UP, deliver};
pub use self::draft::BatchDraft;
pub use self::error::OutboundError;
pub use self::outgoing::OutgoingSound;
pub use self::sealed::{BatchPermit, SealedSounds};

#[cfg(test)]
mod tests;
