//! Ports on loopback.

use std::{
    io,
    net::{Ipv4Addr, TcpListener},
};

/// Returns a port on loopback that nothing listens on.
///
/// The system returns another port each time and does not repeat itself soon, so the interval between this answer and
/// its use is safe in practice. A program that accepts port 0 and reports its port avoids that risk.
///
/// # Errors
/// If the system has no free port.
pub fn free() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
