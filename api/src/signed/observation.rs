//! Cosigned heads: a site's signature over a head of the server's log that the site has verified.
//!
//! Sites exchange them, so that a server which shows two sites two histories is detected. The idea is that of witness
//! cosigning in transparency logs (C2SP tlog-cosignature; Syta et al., "Keeping Authorities 'Honest or Bust'", 2016).

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::{Document, Signed};
use crate::id::WorkerId;

/// A head of the server's log that one site has verified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeadObservation {
    /// The worker of the site.
    pub worker: WorkerId,
    /// The [`LogHead`](super::LogHead), signed by the server.
    pub head: Signed,
    /// The site's clock when it signed.
    #[serde(with = "time::serde::rfc3339")]
    pub observed_at: OffsetDateTime,
}

impl Document for HeadObservation {
    const DOMAIN: &'static str = "undertone/head-observation/1";
}
