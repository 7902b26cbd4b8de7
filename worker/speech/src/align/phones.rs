//! Converts phones with times to classes of frames: phones → states → tied classes.
//!
//! Each boundary is rounded to frames of 10 ms. A phone of n frames has three states: frame j (from 0) is in state ⌊3
//! (2j + 1) / 2n⌋, so a phone of one frame is in the middle state only. Frames without a phone are silence, `SIL`. A
//! state in the context of its neighbours, `l-c+r.s`, has its own class if it has enough frames. The other contexts are
//! combined as `c+r.s`, and, if these still have too few frames, as `c.s`, which every phone has. Any unknown phone has
//! the last class of the map, `?`. Word position (`_B`, `_I`, `_E`, `_S`) and, in ARPAbet, stress (`AA1`) are removed
//! from names.
//!
//! A map depends on frame counts: create it from public data and distribute it, because all participants of a job need
//! the same map.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::alignment::{Alignment, AlignmentSet, MOST_FRAMES};

/// Silence, also used before the first and after the last phone.
pub(crate) const SILENCE: &str = "SIL";
/// The class of unknown phones.
const UNKNOWN: &str = "?";
/// Number of states of a phone.
pub(crate) const STATES: usize = 3;
/// Frames per second.
const RATE: f64 = 100.0;

/// A phone with its times.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PhoneSegment {
    /// Start time, seconds.
    pub(super) start: f64,
    /// End time, seconds.
    pub(super) end: f64,
    /// Name as written in the file.
    pub(super) phone: String,
}

/// The phones of all utterances, in frames and without gaps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct PhoneTable {
    by_id: BTreeMap<String, Vec<(String, u32)>>,
}

impl PhoneTable {
    /// Adds an utterance.
    ///
    /// # Errors
    /// The problem as text, if the segments overlap, run backwards or have no frame, or the utterance exists already.
    pub(super) fn insert(&mut self, id: String, mut segments: Vec<PhoneSegment>) -> Result<(), String> {
        segments.sort_by(|a, b| a.start.total_cmp(&b.start));
        let mut runs: Vec<(String, u32)> = Vec::new();
        let mut at: u32 = 0;
        for PhoneSegment { start, end, phone } in segments {
            let (from, to) = (frame(start)?, frame(end)?);
            if to < from {
                return Err(format!("a phone from {start} s to {end} s"));
            }
            // Neighbours may share one frame because of rounding.
            if from + 1 < at {
                return Err(format!("phones overlap at {start} s"));
            }
            if from > at {
                runs.push((SILENCE.to_owned(), from - at));
            }
            if to > from.max(at) {
                runs.push((plain_phone(&phone), to - from.max(at)));
                at = to;
            } else {
                at = at.max(from);
            }
        }
        if at == 0 {
            return Err("no phone has a frame".to_owned());
        }
        match self.by_id.entry(id) {
            std::collections::btree_map::Entry::Occupied(_) => {
                Err("there is an earlier one for this utterance".to_owned())
            }
            std::collections::btree_map::Entry::Vacant(place) => {
                place.insert(runs);
                Ok(())
            }
        }
    }

    /// Returns true if there are no utterances.
    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Ties the states of all utterances: a context with at least `least` frames has its own class.
    ///
    /// # Errors
    /// If the result has more classes than labels can represent.
    pub(super) fn tie(&self, least: u64) -> Result<PhoneMap, String> {
        let mut whole: BTreeMap<[String; 3], u64> = BTreeMap::new();
        for run in self.by_id.values().flat_map(|runs| states(runs)) {
            *whole.entry(run.names).or_default() += u64::from(run.frames);
        }
        let mut half: BTreeMap<(String, String), u64> = BTreeMap::new();
        let mut classes = Vec::new();
        let mut alone = std::collections::BTreeSet::new();
        for ([context, right, state], frames) in whole {
            alone.insert(state.clone());
            if context == state {
                continue;
            }
            if frames >= least {
                classes.push(context);
            } else {
                *half.entry((right, state)).or_default() += frames;
            }
        }
        classes.extend(half.into_iter().filter(|(_, frames)| *frames >= least).map(|((right, _), _)| right));
        classes.extend(alone);
        classes.sort();
        if classes.len() > usize::from(u16::MAX) {
            return Err(format!("{} classes, more than {}: raise --phone-frames", classes.len(), u16::MAX));
        }
        Ok(PhoneMap { phone_classes: classes })
    }

    /// Returns one class for every frame, by a map.
    pub(super) fn alignments(&self, map: &PhoneMap) -> AlignmentSet {
        let mut alignments = AlignmentSet::default();
        for (id, runs) in &self.by_id {
            let mut labels: Vec<(u16, u32)> = Vec::new();
            for run in states(runs) {
                let class = map.class(&run.names);
                match labels.last_mut() {
                    Some((last, frames)) if *last == class => *frames += run.frames,
                    _ => labels.push((class, run.frames)),
                }
            }
            let frames = labels.iter().map(|(_, frames)| *frames as usize).sum();
            alignments.by_id.insert(id.clone(), Alignment { runs: labels, frames });
        }
        alignments
    }
}

/// Consecutive frames in one state.
struct StateRun {
    /// The state with both neighbours, with the right one, and alone.
    names: [String; 3],
    frames: u32,
}

fn states(runs: &[(String, u32)]) -> impl Iterator<Item = StateRun> {
    let neighbour = |at: Option<usize>| at.and_then(|at| runs.get(at)).map_or(SILENCE, |(phone, _)| phone.as_str());
    runs.iter().enumerate().flat_map(move |(i, (phone, frames))| {
        let (left, right) = (neighbour(i.checked_sub(1)), neighbour(i.checked_add(1)));
        let counts: [u32; STATES] = std::array::from_fn(|state| begins(state + 1, *frames) - begins(state, *frames));
        let of_state = move |(state, frames): (usize, u32)| {
            let alone = format!("{phone}.{state}");
            // Silence has no context.
            let names = if phone == SILENCE {
                [alone.clone(), alone.clone(), alone]
            } else {
                [format!("{left}-{phone}+{right}.{state}"), format!("{phone}+{right}.{state}"), alone]
            };
            StateRun { names, frames }
        };
        counts.into_iter().enumerate().filter(|(_, frames)| *frames > 0).map(of_state)
    })
}

/// Returns the first frame j of a phone of `frames` frames in state `state` or a later one: the least j with 3 (2j + 1)
/// ≥ 2 · state · frames. This is a closed formula because a line of thirty bytes may state a phone as long as a day.
fn begins(state: usize, frames: u32) -> u32 {
    let (states, reached) = (STATES as u64, 2 * state as u64 * u64::from(frames));
    reached.saturating_sub(states).div_ceil(2 * states) as u32
}

fn frame(seconds: f64) -> Result<u32, String> {
    let frame = (seconds * RATE).round();
    // A start just below zero results from rounding.
    if (-1.0..=MOST_FRAMES as f64).contains(&frame) {
        Ok(frame.max(0.0) as u32)
    } else {
        Err(format!("a time of {seconds} s"))
    }
}

/// Returns a phone's name without word position and stress; all names of silence become one.
pub(crate) fn plain_phone(written: &str) -> String {
    let plain = ["_B", "_I", "_E", "_S"].iter().find_map(|suffix| written.strip_suffix(suffix)).unwrap_or(written);
    let bare = plain.trim_end_matches(|c: char| c.is_ascii_digit());
    let plain = if !bare.is_empty() && bare.bytes().all(|byte| byte.is_ascii_uppercase()) { bare } else { plain };
    match plain {
        "" | "<eps>" | "sil" | "SIL" | "sp" | "SP" => SILENCE.to_owned(),
        // `?` is the class of unknown phones, so no phone may have this name.
        other => other.replace('?', "ʔ"),
    }
}

/// The class of each state in its context: the class is the index in the list, and the additional last class, `?`, is
/// for the rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhoneMap {
    phone_classes: Vec<String>,
}

impl PhoneMap {
    /// Reads a map that a preparation wrote.
    ///
    /// # Errors
    /// The problem as text.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let map: Self = serde_json::from_slice(&text).map_err(|error| {
            format!("{} is no phone map ({error}): take the phones.json of a dataset", path.display())
        })?;
        let ordered = map.phone_classes.is_sorted_by(|a, b| a < b) && u16::try_from(map.phone_classes.len()).is_ok();
        if !ordered || map.phone_classes.is_empty() {
            return Err(format!("{} is no phone map: its names are not ascending", path.display()));
        }
        Ok(map)
    }

    /// Returns the number of classes, including the class for the rest.
    pub fn classes(&self) -> usize {
        self.phone_classes.len() + 1
    }

    /// Returns the name of a class.
    pub fn name(&self, class: u16) -> Option<&str> {
        let class = usize::from(class);
        if class == self.phone_classes.len() {
            Some(UNKNOWN)
        } else {
            self.phone_classes.get(class).map(String::as_str)
        }
    }

    /// Returns the phone and the state (0 to 2) of a class, without the phone's context; `None` for the class of the rest.
    pub fn phone_state(&self, class: u16) -> Option<(&str, usize)> {
        let (context, state) = self.phone_classes.get(usize::from(class))?.rsplit_once('.')?;
        let right = context.split_once('-').map_or(context, |(_, right)| right);
        let phone = right.split_once('+').map_or(right, |(phone, _)| phone);
        let state = state.parse().ok().filter(|state| *state < STATES)?;
        (!phone.is_empty()).then_some((phone, state))
    }

    fn class(&self, names: &[String; 3]) -> u16 {
        let class = names.iter().find_map(|name| self.phone_classes.binary_search(name).ok());
        class.unwrap_or(self.phone_classes.len()) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::{PhoneMap, STATES, begins};

    #[test]
    fn phone_of_a_class_has_no_context() {
        let names = ["AA-B+CH.1", "B+CH.2", "SIL.0", "other"];
        let map = PhoneMap { phone_classes: names.map(str::to_owned).to_vec() };
        let states: Vec<_> = (0..5).map(|class| map.phone_state(class)).collect();
        assert_eq!(states, [Some(("B", 1)), Some(("B", 2)), Some(("SIL", 0)), None, None]);
    }

    #[test]
    fn every_frame_of_a_phone_is_in_the_state_that_the_formula_says() {
        for frames in (1..200).chain([999, 4001]) {
            let mut counts = [0_u32; STATES];
            for j in 0..frames as usize {
                counts[STATES * (2 * j + 1) / (2 * frames as usize)] += 1;
            }
            let worked_out: [u32; STATES] =
                std::array::from_fn(|state| begins(state + 1, frames) - begins(state, frames));
            assert_eq!(worked_out, counts, "{frames} frames");
        }
    }
}
