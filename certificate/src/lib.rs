//! Certificates: the figures that follow from a certificate's other content ([`price`]), and the verification of a
//! certificate with nothing but its file ([`verify()`]).
//!
//! Pure: no IO, no clock, no database. The server computes the figures with this code when it makes a certificate; the
//! command lines and the dashboard's page verify with it. The module `browser` (feature `browser`) is the interface of
//! the second wasm file, which the page of a certificate loads by itself.

#[cfg(feature = "browser")]
mod browser;
pub mod check;
mod digest;
mod escape;
mod point;
pub mod price;
pub mod verify;

pub use digest::ModelDigest;
pub use escape::escape_line;
pub use point::{CertificateVerdict, PointFinding, VerificationPoint};
pub use verify::{TrustedInputs, Verification, verify};
