//! Limits of secure aggregation.

use std::collections::HashMap;

use super::{check_range, find_dataset, most_classes};
use crate::dataset::Dataset;
use crate::job::dp_sgd::masked::CLIP_STEPS;
use crate::job::dp_sgd::{AverageWeights, Party, SecureAggregation, Spec};
use crate::job::{JobKind as _, LEAST_MEMBERS, MOST_MEMBERS};

/// The least number of honest sites in a sum: with one, a site would add all of its noise alone.
const LEAST_HONEST: u8 = 2;

/// Checks secure aggregation, if the spec has it.
pub(super) fn check(spec: &Spec, datasets: &[Dataset], say: &mut impl FnMut(&str, String)) {
    let Some(masks) = &spec.secure_aggregation else { return };
    let Some(rounds) = &spec.private else {
        say(
            "secure_aggregation",
            "it masks the vectors of the private arm: ask for that, or leave this out".to_owned(),
        );
        return;
    };
    if rounds.local_steps > 1 {
        let why = "under secure aggregation the sites send gradients: set `private.local_steps` to 1";
        say("secure_aggregation", why.to_owned());
    }
    if spec.weights != AverageWeights::ExpectedBatch {
        let why = "the server divides a sum by the expected batches of its sites: set `weights` to `expected_batch`";
        say("weights", why.to_owned());
    }
    for (option, is_there) in [
        ("audit", spec.audit.is_some()),
        ("selection", spec.selection.is_some()),
        ("open_terms", !spec.open_terms.is_empty()),
    ] {
        if is_there {
            say("secure_aggregation", format!("it does not go together with `{option}`: leave one of them out"));
        }
    }
    check_range(
        say,
        "secure_aggregation.clip_steps",
        masks.clip_steps.into(),
        CLIP_STEPS.0.into(),
        CLIP_STEPS.1.into(),
    );
    let members: Vec<(usize, &Party)> =
        spec.participants.iter().enumerate().filter(|(_, party)| party.noise.is_some()).collect();
    check_members(&members, datasets, say);
    if check_group(masks, members.len(), say) && (CLIP_STEPS.0..=CLIP_STEPS.1).contains(&masks.clip_steps) {
        check_width(spec, datasets, say);
    }
}

/// Checks that the members can add up their vectors: one grid, one noise, each round, a site of its own.
fn check_members(members: &[(usize, &Party)], datasets: &[Dataset], say: &mut impl FnMut(&str, String)) {
    let mut workers = HashMap::new();
    for (index, party) in members {
        let at = |field: &str| format!("participants.{index}.{field}");
        if let Some((first, leader)) = members.first().filter(|(_, leader)| leader.noise != party.noise) {
            let noise = leader.noise.map_or(0.0, |noise| noise.noise_multiplier.get());
            let clip = leader.noise.map_or(0.0, |noise| noise.clip);
            let why = format!(
                "under secure aggregation all noise is alike: give it that of participant {first} (noise_multiplier \
                 {noise}, clip {clip}, and the same clipping)"
            );
            say(&at("noise"), why);
        }
        if party.rounds.is_some() {
            let why = "under secure aggregation a party with noise stays for each round: leave this out";
            say(&at("rounds"), why.to_owned());
        }
        let Some(dataset) = find_dataset(datasets, party.dataset) else { continue };
        if let Some(other) = workers.insert(dataset.worker, &dataset.name) {
            let why = format!(
                "`{}` and `{other}` are at one worker, which would be two sites of the group: take one of them",
                dataset.name
            );
            say(&at("dataset"), why);
        }
    }
}

/// Checks the numbers of the group; returns whether they are valid.
fn check_group(masks: &SecureAggregation, sites: usize, say: &mut impl FnMut(&str, String)) -> bool {
    if !(LEAST_MEMBERS..=MOST_MEMBERS).contains(&sites) {
        let why = format!(
            "a group has {LEAST_MEMBERS} to {MOST_MEMBERS} participants with noise, not {sites}: change the participants, \
             or leave this out"
        );
        say("secure_aggregation", why);
        return false;
    }
    let SecureAggregation { smallest_group, colluding, .. } = *masks;
    let group = usize::from(smallest_group);
    let least = usize::midpoint(sites, usize::from(colluding)) + 1;
    if group > sites || group < least {
        let why = if least > sites {
            format!(
                "no group of {sites} sites bears {colluding} colluding ones: set `colluding` to {} or less",
                sites - 2
            )
        } else {
            format!("{least} to {sites} for {sites} sites of which {colluding} may collude, not {smallest_group}")
        };
        let field = if least > sites { "secure_aggregation.colluding" } else { "secure_aggregation.smallest_group" };
        say(field, why);
        return false;
    }
    if smallest_group.saturating_sub(colluding) < LEAST_HONEST {
        let why = format!(
            "with {colluding} colluding sites a sum of {smallest_group} has fewer than {LEAST_HONEST} honest ones: set it to {} \
             or less",
            smallest_group.saturating_sub(LEAST_HONEST)
        );
        say("secure_aggregation.colluding", why);
        return false;
    }
    true
}

/// Checks that the sums fit 32 bits.
fn check_width(spec: &Spec, datasets: &[Dataset], say: &mut impl FnMut(&str, String)) {
    let mut settled = spec.clone();
    settled.model.classes.get_or_insert(most_classes(&spec.datasets(), datasets));
    let find = |id| datasets.iter().find(|dataset| dataset.id == id);
    let members = || settled.members().filter_map(|party| find(party.dataset));
    let Some(inputs) = members().next().map(|dataset| dataset.inputs) else { return };
    let length = spec.private.and_then(|rounds| settled.vector_length(&rounds, datasets));
    let stated = spec.secure_aggregation.and_then(|masks| masks.dimension);
    if stated.is_some_and(|stated| length.is_some_and(|length| length != u64::from(stated.get()))) {
        let why = format!("a vector has {} coordinates: leave it out", length.unwrap_or_default());
        say("secure_aggregation.dimension", why);
    } else if members().count() == settled.members().count()
        && settled.masked_group(inputs, |id| find(id).map(|dataset| settled.units_of(dataset))).is_none()
    {
        let why = format!(
            "sums of these batches exceed 32 bits with {} steps: use fewer, or smaller sampling rates",
            spec.secure_aggregation.map_or(0, |masks| masks.clip_steps)
        );
        say("secure_aggregation.clip_steps", why);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

    use std::num::NonZeroU32;

    use uuid::Uuid;

    use super::super::tests::{OURS, datasets, id, noise, private, selecting, spec};
    use crate::dataset::{Dataset, SizeClass, Visibility};
    use crate::id::WorkerId;
    use crate::job::JobKind as _;
    use crate::job::dp_sgd::{AuditOptions, AverageWeights, Party, SecureAggregation, Spec};
    use crate::job::{MaskedGroup, OpenTerm, TermName};

    /// Makes a valid job of the public lead and `sites` private sites, n as small as possible without collusion.
    fn group(sites: usize) -> (Spec, Vec<Dataset>) {
        let (mut spec, mut datasets) = (Spec { open: None, ..spec() }, datasets());
        for number in 1..sites {
            let site = 10 + number;
            let worker = WorkerId(Uuid::from_u128(site as u128 + 100));
            datasets.push(Dataset { id: id(site), worker, visibility: Visibility::Private, ..datasets[OURS].clone() });
            spec.participants.push(Party { dataset: id(site), ..spec.participants[OURS] });
        }
        spec.secure_aggregation = Some(SecureAggregation::new((sites / 2 + 1) as u8, 0));
        spec.weights = AverageWeights::ExpectedBatch;
        (spec, datasets)
    }

    fn fields(sites: usize, change: impl FnOnce(&mut Spec, &mut Vec<Dataset>)) -> Vec<String> {
        let (mut spec, mut datasets) = group(sites);
        change(&mut spec, &mut datasets);
        spec.check(&datasets).into_iter().map(|violation| violation.field).collect()
    }

    fn terms(spec: &mut Spec) -> &mut SecureAggregation {
        spec.secure_aggregation.as_mut().unwrap()
    }

    #[test]
    fn group_has_three_to_fifty_sites() {
        for sites in [3, 4, 50] {
            assert_eq!(fields(sites, |_, _| ()), [""; 0], "{sites}");
        }
        for sites in [2, 51] {
            assert_eq!(fields(sites, |_, _| ()), ["spec.secure_aggregation"], "{sites}");
        }
    }

    #[test]
    fn smallest_group_outweighs_rest_and_colluding_sites() {
        let with = |sites, smallest_group, colluding| {
            fields(sites, |spec, _| *terms(spec) = SecureAggregation::new(smallest_group, colluding))
        };
        for (sites, smallest_group, colluding) in [(3, 2, 0), (3, 3, 0), (3, 3, 1), (4, 4, 2), (5, 4, 2)] {
            assert_eq!(with(sites, smallest_group, colluding), [""; 0], "{sites} {smallest_group} {colluding}");
        }
        let group = "spec.secure_aggregation.smallest_group";
        for (sites, smallest_group, colluding) in [(3, 2, 1), (3, 4, 0), (3, 1, 0), (4, 2, 0), (5, 3, 2)] {
            assert_eq!(with(sites, smallest_group, colluding), [group], "{sites} {smallest_group} {colluding}");
        }
        // With two colluding sites of three, one honest one is left.
        for colluding in [2, 3, 255] {
            assert_eq!(with(3, 3, colluding), ["spec.secure_aggregation.colluding"], "{colluding}");
        }
    }

    #[test]
    fn options_without_masks_are_refused_by_name() {
        let whole = "spec.secure_aggregation";
        let audit = |spec: &mut Spec, _: &mut Vec<Dataset>| {
            spec.audit = Some(AuditOptions { canaries: 100, guesses: 50, recordings: 0 });
        };
        assert_eq!(fields(3, audit), [whole]);
        let opened = |spec: &mut Spec, _: &mut Vec<Dataset>| {
            spec.open_terms = vec![OpenTerm { dataset: None, term: TermName::NoiseMultiplier, min: 1.0, max: 2.0 }];
        };
        assert_eq!(fields(3, opened), [whole]);
        assert_eq!(fields(3, |spec, _| private(spec).local_steps = 2), [whole]);
        assert_eq!(fields(3, |spec, _| assert!(selecting(spec).candidates.len() > 1)), [whole, whole]);
        assert_eq!(fields(3, |spec, _| spec.private = None), [whole]);
        assert_eq!(fields(3, |spec, _| spec.weights = AverageWeights::Equal), ["spec.weights"]);
    }

    #[test]
    fn members_have_one_grid_and_a_worker_each() {
        let louder = |spec: &mut Spec, _: &mut Vec<Dataset>| spec.participants[3].noise = Some(noise(2.0));
        assert_eq!(fields(3, louder), ["spec.participants.3.noise"]);
        let shorter = |spec: &mut Spec, _: &mut Vec<Dataset>| {
            spec.participants[2].rounds = Some(5);
            private(spec).quorum = 1;
        };
        assert_eq!(fields(3, shorter), ["spec.participants.2.rounds"]);
        let together = |_: &mut Spec, datasets: &mut Vec<Dataset>| datasets[4].worker = datasets[3].worker;
        assert_eq!(fields(3, together), ["spec.participants.3.dataset"]);
    }

    #[test]
    fn stated_dimension_is_that_of_the_model() {
        let (spec, datasets) = group(3);
        let settled = spec.settle(&datasets);
        assert_eq!(settled.check(&datasets), []);
        let d = settled.secure_aggregation.unwrap().dimension.unwrap().get();
        let length = settled.vector_length(&settled.private.unwrap(), &datasets);
        assert_eq!(Some(u64::from(d)), length);
        let other = |spec: &mut Spec, _: &mut Vec<Dataset>| terms(spec).dimension = NonZeroU32::new(d + 1);
        assert_eq!(fields(3, other), ["spec.secure_aggregation.dimension"]);
        // The price needs no dataset then.
        let bare = Dataset { inputs: 0, ..datasets[OURS].clone() };
        assert_eq!(settled.release(&bare, "private"), settled.release(&datasets[OURS], "private"));
        let mut lying = settled;
        terms(&mut lying).dimension = NonZeroU32::new(1);
        assert_eq!(lying.masked_group(13, |_| Some(500)), None, "a site refuses a dimension that is not its own");
    }

    #[test]
    fn grid_is_limited_by_its_range_and_by_the_width_of_sums() {
        let steps = "spec.secure_aggregation.clip_steps";
        for (clip_steps, expected) in
            [(1024, vec![]), (1_048_576, vec![]), (1023, vec![steps]), (1_048_577, vec![steps])]
        {
            assert_eq!(fields(3, |spec, _| terms(spec).clip_steps = clip_steps), expected, "{clip_steps}");
        }
        // 100,000 units in a batch of 65,536 steps each exceed 32 bits; with 4,096 steps they do not.
        let large = |clip_steps| {
            fields(3, move |spec, datasets| {
                terms(spec).clip_steps = clip_steps;
                datasets[OURS].records = SizeClass(1_000_000);
            })
        };
        assert_eq!((large(65_536), large(4096)), (vec![steps.to_owned()], vec![]));
    }

    /// z 1 and C/γ 2¹⁶ with two honest sites: s = ⌈2¹⁶/√2⌉ = 46,341. 500 units stand for up to 707, of which a tenth is
    /// drawn: at most 70.7 + 9.4 + √(9.4² + 2 · 70.7 · 28.3) = 144.1, except with probability 10⁻¹². 3 · 145 · 2¹⁶ and the
    /// tail of 0.7 · 10⁶ are less than 2²⁵, and more than 2²⁴.
    #[test]
    fn group_follows_from_public_numbers() {
        let (spec, datasets) = group(3);
        let spec = spec.settle(&datasets);
        let series = spec.series(&datasets);
        let planned = series[0].masked.clone().unwrap();
        let own = spec.masked_group(13, |_| Some(500)).unwrap();
        assert_eq!(planned, own, "sites and server compute the same group");
        let MaskedGroup { datasets: members, deviation, bits, length, .. } = planned;
        assert_eq!(members, [id(OURS), id(11), id(12)]);
        assert_eq!((deviation, bits, Some(length)), (46_341, 26, series[0].length));
        assert_eq!(spec.masked_group(13, |dataset| (dataset != id(12)).then_some(500)), None);
        assert!(spec.series(&[]).iter().all(|series| series.masked.is_none()));
        let plain = Spec { secure_aggregation: None, ..spec };
        assert!(plain.series(&datasets).iter().all(|series| series.masked.is_none()));
    }
}
