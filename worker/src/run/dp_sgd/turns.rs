//! The groups of a site's units that have their turns one after another (cyclic Poisson sampling).
//!
//! The group of a unit follows from the job and from the unit's own id, so it is the same in all rounds, after a crash,
//! and whatever other units there are. It need not be secret: the draw within the group is.

use std::num::NonZeroU32;

use sha2::{Digest, Sha256};
use undertone_api::id::{DatasetId, JobId};

/// The units of each group, ascending.
pub(super) struct UnitTurns {
    groups: Vec<Vec<usize>>,
}

impl UnitTurns {
    /// Assigns units, by their ids in order, to `count` groups.
    pub(super) fn assign(
        job: JobId,
        dataset: DatasetId,
        ids: impl Iterator<Item = Vec<u8>>,
        count: NonZeroU32,
    ) -> Self {
        let mut groups = vec![Vec::new(); count.get() as usize];
        for (unit, id) in ids.enumerate() {
            groups[find_group(job, dataset, &id, count)].push(unit);
        }
        Self { groups }
    }

    /// Returns the units whose turn a round is, numbered from 1.
    pub(super) fn members(&self, round: u32) -> &[usize] {
        &self.groups[round.saturating_sub(1) as usize % self.groups.len()]
    }
}

/// Returns the group of a unit. SHA-256 of fixed-length parts before the id is a keyed hash: one key for each job and
/// dataset.
fn find_group(job: JobId, dataset: DatasetId, id: &[u8], count: NonZeroU32) -> usize {
    let mut hash = Sha256::new_with_prefix("undertone/unit-turn/1\0");
    hash.update(job.0);
    hash.update(dataset.0);
    hash.update(id);
    let mut number = [0; 8];
    number.copy_from_slice(&hash.finalize()[..8]);
    (u64::from_le_bytes(number) % u64::from(count.get())) as usize
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use undertone_api::id::{DatasetId, JobId};
    use uuid::Uuid;

    use super::UnitTurns;

    fn assign(job: u128, ids: impl Iterator<Item = u32>) -> UnitTurns {
        let ids = ids.map(|id| id.to_string().into_bytes());
        let four = NonZeroU32::MIN.saturating_add(3);
        UnitTurns::assign(JobId(Uuid::from_u128(job)), DatasetId(Uuid::from_u128(2)), ids, four)
    }

    #[test]
    fn each_unit_has_one_group_whatever_the_others_are() {
        let all = assign(1, 0..1000);
        let mut seen: Vec<usize> = (1..=4).flat_map(|round| all.members(round).to_vec()).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..1000).collect::<Vec<_>>());
        for round in 1..=4 {
            // 250 and five standard deviations of 14.
            assert!((180..=320).contains(&all.members(round).len()), "{}", all.members(round).len());
            assert_eq!(all.members(round), all.members(round + 4), "the turns repeat");
            // Every second unit alone: its group stays.
            let half = assign(1, (0..1000).step_by(2));
            let expected: Vec<usize> =
                all.members(round).iter().filter(|unit| *unit % 2 == 0).map(|unit| unit / 2).collect();
            assert_eq!(half.members(round), expected);
        }
    }

    #[test]
    fn groups_of_another_job_are_others() {
        assert_ne!(assign(1, 0..1000).members(1), assign(2, 0..1000).members(1));
    }
}
