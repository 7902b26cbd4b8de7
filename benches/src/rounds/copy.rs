//! The bare copy: every client sends so many bytes over a loopback connection and receives as many, without any
//! processing.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Instant;

/// Returns the time of each of `rounds` rounds, seconds: `bytes` up from each of the `clients`, then as many down to
/// each. The connections are opened before the first round.
///
/// # Errors
/// When the system refuses a connection.
pub(super) fn seconds(clients: usize, bytes: usize, rounds: usize) -> io::Result<Vec<f64>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let mut lines = Vec::with_capacity(clients);
    for _ in 0..clients {
        let near = TcpStream::connect(address)?;
        let (far, _) = listener.accept()?;
        lines.push((near, far));
    }
    let payload = vec![7; bytes];
    let mut buffers: Vec<Vec<u8>> = vec![vec![0; bytes]; clients];
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let began = Instant::now();
        carry(lines.iter().map(|(near, far)| (near, far)), &payload, &mut buffers)?;
        carry(lines.iter().map(|(near, far)| (far, near)), &payload, &mut buffers)?;
        times.push(began.elapsed().as_secs_f64());
    }
    Ok(times)
}

/// Sends the payload over every connection concurrently, from its first end to its second.
fn carry<'a>(
    lines: impl Iterator<Item = (&'a TcpStream, &'a TcpStream)>,
    payload: &'a [u8],
    taken: &'a mut [Vec<u8>],
) -> io::Result<()> {
    thread::scope(|scope| {
        let mut ends = Vec::new();
        for ((mut from, mut to), taken) in lines.zip(taken.iter_mut()) {
            ends.push(scope.spawn(move || from.write_all(payload)));
            ends.push(scope.spawn(move || to.read_exact(taken)));
        }
        ends.into_iter().try_for_each(|end| end.join().map_err(|_| io::Error::other("a copy came to no end"))?)
    })
}
