#![expect(clippy::unwrap_used, reason = "what a test writes can be read, or the test fails")]

use undertone_api::job::dp_sgd::Precision;

use super::{BLOCK, MAX_LENGTH, SLICE, VectorError, VectorForm, VectorReader, code, pack, read, write};

const PRECISIONS: [Precision; 3] = [Precision::F32, Precision::Bf16, Precision::Int8];

/// SplitMix64.
struct SplitMix(u64);

impl SplitMix {
    fn draw(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed >> 32) as u32
    }

    /// Returns approximately normal numbers, like those of a release.
    fn noise(&mut self, length: usize) -> Vec<f32> {
        let uniform = |chance: &mut Self| f64::from(chance.draw()) / 4_294_967_296.0 - 0.5;
        (0..length).map(|_| ((0..12).map(|_| uniform(self)).sum::<f64>() * 0.003) as f32).collect()
    }
}

fn form(precision: Precision, length: usize) -> VectorForm {
    VectorForm::new(precision, length as u64).unwrap()
}

fn written(vector: &[f32], precision: Precision) -> Vec<u8> {
    let mut chance = SplitMix(9);
    write(vector, precision, || chance.draw()).unwrap()
}

#[test]
fn vectors_of_any_length_survive_within_precision() {
    for length in [1, 2, BLOCK - 1, BLOCK, BLOCK + 1, SLICE - 1, SLICE, SLICE + 1, 2 * SLICE + 300] {
        let vector = SplitMix(length as u64).noise(length);
        for precision in PRECISIONS {
            let bytes = written(&vector, precision);
            let numbers = read(&bytes, form(precision, length)).unwrap();
            assert_eq!(numbers.len(), length);
            for (block, (before, after)) in vector.chunks(BLOCK).zip(numbers.chunks(BLOCK)).enumerate() {
                let most = before.iter().fold(0.0_f32, |most, number| most.max(number.abs()));
                for (before, after) in before.iter().zip(after) {
                    let allowed = match precision {
                        Precision::F32 => 0.0,
                        Precision::Bf16 => before.abs() / 256.0,
                        Precision::Int8 => most / 127.0 * 1.000_001,
                    };
                    assert!((before - after).abs() <= allowed, "{precision:?} {length} {block}: {before} {after}");
                }
            }
        }
    }
}

#[test]
fn packed_vectors_have_the_documented_size() {
    let vector = SplitMix(1).noise(3 * SLICE);
    let part = |precision| written(&vector, precision).len() as f64 / (4 * vector.len()) as f64;
    let (f32, bf16, int8) = (part(Precision::F32), part(Precision::Bf16), part(Precision::Int8));
    assert!(f32 < 0.88 && bf16 < 0.38 && int8 < 0.25, "{f32} {bf16} {int8}");
}

#[test]
fn bytes_may_be_cut_anywhere() {
    let vector = SplitMix(2).noise(SLICE + 777);
    for precision in PRECISIONS {
        let form = form(precision, vector.len());
        let mut chance = SplitMix(9);
        let mut plain = Vec::new();
        code::encode(&vector, precision, || chance.draw(), &mut plain);
        for bytes in [written(&vector, precision), plain] {
            let whole = read(&bytes, form).unwrap();
            for size in [1, 7, 259, 65_537] {
                let mut reader = VectorReader::new(form, bytes.len() as u64).unwrap();
                let mut numbers = Vec::new();
                for piece in bytes.chunks(size) {
                    reader.take(piece, &mut numbers).unwrap();
                }
                reader.finish().unwrap();
                assert!(numbers == whole, "{precision:?} in pieces of {size}");
            }
        }
    }
}

/// States the format independently, because other versions read and write these bytes too.
#[test]
fn encoded_bytes_equal_the_format_for_any_split() {
    let vector = SplitMix(6).noise(2 * SLICE + 777);
    for (precision, width) in [(Precision::F32, 4), (Precision::Bf16, 2), (Precision::Int8, 1)] {
        let form = form(precision, vector.len());
        let mut chance = SplitMix(9);
        let mut encoded = Vec::new();
        code::encode(&vector, precision, || chance.draw(), &mut encoded);
        if precision == Precision::F32 {
            assert!(encoded.iter().copied().eq(vector.iter().flat_map(|number| number.to_le_bytes())));
        }
        let sorted: Vec<u8> = encoded
            .chunks(SLICE * width)
            .flat_map(|slice| (0..width).flat_map(move |place| slice.iter().skip(place).step_by(width).copied()))
            .collect();
        let packed = written(&vector, precision);
        assert!(zstd::decode_all(packed.as_slice()).unwrap() == sorted, "{precision:?}");
        for size in [1001, SLICE * width, SLICE * width + 4, encoded.len()] {
            let mut packer = pack::VectorPacker::new(&form).unwrap();
            let mut pieces = Vec::new();
            encoded.chunks(size).try_for_each(|piece| packer.take(piece, &mut pieces)).unwrap();
            packer.finish(&mut pieces).unwrap();
            assert!(pieces == packed, "{precision:?} in pieces of {size}");
        }
    }
}

#[test]
fn incompressible_vectors_stay_plain() {
    let mut chance = SplitMix(3);
    let bits = std::iter::repeat_with(|| f32::from_bits(chance.draw())).filter(|number| number.is_finite());
    let vector: Vec<f32> = bits.take(1000).collect();
    assert_eq!(written(&vector, Precision::F32).len(), 4000);
    assert_eq!(read(&written(&vector, Precision::F32), form(Precision::F32, 1000)).unwrap(), vector);
}

#[test]
fn truncated_and_extended_vectors_are_refused() {
    let vector = SplitMix(4).noise(SLICE + 5);
    for precision in PRECISIONS {
        let form = form(precision, vector.len());
        let bytes = written(&vector, precision);
        let short = read(&bytes[..bytes.len() - 1], form).unwrap_err();
        assert!(matches!(short, VectorError::TooShort { .. } | VectorError::Packed(_)), "{short}");
        let longer = vec![0; form.bytes() as usize + 1];
        assert!(matches!(read(&longer, form), Err(VectorError::TooLong { .. })));
        let smaller = VectorForm::new(precision, 5).unwrap();
        assert!(matches!(read(&bytes, smaller), Err(VectorError::TooLong { .. })), "of another form");
    }
}

/// Sends some KiB that decompress to 256 MiB: rejected after at most the form's few bytes and one piece.
#[test]
fn decompression_bomb_is_refused_during_unpacking() {
    let mut bomb = Vec::new();
    let mut encoder = zstd::stream::write::Encoder::new(&mut bomb, 1).unwrap();
    std::io::copy(&mut std::io::Read::take(std::io::repeat(0), 1 << 28), &mut encoder).unwrap();
    encoder.finish().unwrap();
    assert!(bomb.len() < 1 << 15, "{}", bomb.len());
    let form = form(Precision::F32, 1 << 14);
    assert!((bomb.len() as u64) < form.bytes());
    let mut numbers = Vec::new();
    let mut reader = VectorReader::new(form, bomb.len() as u64).unwrap();
    let refused = reader.take(&bomb, &mut numbers).unwrap_err();
    let VectorError::TooLong { found, most } = refused else { panic!("{refused}") };
    assert!(found <= most + (64 << 10) && numbers.len() as u64 <= form.length(), "{found}");
}

#[test]
fn a_window_larger_than_any_of_ours_is_refused() {
    let mut bytes = Vec::new();
    let mut encoder = zstd::stream::write::Encoder::new(&mut bytes, 1).unwrap();
    encoder.set_parameter(zstd::stream::raw::CParameter::WindowLog(27)).unwrap();
    std::io::copy(&mut std::io::Read::take(std::io::repeat(0), 1 << 25), &mut encoder).unwrap();
    encoder.finish().unwrap();
    assert!(matches!(read(&bytes, form(Precision::F32, 1 << 23)), Err(VectorError::Packed(_))));
}

#[test]
fn damaged_bytes_are_no_vector() {
    let vector = SplitMix(5).noise(4000);
    let mut bytes = written(&vector, Precision::F32);
    bytes[0] ^= 0xff;
    assert!(matches!(read(&bytes, form(Precision::F32, 4000)), Err(VectorError::Packed(_))));
}

#[test]
fn a_number_that_is_not_finite_is_named() {
    let refused = |bytes: &[u8], precision, length| read(bytes, form(precision, length)).unwrap_err();
    let third: Vec<u8> = [1.0, 2.0, f32::NAN].iter().flat_map(|number: &f32| number.to_le_bytes()).collect();
    assert_eq!(refused(&third, Precision::F32, 3), VectorError::NotFinite { index: 2 });
    assert_eq!(refused(&[0, 0, 0x80, 0x7f], Precision::Bf16, 2), VectorError::NotFinite { index: 1 });
    let mut blocks = vec![0; 2 * (BLOCK + 4)];
    blocks[BLOCK + 4..BLOCK + 8].copy_from_slice(&f32::INFINITY.to_le_bytes());
    assert_eq!(refused(&blocks, Precision::Int8, 2 * BLOCK), VectorError::NotFinite { index: BLOCK as u64 });
    assert_eq!(write(&[0.5, f32::INFINITY], Precision::Int8, || 0), Err(VectorError::NotFinite { index: 1 }));
}

#[test]
fn no_vector_is_empty_or_endless() {
    for length in [0, MAX_LENGTH + 1, u64::MAX] {
        assert_eq!(VectorForm::new(Precision::Int8, length), Err(VectorError::Length(length)));
    }
    assert_eq!(VectorForm::new(Precision::Int8, 257).unwrap().bytes(), 257 + 8);
}
