//! Ports on loopback.

use std::{
    io,
    net::{Ipv4Addr, TcpListener},
};

/// A port on loopback that nothing listens on.
///
/// The system hands out another one each time and does not repeat itself soon, so that the moment between this answer
/// and its use is safe in practice. A program that can be told port 0 and says which it got needs no such luck.
///
/// # Errors
/// If the system has no port left.
pub fn free() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
