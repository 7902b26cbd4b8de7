//! The two compressions that browsers accept, at their strongest: done once here, not at every request.

use std::io::Write;

/// Compresses `content` with gzip at level 9.
pub(crate) fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(content).and_then(|()| encoder.finish()).expect("writing to memory does not fail")
}

/// Compresses `content` with brotli at quality 11 and a window of 4 MiB, the largest that every browser accepts.
pub(crate) fn brotli(content: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    let mut encoder = brotli::CompressorWriter::new(&mut packed, 64 * 1024, 11, 22);
    encoder.write_all(content).and_then(|()| encoder.flush()).expect("writing to memory does not fail");
    drop(encoder);
    packed
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// Returns content that spans several buffers and compresses well.
    fn content() -> Vec<u8> {
        (0..200_000_u32).flat_map(|i| (i / 7).to_le_bytes()).collect()
    }

    #[test]
    fn gzip_keeps_every_byte() {
        let mut back = Vec::new();
        flate2::read::GzDecoder::new(&gzip(&content())[..]).read_to_end(&mut back).expect("a gzip stream");
        assert!(back == content());
    }

    #[test]
    fn brotli_keeps_every_byte() {
        let mut back = Vec::new();
        brotli::Decompressor::new(&brotli(&content())[..], 4096).read_to_end(&mut back).expect("a brotli stream");
        assert!(back == content());
    }
}
