//! The points of a verification, and their findings.

use std::fmt;

use crate::escape_line;

/// A checked point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VerificationPoint {
    /// The stated key signed this certificate.
    Signature,
    /// The manifest is the server's, and agrees with the certificate about job, parties and charges.
    Manifest,
    /// The sites' keys are the known ones.
    Sites,
    /// Noise, sampling and clip follow from the manifest.
    Mechanism,
    /// Every receipt is signed by its site and pays for a planned release.
    Receipts,
    /// The receipts are complete, unbroken pieces of the sites' chains.
    Chain,
    /// The number of releases is correct.
    Counts,
    /// The formulas are those of this program.
    Accountant,
    /// Every party's ε follows from its releases.
    Epsilon,
    /// The consortium's ε follows from the parties' ε under the rule.
    Rule,
    /// The initial model is the manifest's, and the cost of all jobs that it follows from adds up.
    Lineage,
    /// Each account's stated balance is within its limit and includes this job.
    Account,
    /// Every receipt is charged in the server's log under the certificate's signed head.
    Log,
    /// No audit measured more than the claim.
    Audit,
    /// The model at hand is the job's.
    Model,
}

impl VerificationPoint {
    /// Every point, in the order of checking.
    pub const ALL: [Self; 15] = [
        Self::Signature,
        Self::Manifest,
        Self::Sites,
        Self::Mechanism,
        Self::Receipts,
        Self::Chain,
        Self::Counts,
        Self::Accountant,
        Self::Epsilon,
        Self::Rule,
        Self::Lineage,
        Self::Account,
        Self::Log,
        Self::Audit,
        Self::Model,
    ];

    /// Returns the point in one word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Signature => "signature",
            Self::Manifest => "manifest",
            Self::Sites => "sites",
            Self::Mechanism => "mechanism",
            Self::Receipts => "receipts",
            Self::Chain => "chain",
            Self::Counts => "counts",
            Self::Accountant => "accountant",
            Self::Epsilon => "epsilon",
            Self::Rule => "rule",
            Self::Lineage => "lineage",
            Self::Account => "account",
            Self::Log => "log",
            Self::Audit => "audit",
            Self::Model => "model",
        }
    }

    /// Returns the label of the point for readers.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Signature => "Signature of the server",
            Self::Manifest => "Manifest",
            Self::Sites => "Keys of the sites",
            Self::Mechanism => "Noise and sampling",
            Self::Receipts => "Signed receipts",
            Self::Chain => "Chains of receipts",
            Self::Counts => "Number of releases",
            Self::Accountant => "Formulas",
            Self::Epsilon => "ε of each party",
            Self::Rule => "ε of the consortium",
            Self::Lineage => "Initial model",
            Self::Account => "Budget accounts",
            Self::Log => "Log of the server",
            Self::Audit => "Privacy audits",
            Self::Model => "Model file",
        }
    }

    /// Returns the checked statement, for readers.
    pub const fn statement(self) -> &'static str {
        match self {
            Self::Signature => "The stated key signed this certificate.",
            Self::Manifest => "The manifest is signed too, and agrees about job, parties and charges.",
            Self::Sites => "The keys of the sites are those that you know.",
            Self::Mechanism => "Noise, sampling and clip follow from the manifest.",
            Self::Receipts => "Each receipt is signed by its site, and pays for a planned release.",
            Self::Chain => "The receipts are complete, unbroken pieces of the chains of the sites.",
            Self::Counts => "The certificate counts as many releases as the receipts.",
            Self::Accountant => "The formulas are those of this program.",
            Self::Epsilon => "The ε of each party, recomputed from its releases.",
            Self::Rule => {
                "The ε of the parties together, recomputed under the rule about people in several organizations."
            }
            Self::Lineage => "The initial model is the one of the manifest, and the costs of its jobs add up.",
            Self::Account => "Each account's stated balance is within its limit and includes this job.",
            Self::Log => "Each receipt is charged in the log of the server, under the signed head.",
            Self::Audit => "The audits measured at most the claim.",
            Self::Model => "The model file at hand is one of the job.",
        }
    }
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PointFinding {
    /// It holds; a summary.
    Holds(String),
    /// It could not be checked; the reason.
    Unchecked(String),
    /// It does not hold; every defect.
    Fails(Vec<String>),
}

impl PointFinding {
    /// Returns `Holds` when there is no defect.
    pub(crate) fn from_defects(wrong: Vec<String>, right: impl FnOnce() -> String) -> Self {
        if wrong.is_empty() { Self::Holds(right()) } else { Self::Fails(wrong) }
    }
}

/// The results of all checks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CertificateVerdict(Vec<(VerificationPoint, PointFinding)>);

impl CertificateVerdict {
    /// Returns whether no check failed. An unchecked point is no failure; it is reported.
    pub fn holds(&self) -> bool {
        !self.0.is_empty() && !self.0.iter().any(|(_, finding)| matches!(finding, PointFinding::Fails(_)))
    }

    /// Returns the failed points.
    pub fn failed(&self) -> Vec<VerificationPoint> {
        let fails = |(point, finding): &(VerificationPoint, PointFinding)| {
            matches!(finding, PointFinding::Fails(_)).then_some(*point)
        };
        self.0.iter().filter_map(fails).collect()
    }

    /// Returns the result of one check; `None` when an earlier failure prevented it.
    pub fn finding(&self, point: VerificationPoint) -> Option<&PointFinding> {
        self.0.iter().find(|(known, _)| *known == point).map(|(_, finding)| finding)
    }
}

impl FromIterator<(VerificationPoint, PointFinding)> for CertificateVerdict {
    fn from_iter<I: IntoIterator<Item = (VerificationPoint, PointFinding)>>(findings: I) -> Self {
        Self(findings.into_iter().collect())
    }
}

/// A line for each point, and one for each defect. Control characters and line ends in findings are escaped, because the
/// author of a file chooses the names in it.
impl fmt::Display for CertificateVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (point, finding) in &self.0 {
            let name = point.name();
            match finding {
                PointFinding::Holds(what) => writeln!(f, "ok      {name:<11}{}", escape_line(what))?,
                PointFinding::Unchecked(why) => writeln!(f, "-       {name:<11}not checked: {}", escape_line(why))?,
                PointFinding::Fails(wrong) => {
                    for what in wrong {
                        writeln!(f, "FAILED  {name:<11}{}", escape_line(what))?;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{CertificateVerdict, PointFinding, VerificationPoint};

    #[test]
    fn findings_are_one_line_each_without_controls() {
        let name = "north\u{1b}[1A\nok      signature  signed";
        let findings = [
            PointFinding::Holds(name.to_owned()),
            PointFinding::Unchecked(name.to_owned()),
            PointFinding::Fails(vec![name.to_owned(), "of another job".to_owned()]),
        ];
        let verdict: CertificateVerdict = VerificationPoint::ALL.into_iter().zip(findings).collect();
        let text = verdict.to_string();
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
        assert!(text.contains("north\\u{1b}[1A\\nok "), "{text}");
    }
}
