//! Takes known pieces out of a recording that is read again.

use super::Spoken;
use crate::speech::audio::AudioError;
use crate::speech::transcribe::piece::{Piece, seconds};

/// Why a piece is not there.
#[derive(Debug, thiserror::Error)]
pub enum CutError {
    /// The recording cannot be read.
    #[error(transparent)]
    Audio(#[from] AudioError),
    /// Pieces that were not cut from one recording in order of time.
    #[error("piece {0} is empty or begins before the one ahead of it ends: give pieces in order of time")]
    Order(u32),
    /// The recording is another one than it was.
    #[error("the recording ends at {end:.3} s, before piece {id} does: it changed since it was cut, cut it anew")]
    Ended {
        /// The piece.
        id: u32,
        /// Where the recording ends, seconds.
        end: f64,
    },
}

/// The sound of `pieces`, which are in order of time and do not overlap, from the blocks of their recording. Holds one piece
/// and one block at a time; reads no further than the last piece. After an error it is over.
pub fn cut<B, P>(blocks: B, pieces: P) -> Cut<B, P::IntoIter>
where
    B: Iterator<Item = Result<Vec<f32>, AudioError>>,
    P: IntoIterator<Item = Piece>,
{
    Cut { blocks, pieces: pieces.into_iter(), held: Vec::new(), base: 0, over: false }
}

/// See [`cut`].
pub struct Cut<B, P> {
    blocks: B,
    pieces: P,
    held: Vec<f32>,
    /// The number of the first sample that is held.
    base: u64,
    over: bool,
}

impl<B, P> Cut<B, P>
where
    B: Iterator<Item = Result<Vec<f32>, AudioError>>,
{
    fn take(&mut self, piece: Piece) -> Result<Spoken, CutError> {
        let (start, end) = (piece.samples.start, piece.samples.end);
        if start < self.base || end <= start {
            return Err(CutError::Order(piece.id));
        }
        loop {
            let passed = (start - self.base).min(self.held.len() as u64);
            self.held.drain(..passed as usize);
            self.base += passed;
            let there = self.base + self.held.len() as u64;
            if there >= end {
                break;
            }
            match self.blocks.next() {
                Some(block) => self.held.extend(block?),
                None => return Err(CutError::Ended { id: piece.id, end: seconds(there) }),
            }
        }
        self.base = end;
        let audio = self.held.drain(..(end - start) as usize).collect();
        Ok(Spoken { piece, audio })
    }
}

impl<B, P> Iterator for Cut<B, P>
where
    B: Iterator<Item = Result<Vec<f32>, AudioError>>,
    P: Iterator<Item = Piece>,
{
    type Item = Result<Spoken, CutError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let piece = self.pieces.next()?;
        let taken = self.take(piece);
        self.over = taken.is_err();
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(samples: usize, block: usize) -> impl Iterator<Item = Result<Vec<f32>, AudioError>> {
        let samples: Vec<f32> = (0..samples).map(|number| number as f32).collect();
        samples.chunks(block).map(|block| Ok(block.to_vec())).collect::<Vec<_>>().into_iter()
    }

    fn pieces(ranges: &[std::ops::Range<u64>]) -> Vec<Piece> {
        (0..).zip(ranges).map(|(id, samples)| Piece { id, samples: samples.clone() }).collect()
    }

    #[test]
    fn pieces_come_out_as_they_lie_however_the_recording_is_read() {
        let wanted = pieces(&[3..10, 10..11, 500..1_000]);
        for block in [1, 7, 64, 1_000] {
            let cut: Vec<Spoken> = cut(blocks(1_000, block), wanted.clone()).map(Result::unwrap).collect();
            for (Spoken { piece, audio }, wanted) in cut.iter().zip(&wanted) {
                assert_eq!(piece, wanted);
                let numbers: Vec<f32> = piece.samples.clone().map(|number| number as f32).collect();
                assert_eq!(audio, &numbers, "blocks of {block}");
            }
            assert_eq!(cut.len(), 3);
        }
    }

    #[test]
    fn a_recording_that_got_shorter_and_pieces_out_of_order_are_refused_by_number() {
        let short: Vec<_> = cut(blocks(100, 10), pieces(&[0..50, 60..101, 101..102])).collect();
        assert_eq!(short.len(), 2, "it is over after the error");
        assert!(matches!(short[1], Err(CutError::Ended { id: 1, .. })), "{short:?}");
        let order: Vec<_> = cut(blocks(100, 10), pieces(&[0..50, 49..60])).collect();
        assert!(matches!(order[1], Err(CutError::Order(1))), "{order:?}");
        let empty = Piece { id: 9, samples: 5..5 };
        assert!(matches!(cut(blocks(100, 10), [empty]).next(), Some(Err(CutError::Order(9)))));
    }
}
