//! The result of a verification.

use std::fmt;

/// The highest number of printed findings; all are counted.
const MOST_PRINTED: usize = 50;

/// A failed check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The row, receipt, head or account, by its name.
    pub place: String,
    /// The failure.
    pub what: String,
}

/// The result of a verification.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// The key that verified the signatures, hex.
    pub server_key: String,
    /// Leaves of the log.
    pub leaves: u64,
    /// Of these, ledger entries replayed and priced again.
    pub entries: u64,
    /// Leaves of which only the hash is known.
    pub withheld: u64,
    /// Root over all leaves, hex.
    pub root: String,
    /// Signed heads compared with the leaves.
    pub heads: u64,
    /// Receipts with valid signatures, chain and countersignatures.
    pub receipts: u64,
    /// Events of workers' keys.
    pub keys: u64,
    /// Audit entries that match their leaves.
    pub audit_entries: u64,
    /// Restorations with a valid statement.
    pub restorations: u64,
    /// Manifests with a valid signature.
    pub manifests: u64,
    /// Accounts replayed.
    pub accounts: u64,
    /// The size of the site's head that the log continues, if one was given and is valid.
    pub pinned_size: Option<u64>,
    /// All failed checks, in their order.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Returns whether all checks succeeded.
    pub const fn holds(&self) -> bool {
        self.findings.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "server key          {}", self.server_key)?;
        writeln!(f, "log                 {} leaves, {} of them withheld", self.leaves, self.withheld)?;
        writeln!(f, "root                {}", self.root)?;
        writeln!(f, "signed heads        {}", self.heads)?;
        writeln!(f, "ledger entries      {} in {} accounts, each priced again", self.entries, self.accounts)?;
        writeln!(f, "receipts            {}, each signed by its site and countersigned", self.receipts)?;
        writeln!(f, "manifests           {}", self.manifests)?;
        writeln!(f, "workers' keys       {} events", self.keys)?;
        writeln!(f, "audit entries       {}, each as it was written", self.audit_entries)?;
        if self.restorations > 0 {
            writeln!(f, "restorations        {}, each stated by the server", self.restorations)?;
        }
        if let Some(size) = self.pinned_size {
            writeln!(f, "the site's head     of {size} leaves: this log continues it")?;
        }
        for Finding { place, what } in self.findings.iter().take(MOST_PRINTED) {
            writeln!(f, "WRONG  {place}: {what}")?;
        }
        match self.findings.len() {
            0 => write!(f, "Everything holds."),
            many => write!(f, "{many} things do not hold; the first is the one to look at."),
        }
    }
}
