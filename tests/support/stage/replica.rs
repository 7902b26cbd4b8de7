//! A second server on the same database and data: a replica.

use std::process::ExitStatus;
use std::time::Duration;

use crate::port;
use crate::process::TestProcess;

use super::{PATIENCE, TestConsortium, TestResult};

/// A running replica.
#[derive(Debug)]
pub struct ServerReplica {
    /// The process; killed when dropped.
    pub process: TestProcess,
    /// The address of its REST and dashboard.
    pub address: String,
    /// The port of its workers' gateway.
    pub grpc: u16,
    /// The port of its `/metrics`.
    pub metrics: u16,
}

impl TestConsortium {
    /// Starts a replica.
    ///
    /// # Errors
    /// When it does not start.
    pub fn replica(&self) -> TestResult<ServerReplica> {
        self.replica_at(port::free()?, port::free()?, port::free()?)
    }

    /// Stops a replica with SIGTERM, starts it again on the same ports, and returns its exit status.
    ///
    /// # Errors
    /// When it does not end within `within`, or does not start again.
    pub fn replace_replica(&self, replica: &mut ServerReplica, within: Duration) -> TestResult<ExitStatus> {
        replica.process.terminate()?;
        let status = replica.process.wait(within)?;
        let http = replica.address.rsplit(':').next().unwrap_or_default().parse()?;
        *replica = self.replica_at(http, replica.grpc, replica.metrics)?;
        Ok(status)
    }

    fn replica_at(&self, http: u16, grpc: u16, metrics: u16) -> TestResult<ServerReplica> {
        let mut command = self.server_command()?;
        command.arg("serve");
        command.env("UNDERTONE_HTTP", format!("127.0.0.1:{http}")).env("UNDERTONE_GRPC", format!("127.0.0.1:{grpc}"));
        command.env("UNDERTONE_METRICS", format!("127.0.0.1:{metrics}"));
        let process = TestProcess::start("replica", &mut command)?;
        process.wait_for("serving", PATIENCE)?;
        Ok(ServerReplica { process, address: format!("http://127.0.0.1:{http}"), grpc, metrics })
    }
}
