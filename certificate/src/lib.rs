//! Certificates: their figures, and their verification on any machine. No IO, clock, database or network.
//!
//! [`price`] computes every figure from the facts of a certificate: the server makes certificates with it. [`verify`]
//! runs the same code again, and checks the signed documents. The programs of the server and of researchers call it.

pub mod price;
pub mod verify;
