//! Sealing of a site's files with a passphrase (age, scrypt).

use std::io;

use age::secrecy::SecretString;

/// The scrypt work factor: 2^17 steps and 128 MiB, above the recommendation for interactive logins. It is the same on each
/// machine: a factor that the sealing machine chose by its speed would be low on a slow or busy one.
const WORK_FACTOR: u8 = 17;

/// Returns the encryption with a passphrase.
///
/// # Errors
/// If age refuses the passphrase as a recipient.
pub(crate) fn seal_with(passphrase: SecretString) -> io::Result<age::Encryptor> {
    let mut recipient = age::scrypt::Recipient::new(passphrase);
    recipient.set_work_factor(WORK_FACTOR);
    age::Encryptor::with_recipients(std::iter::once(&recipient as _)).map_err(io::Error::other)
}
