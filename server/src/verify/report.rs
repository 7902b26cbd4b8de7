//! What an examination says.

use std::fmt;

/// Most findings that are printed; all are counted.
const SHOWN: usize = 50;

/// Something that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Where: the row, receipt, head or account by its name.
    pub place: String,
    /// What is wrong with it.
    pub what: String,
}

/// The result of an examination.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// The key by which signatures were judged, hex.
    pub server_key: String,
    /// Leaves of the log.
    pub leaves: u64,
    /// Of these, ledger entries replayed and priced again.
    pub entries: u64,
    /// Leaves that were there by their hash only.
    pub withheld: u64,
    /// Root over all leaves, hex.
    pub root: String,
    /// Signed heads compared with the leaves.
    pub heads: u64,
    /// Receipts whose signatures, chain and countersignatures hold.
    pub receipts: u64,
    /// Events of workers' keys.
    pub keys: u64,
    /// Audit entries that are what their leaves say.
    pub audit_entries: u64,
    /// Restorations whose statement holds.
    pub restorations: u64,
    /// Manifests whose signature holds.
    pub manifests: u64,
    /// Accounts replayed.
    pub accounts: u64,
    /// Size of the site's head that the log continues, when one was given and holds.
    pub kept: Option<u64>,
    /// Everything that does not hold, in the order in which it was met.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Whether nothing was found.
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
        if let Some(size) = self.kept {
            writeln!(f, "the site's head     of {size} leaves: this log continues it")?;
        }
        for Finding { place, what } in self.findings.iter().take(SHOWN) {
            writeln!(f, "WRONG  {place}: {what}")?;
        }
        match self.findings.len() {
            0 => write!(f, "Everything holds."),
            many => write!(f, "{many} things do not hold; the first is the one to look at."),
        }
    }
}
