//! A load balancer for replicas of a server: each connection goes to the next replica that accepts it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A balancer of connections; closes when dropped.
#[derive(Debug)]
pub struct TestBalancer {
    /// The address to connect to.
    pub address: SocketAddr,
    counts: Arc<Vec<AtomicUsize>>,
    accepting: JoinHandle<()>,
}

impl TestBalancer {
    /// Starts a balancer for these ports on loopback.
    ///
    /// # Errors
    /// When the system has no free port.
    pub async fn start(ports: &[u16]) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let ports = ports.to_vec();
        let counts = Arc::new(ports.iter().map(|_| AtomicUsize::new(0)).collect::<Vec<_>>());
        let shared = Arc::clone(&counts);
        let accepting = tokio::spawn(async move {
            let mut turn = 0;
            while let Ok((mut from, _)) = listener.accept().await {
                turn += 1;
                for number in (0..ports.len()).map(|step| (turn + step) % ports.len()) {
                    let Ok(mut to) = TcpStream::connect((Ipv4Addr::LOCALHOST, ports[number])).await else { continue };
                    shared[number].fetch_add(1, Ordering::Relaxed);
                    // Data are passed on immediately: a small piece that waits for another would cost up to 40 ms.
                    let _ = (from.set_nodelay(true), to.set_nodelay(true));
                    tokio::spawn(async move { tokio::io::copy_bidirectional(&mut from, &mut to).await });
                    break;
                }
            }
        });
        Ok(Self { address, counts, accepting })
    }

    /// Returns the number of connections that each replica has accepted.
    pub fn connection_counts(&self) -> Vec<usize> {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }
}

impl Drop for TestBalancer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
