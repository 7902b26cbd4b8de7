//! The files of a generated certificate in the data folder: the one in force with the time since when, and, [`NOTICE`] before its
//! place is taken, the next one with the time from when. Replicas that share the folder take turns.

use std::fs::{self, File};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use rcgen::{CertificateParams, DnType, KeyPair};
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};

use super::{NextIdentity, TlsError, fingerprint, read};
use crate::config::Config;
use crate::keys::write_secret;

/// How long sites are told of the next certificate before it is shown. One that is not heard of for longer does not know it, asks
/// whoever shows it for the server's signed word on its certificates, and goes on when that holds: nobody enrols again.
pub(super) const NOTICE: Duration = Duration::days(30);

/// The certificate in force and its key.
pub(super) fn files(config: &Config) -> (PathBuf, PathBuf) {
    (config.data_dir.join("certificate.pem"), config.data_dir.join("certificate.key"))
}

/// The one that follows.
fn following(config: &Config) -> (PathBuf, PathBuf) {
    (config.data_dir.join("next-certificate.pem"), config.data_dir.join("next-certificate.key"))
}

fn since(config: &Config) -> PathBuf {
    config.data_dir.join("certificate.since")
}

fn from(config: &Config) -> PathBuf {
    config.data_dir.join("next-certificate.from")
}

/// Makes what is to be made and puts in place what is to be put in place at `now`; gives the files in force.
pub(super) fn keep(config: &Config, now: OffsetDateTime) -> Result<(PathBuf, PathBuf), TlsError> {
    let path = config.data_dir.join("certificate.lock");
    let _turn = File::create(&path)
        .and_then(|file| file.lock().map(|()| file))
        .map_err(|source| TlsError::File { path: path.clone(), source })?;
    let (present, next) = (files(config), following(config));
    if next.0.exists() && !next.1.exists() && present.0.exists() {
        // It was being put in place when the power went: its key is there already.
        take_place(config)?;
    }
    if !present.0.exists() {
        make(config, &present, now)?;
        note(&since(config), now)?;
    }
    if time(&since(config))?.is_none() {
        // Made before certificates were followed by others.
        note(&since(config), now)?;
    }
    let due = due(config)?.unwrap_or(now);
    if next.0.exists() {
        if time(&from(config))?.is_none_or(|from| from <= now) {
            rename(&next.1, &present.1)?;
            take_place(config)?;
        }
    } else if now >= due - NOTICE {
        // A server that was off for long still tells its sites first.
        note(&from(config), due.max(now + NOTICE))?;
        make(config, &next, now)?;
    }
    Ok(present)
}

/// The certificate that follows, once it is made.
pub(super) fn next(config: &Config) -> Result<Option<NextIdentity>, TlsError> {
    let (path, _) = following(config);
    if !path.exists() {
        return Ok(None);
    }
    Ok(Some(NextIdentity { fingerprint: fingerprint(&path, &read(&path)?)?, from: time(&from(config))? }))
}

/// When the certificate in force is followed by the next.
pub(super) fn rotates_at(config: &Config) -> Option<OffsetDateTime> {
    time(&from(config)).ok().flatten().or(due(config).ok().flatten())
}

fn due(config: &Config) -> Result<Option<OffsetDateTime>, TlsError> {
    Ok(time(&since(config))?.map(|since| since + Duration::days(i64::from(config.tls.rotate_days))))
}

/// The last steps of putting the next certificate in place; its key is there.
fn take_place(config: &Config) -> Result<(), TlsError> {
    rename(&following(config).0, &files(config).0)?;
    rename(&from(config), &since(config))
}

fn make(config: &Config, (certificate, key): &(PathBuf, PathBuf), now: OffsetDateTime) -> Result<(), TlsError> {
    let mut params = CertificateParams::new(names(config))?;
    params.distinguished_name.push(DnType::CommonName, "Undertone server");
    // Workers pin the certificate itself; it outlasts its time in force, for a server that was off meanwhile.
    params.not_before = now - Duration::days(1);
    params.not_after = now + Duration::days(2 * i64::from(config.tls.rotate_days)) + 2 * NOTICE;
    let pair = KeyPair::generate()?;
    let chain = params.self_signed(&pair)?.pem();
    for (path, content) in [(key, pair.serialize_pem()), (certificate, chain)] {
        write_secret(path, content.as_bytes()).map_err(|source| TlsError::File { path: path.clone(), source })?;
    }
    Ok(())
}

fn names(config: &Config) -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    for address in [config.http.ip(), config.grpc.ip()] {
        if !address.is_unspecified() {
            names.push(address.to_string());
        }
    }
    for url in [&config.public_url, &config.public_grpc].into_iter().flatten() {
        names.extend(host(url));
    }
    names.extend(config.tls.names.iter().cloned());
    names.sort();
    names.dedup();
    names
}

/// The host of an address such as `https://[::1]:8421/`.
fn host(url: &str) -> Option<String> {
    let uri: http::Uri = url.parse().ok()?;
    let host = uri.host()?.trim_start_matches('[').trim_end_matches(']');
    Some(host.parse::<IpAddr>().map_or_else(|_| host.to_owned(), |address| address.to_string()))
}

fn rename(old: &Path, new: &Path) -> Result<(), TlsError> {
    fs::rename(old, new).map_err(|source| TlsError::File { path: old.to_owned(), source })
}

fn note(path: &Path, time: OffsetDateTime) -> Result<(), TlsError> {
    let in_file = |source| TlsError::File { path: path.to_owned(), source };
    let text = time.format(&Rfc3339).map_err(|error| in_file(io::Error::other(error)))?;
    write_secret(path, text.as_bytes()).map_err(in_file)
}

fn time(path: &Path) -> Result<Option<OffsetDateTime>, TlsError> {
    let in_file = |source| TlsError::File { path: path.to_owned(), source };
    match fs::read_to_string(path) {
        Ok(text) => {
            OffsetDateTime::parse(text.trim(), &Rfc3339).map(Some).map_err(|error| in_file(io::Error::other(error)))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(in_file(error)),
    }
}
