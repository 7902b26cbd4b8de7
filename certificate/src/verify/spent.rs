//! Spent releases: receipts are checked by signature and chain, and counted.

use std::collections::{BTreeMap, BTreeSet};

use undertone_api::id::WorkerId;
use undertone_api::signed::certificate::{Certificate, ChainPiece, ClockSummary, ProvenReceipt};
use undertone_api::signed::{self, Receipt};
use undertone_privacy::{Adjacency, Event};

use super::OpenedCertificate;
use crate::PointFinding;
use crate::price;

/// A receipt with the index of its party and its digest.
type Own = (usize, String, Receipt);

/// Opens the receipts, each with the key of the site whose dataset it names. Returns the valid receipts, and the
/// defects of the others.
pub(super) fn open_receipts(certificate: &Certificate, receipts: &[ProvenReceipt]) -> (Vec<Own>, Vec<String>) {
    let (mut good, mut wrong) = (Vec::new(), Vec::new());
    for (number, proven) in (1..).zip(receipts) {
        match open(certificate, proven) {
            Ok(own) => good.push(own),
            Err(why) => wrong.push(format!("receipt {number} of the file: {why}")),
        }
    }
    (good, wrong)
}

fn open(certificate: &Certificate, proven: &ProvenReceipt) -> Result<Own, String> {
    let claimed: Receipt = serde_json::from_str(&proven.receipt.payload).map_err(|error| error.to_string())?;
    let index = certificate.parties.iter().position(|party| party.dataset == claimed.dataset);
    let index = index.ok_or("it names a dataset that the certificate does not")?;
    let key = signed::public_key(&certificate.parties[index].site_key).map_err(|error| error.to_string())?;
    let receipt = proven.receipt.open(&key).map_err(|error| error.to_string())?;
    Ok((index, proven.receipt.digest(), receipt))
}

/// Checks that each receipt pays for a planned release, under this manifest.
pub(super) fn check_receipts(opened: &OpenedCertificate, mut wrong: Vec<String>) -> PointFinding {
    let (job, spec) = (&opened.certificate.job, &opened.manifest.spec);
    let (series, questions, outside) = (spec.series(&[]), spec.questions(), spec.external_release());
    for (party, receipts) in opened.parts() {
        let dataset = price::to_dataset(party);
        let Some(charged) = &party.charged else {
            if let Some((_, receipt)) = receipts.first() {
                wrong.push(format!(
                    "{}: receipt {} pays for data that pay nothing",
                    party.dataset_name, receipt.sequence
                ));
            }
            continue;
        };
        for (_, receipt) in receipts {
            let mut expect = |holds: bool, what: &str| {
                if !holds {
                    wrong.push(format!("{}: receipt {}: {what}", party.dataset_name, receipt.sequence));
                }
            };
            expect((receipt.job, &receipt.manifest) == (job.id, &job.manifest), "it is of another job or manifest");
            expect((receipt.worker, receipt.lineage) == (party.worker, party.lineage), "it is another site's");
            expect((receipt.unit, receipt.adjacency) == (charged.unit, charged.adjacency), "unit or adjacency differ");
            let release = spec.release(&dataset, &receipt.series);
            expect(release.as_ref() == Some(&receipt.event), "the release is not the one that the manifest foresees");
            let planned = series.iter().find(|series| series.name == receipt.series);
            let within = planned.is_some_and(|series| (1..=series.rounds).contains(&receipt.round));
            // A pool of questions is one release, in a round of its own.
            let asks = questions.as_ref().is_some_and(|asked| {
                (&asked.series, 1) == (&receipt.series, receipt.round) && asked.asking.contains(&receipt.dataset)
            });
            // A release to an outside recipient is one release too.
            let leaves = outside.as_ref().is_some_and(|outside| {
                (&outside.series, 1) == (&receipt.series, receipt.round) && outside.sending.contains(&receipt.dataset)
            });
            let within = within || asks || leaves;
            expect(within && receipt.attempt >= 1, "the manifest has no such round");
        }
    }
    PointFinding::from_defects(wrong, || format!("{} receipts, each signed by its site", opened.receipts.len()))
}

/// Checks that the receipts are the pieces of chains that the certificate names, and that adjacent receipts are linked.
pub(super) fn chain(opened: &OpenedCertificate) -> PointFinding {
    let (mut wrong, mut gaps) = (Vec::new(), 0);
    let mut chains: BTreeMap<WorkerId, BTreeMap<u64, (&str, &Receipt)>> = BTreeMap::new();
    for (party, receipts) in opened.parts() {
        let mut last = 0;
        for (digest, receipt) in &receipts {
            if receipt.sequence <= last {
                wrong.push(format!("{}: receipt {} does not come after {last}", party.dataset_name, receipt.sequence));
            }
            last = receipt.sequence;
            chains.entry(receipt.worker).or_default().insert(receipt.sequence, (*digest, *receipt));
        }
        let Some(charged) = &party.charged else { continue };
        let pieces: Vec<_> =
            receipts.iter().map(|(digest, receipt)| (receipt.sequence, (*digest).to_owned())).collect();
        if ChainPiece::from_receipts(&pieces) != charged.receipts {
            wrong.push(format!(
                "{}: {} receipts are in the file, the certificate names {} others",
                party.dataset_name,
                pieces.len(),
                charged.receipts.count
            ));
        }
    }
    for receipts in chains.values() {
        for ((number, (digest, _)), (next, (_, receipt))) in receipts.iter().zip(receipts.iter().skip(1)) {
            if *next == number + 1 {
                if receipt.previous != **digest {
                    wrong.push(format!("receipt {next} does not follow receipt {number} of its site"));
                }
            } else {
                gaps += 1;
            }
        }
    }
    let between = if gaps > 0 { format!("; other jobs' receipts lie between at {gaps} places") } else { String::new() };
    PointFinding::from_defects(wrong, || format!("every link that can be seen holds{between}"))
}

/// Checks the counts of releases against the receipts.
pub(super) fn counts(opened: &OpenedCertificate) -> PointFinding {
    let mut wrong = Vec::new();
    let (mut total, mut made_only) = (0, false);
    for (party, receipts) in opened.parts() {
        let Some(charged) = &party.charged else { continue };
        let (says, says_clock) = (charged.releases, charged.clock);
        let of = |event: &Event| receipts.iter().filter(|(_, receipt)| receipt.event == *event).count() as u64;
        let distinct: BTreeSet<_> =
            receipts.iter().map(|(_, receipt)| (&receipt.series, receipt.round, receipt.attempt)).collect();
        let mut expect = |holds: bool, what: String| {
            if !holds {
                wrong.push(format!("{}: {what}", party.dataset_name));
            }
        };
        let (paid, exact) = (of(&charged.mechanism.event), of(&Event::NonPrivate));
        expect(
            paid == says.committed,
            format!("{paid} releases have receipts, the certificate says {}", says.committed),
        );
        expect(exact == says.in_the_clear, format!("{exact} exact releases have receipts, not {}", says.in_the_clear));
        expect(says.committed <= says.reserved, "more was paid than was reserved".to_owned());
        expect(distinct.len() == receipts.len(), "one attempt at a round was paid twice".to_owned());
        if charged.mechanism.event.whole_releases().is_some() {
            let rounds: BTreeSet<_> = receipts.iter().map(|(_, receipt)| (&receipt.series, receipt.round)).collect();
            let what = "a round of releases that are charged together was paid twice";
            expect(rounds.len() == receipts.len(), what.to_owned());
        }
        let clock = ClockSummary::from_ticks(receipts.iter().map(|(_, receipt)| receipt.tick));
        expect(says_clock == clock, "the ticks of the release clock are not those of the receipts".to_owned());
        // Jobs are charged under zero-out only since the rule that counts every planned release, so none of them has an
        // older certificate.
        let version = opened.certificate.version;
        let is_older = version < Certificate::VERSION && charged.adjacency == Adjacency::ZeroOut;
        expect(!is_older, format!("the rules of version {version} did not yet hold for jobs charged under zero-out"));
        match Certificate::count_releases(version, &says) {
            Some(counted) => expect(
                says.counted == counted,
                format!("{} releases are counted, {counted} would be right", says.counted),
            ),
            None => expect(false, format!("the rules of version {version} are not known to this program")),
        }
        made_only |= says.counted < says.reserved;
        total += paid;
    }
    let rule = if made_only {
        "; the figures count those made, by the rules of version 1, and are no promise about a job that was stopped for its outputs"
    } else {
        "; the figures count all that were planned"
    };
    PointFinding::from_defects(wrong, || format!("{total} releases paid, as the receipts say{rule}"))
}
