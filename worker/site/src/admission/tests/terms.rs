//! Final manifests: the server may change nothing but the answers, and those within their ranges.

use undertone_api::job::{OpenTerm, PartyTerms, Spec, TermName};
use undertone_api::signed::{Manifest, Signed};

use super::{honest, identity, now, settle, sign};
use crate::admission::{ManifestFault, examine};
use crate::testing::{ORGANIZATION, OURS, WORKER, local};
use undertone_api::dataset::Visibility;

/// Returns a proposal that leaves the noise of this site to it.
pub(super) fn proposal() -> Manifest {
    let mut manifest = honest();
    let Spec::DpSgd(spec) = &mut manifest.spec else { panic!("it is of another kind") };
    let noise = spec.participants[1].noise.expect("it has noise").noise_multiplier.get();
    spec.open_terms =
        vec![OpenTerm { dataset: Some(OURS), term: TermName::NoiseMultiplier, min: noise, max: 4.0 * noise }];
    manifest
}

/// Returns the final manifest of a proposal with an answer of this site, as an honest server makes it.
fn settled(proposal: &Manifest, signed: Signed, factor: f64) -> Manifest {
    let range = proposal.spec.open_terms(OURS)[0];
    let terms: PartyTerms = [(range.term, factor * range.value)].into_iter().collect();
    let spec = proposal.spec.clone().with_terms(OURS, &terms);
    let dataset = local(Visibility::Private).to_dataset(OURS, ORGANIZATION, WORKER);
    let charge = spec.cost(&dataset);
    proposal.clone().settle_terms(signed, spec, |id| charge.clone().filter(|_| id == OURS))
}

fn fault(manifest: &Manifest) -> Option<ManifestFault> {
    examine(&sign(manifest), OURS, &identity(), &[local(Visibility::Private)], now()).err()
}

#[test]
fn final_manifest_holds_answers_and_nothing_else() {
    let proposed = proposal();
    let signed = sign(&proposed);
    let honest = settled(&proposed, signed.clone(), 2.0);
    let examined = examine(&sign(&honest), OURS, &identity(), &[local(Visibility::Private)], now());
    let examined = examined.expect("it is honest");
    assert_eq!(examined.approved, signed.digest());
    assert!(examined.charge.is_some() && examined.charge != proposed.participants[1].charge);

    let beyond = settled(&proposed, signed.clone(), 8.0);
    assert_eq!(fault(&beyond), Some(ManifestFault::Terms), "out of the range");
    let mut other = honest.clone();
    let Spec::DpSgd(spec) = &mut other.spec else { panic!("it is of another kind") };
    spec.participants[0].sampling_rate = undertone_privacy::SamplingRate::ONE;
    assert_eq!(fault(&other), Some(ManifestFault::Terms), "another party's closed term");
    let mut longer = honest.clone();
    let Spec::DpSgd(spec) = &mut longer.spec else { panic!("it is of another kind") };
    spec.private.as_mut().expect("it has rounds").deadline_seconds += 1;
    settle(&mut longer);
    assert_eq!(fault(&longer), Some(ManifestFault::Terms));
    for change in [
        |manifest: &mut Manifest| manifest.title.push('!'),
        |manifest: &mut Manifest| manifest.participants[0].units += 1,
        |manifest: &mut Manifest| manifest.participants[0].dataset_name.push('2'),
        |manifest: &mut Manifest| manifest.proposed_by.push('2'),
    ] {
        let mut changed = honest.clone();
        change(&mut changed);
        assert_eq!(fault(&changed), Some(ManifestFault::Terms));
    }
}

#[test]
fn proposal_within_a_final_manifest_is_verified() {
    let proposed = proposal();
    let forged = Signed { signature: "00".repeat(64), ..sign(&proposed) };
    assert!(matches!(fault(&settled(&proposed, forged, 2.0)), Some(ManifestFault::Signature(_))));
    let mut closed = proposed.clone();
    let Spec::DpSgd(spec) = &mut closed.spec else { panic!("it is of another kind") };
    spec.open_terms.clear();
    let foreign = settled(&proposed, sign(&closed), 2.0);
    assert_eq!(fault(&foreign), Some(ManifestFault::Terms), "the proposal left nothing open");
    let nested = settled(&proposed, sign(&settled(&proposed, sign(&proposed), 2.0)), 2.0);
    assert_eq!(fault(&nested), Some(ManifestFault::Terms), "a final manifest is no proposal");
}
