//! The object store: writes, reads and removes an object.

use object_store::ObjectStoreExt as _;
use object_store::path::Path;
use tokio::time::timeout;
use uuid::Uuid;

use super::PATIENCE;
use super::report::Examination;
use undertone_server_core::config::Config;
use undertone_server_core::exchange::object::{self, Store};

const CHECK: &str = "store";
/// The probe's bytes.
const PROBE: &[u8] = b"written by `undertone-server doctor`, to be removed";

/// Checks that the store writes, returns and removes an object.
pub(super) async fn check(config: &Config, report: &mut Examination) {
    let place = match &config.store.url {
        Some(url) => url.clone(),
        None => config.data_dir.join("objects").display().to_string(),
    };
    let remedy = match &config.store.url {
        Some(_) => "check `store.endpoint`, `store.region`, the key and its permissions (put, get, delete)",
        None => "check the folder's owner and the disk's free space; the server creates the folder at startup",
    };
    if config.store.url.is_none() && !config.data_dir.is_dir() {
        return report.warn(CHECK, format!("{place} does not exist yet"), "start the server, which creates it");
    }
    let store = match object::open(config) {
        Ok(store) => store,
        Err(error) => return report.fail(CHECK, format!("cannot open {place}: {error}"), remedy),
    };
    match timeout(PATIENCE * 3, probe(&store)).await {
        Ok(Ok(true)) => report.pass(CHECK, format!("an object was stored, read and removed in {place}")),
        Ok(Ok(false)) => report.fail(CHECK, format!("{place} returned other bytes than were written"), remedy),
        Ok(Err(error)) => report.fail(CHECK, format!("{place}: {error}"), remedy),
        Err(_) => report.fail(CHECK, format!("{place} does not answer in time"), remedy),
    }
}

/// Writes, reads and removes an object; returns whether the bytes are unchanged.
async fn probe(store: &Store) -> object_store::Result<bool> {
    let path = Path::from(format!("doctor-probe-{}", Uuid::now_v7().simple()));
    store.put(&path, PROBE.into()).await?;
    let read = async { store.get(&path).await?.bytes().await }.await;
    store.delete(&path).await?;
    Ok(read?.as_ref() == PROBE)
}
