//! Operation of a server: monitoring, shutdown, backup and restoration, replicas, and an external object store.

mod backup;
mod doctor;
mod full_disk;
mod keys;
mod recovery;
mod replicas;
mod store;
mod traces;
mod upgrade;
mod watch;
