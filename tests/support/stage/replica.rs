//! A second server on the same database and data: a replica.

use crate::port;
use crate::process::Process;

use super::{PATIENCE, Stage, Staged};

/// A running replica.
#[derive(Debug)]
pub struct Replica {
    /// The process; killed when dropped.
    pub process: Process,
    /// The address of its REST and dashboard.
    pub address: String,
    /// The port of its workers' gateway.
    pub grpc: u16,
    /// The port of its `/metrics`.
    pub metrics: u16,
}

impl Stage {
    /// Starts a replica.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn replica(&self) -> Staged<Replica> {
        let (http, grpc, metrics) = (port::free()?, port::free()?, port::free()?);
        let mut command = self.server_command()?;
        command.arg("serve");
        command.env("UNDERTONE_HTTP", format!("127.0.0.1:{http}")).env("UNDERTONE_GRPC", format!("127.0.0.1:{grpc}"));
        command.env("UNDERTONE_METRICS", format!("127.0.0.1:{metrics}"));
        let process = Process::start("replica", &mut command)?;
        process.wait_for("serving", PATIENCE)?;
        Ok(Replica { process, address: format!("http://127.0.0.1:{http}"), grpc, metrics })
    }
}
