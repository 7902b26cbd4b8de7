//! Hostile files for the readers of recordings and labels: the results are valid, and all other input is rejected with
//! a reason.

use std::path::PathBuf;

use tempfile::TempDir;
use undertone_fuzz::Target;

use super::align::{self, LabelOptions, PhoneTying};
use super::audio;
use undertone_worker_site::testing::fixture;

/// Maximum frames of an utterance: a day of speech.
const DAY: usize = 8_640_000;
/// Maximum length of the reason for a skipped line, in characters: a report shows many.
const REASON: usize = 300;

/// Returns labels in every format, each with its reading options.
fn labels() -> [(&'static str, &'static str, Vec<&'static str>, LabelOptions); 4] {
    let phones = LabelOptions { step: 1, phones: Some(PhoneTying::Least(1)) };
    let runs = "{\"u\":\"a\",\"frames\":6,\"runs\":[[7,1],[9,3],[7,2]]}\n\n{\"u\":\"b\",\"frames\":20,\"runs\":[[1,10],[2,10]]}\n";
    let kaldi = "a 7 9 9 9 7 7\nb 1 1 1 2 2 2\n";
    let ctm = ";; phones\nu A 0.00 0.04 T\nu A 0.04 0.11 AE1 0.98\nv 1 0.5 0.25 sil\nv 1 0.75 0.25 B_B\n";
    let short = "File type = \"ooTextFile\"\nObject class = \"TextGrid\"\n\n0\n0.12\n<exists>\n1\n\"IntervalTier\"\n\"phones\"\n0\n0.12\n\
                 3\n0\n0.03\n\"\"\n0.03\n0.09\n\"AE1\"\n0.09\n0.12\n\"T\"\n";
    let long = "File type = \"ooTextFile\"\nObject class = \"TextGrid\"\n\nxmin = 0\nxmax = 0.12\ntiers? <exists>\nsize = 2\n\
                item []:\n    item [1]:\n        class = \"TextTier\"\n        name = \"words\"\n        xmin = 0\n        xmax = 0.12\n\
                points: size = 1\n    number = 0.1\n    mark = \"say \"\"at\"\"\"\n    item [2]:\n        class = \"IntervalTier\"\n\
                name = \"anna - phones\"\n        xmin = 0\n        xmax = 0.12\n        intervals: size = 1\n\
                xmin = 0.03\n            xmax = 0.09\n            text = \"T\"\n";
    [
        ("worker.labels_runs", "labels.jsonl", vec![runs], LabelOptions::default()),
        ("worker.labels_kaldi", "labels.txt", vec![kaldi], LabelOptions { step: 3, phones: None }),
        ("worker.labels_ctm", "labels.ctm", vec![ctm], phones.clone()),
        ("worker.labels_textgrid", "grids/a.TextGrid", vec![short, long], phones),
    ]
}

fn place(dir: &TempDir, name: &str) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::create_dir_all(path.parent().expect("it lies in a folder")).expect("the folder is writable");
    path
}

#[test]
fn no_file_of_labels_breaks_its_reader() {
    for (name, file, seeds, reading) in labels() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = place(&dir, file);
        let input = if file.contains('/') { path.parent().expect("a folder").to_path_buf() } else { path.clone() };
        let words = [
            "[[1,1]]",
            "\"runs\":",
            "\"IntervalTier\"",
            "\"phones\"",
            "<exists>",
            "0.01",
            "65535",
            ";;",
            "u 1 0.5 0.1 A\n",
        ];
        Target::new(name, 1_500).seeds(seeds).words(&words).run(|bytes| {
            std::fs::write(&path, bytes).expect("the folder is writable");
            let Ok(labels) = align::read(&input, &reading) else { return };
            for alignment in labels.alignments.by_id.values() {
                let frames: usize = alignment.runs().iter().map(|(_, frames)| *frames as usize).sum();
                assert!(frames == alignment.frames() && (1..=DAY).contains(&frames), "{frames}");
                assert_eq!(alignment.labels(frames.min(1000), DAY).map(|labels| labels.len()), Ok(frames.min(1000)));
            }
            let bad = &labels.alignments.bad_lines;
            assert!(bad.iter().all(|bad| bad.reason.chars().count() <= REASON), "{bad:?}");
        });
    }
}

#[test]
fn the_labels_that_are_changed_are_good_ones() {
    for (name, file, seeds, reading) in labels() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = place(&dir, file);
        let input = if file.contains('/') { path.parent().expect("a folder").to_path_buf() } else { path.clone() };
        for seed in seeds {
            std::fs::write(&path, seed).expect("the folder is writable");
            let labels = align::read(&input, &reading).expect("good labels");
            assert_eq!(labels.alignments.bad_lines, [], "{name}");
        }
    }
}

/// Returns WAV files of 16 bits and of floats, with one and two channels, at several rates.
fn waves(dir: &TempDir) -> Vec<Vec<u8>> {
    let wave = |channels, sample_rate, sample_format| {
        let path = place(dir, "seed.wav");
        let bits_per_sample = if sample_format == hound::SampleFormat::Int { 16 } else { 32 };
        let spec = hound::WavSpec { channels, sample_rate, bits_per_sample, sample_format };
        let mut writer = hound::WavWriter::create(&path, spec).expect("the folder is writable");
        for sample in 0..600_i16 {
            match sample_format {
                hound::SampleFormat::Int => writer.write_sample(sample * 31).expect("written"),
                hound::SampleFormat::Float => writer.write_sample(f32::from(sample) / 1000.0).expect("written"),
            }
        }
        writer.finalize().expect("written");
        std::fs::read(&path).expect("it was just written")
    };
    let (int, float) = (hound::SampleFormat::Int, hound::SampleFormat::Float);
    vec![wave(1, 16_000, int), wave(2, 44_100, int), wave(1, 8_000, float)]
}

/// Returns the remainder of `bytes` modulo `polynomial`: CRC-8 and CRC-16 of FLAC (RFC 9639, section 9.1.8).
fn remainder(bytes: &[u8], polynomial: u32, width: u32) -> u32 {
    bytes.iter().fold(0, |mut rest, byte| {
        rest ^= u32::from(*byte) << (width - 8);
        for _ in 0..8 {
            let carry = (rest >> (width - 1)) & 1;
            rest = ((rest << 1) ^ (carry * polynomial)) & ((1 << width) - 1);
        }
        rest
    })
}

/// Returns one frame of 4,096 samples at 16 kHz, constant or verbatim, in the format of RFC 9639, without a checksum of
/// the samples.
fn flac(samples: &[u8], kind: u8) -> Vec<u8> {
    let packed: u64 = (16_000 << 44) | (15 << 36) | 4096;
    let stream = [&b"fLaC\x80\0\0\x22\x10\0\x10\0\0\0\0\0\0\0"[..], &packed.to_be_bytes(), &[0; 16]].concat();
    let mut frame = vec![0xff, 0xf8, 0xc5, 0x08, 0];
    frame.push(remainder(&frame, 0x07, 8) as u8);
    frame.push(kind << 1);
    frame.extend_from_slice(samples);
    let check = remainder(&frame, 0x8005, 16) as u16;
    [stream, frame, check.to_be_bytes().to_vec()].concat()
}

fn recordings(dir: &TempDir) -> Vec<Vec<u8>> {
    let many: Vec<u8> = (0..8192_u32).map(|at| ((at * at) >> 5) as u8).collect();
    let mut recordings = waves(dir);
    recordings.extend([flac(&[1, 2], 0), flac(&many, 1)]);
    let real = fixture::data("speech_tiny/an4-train/fash/1/fash-1-0251.flac");
    recordings.extend(real.map(|path| std::fs::read(path).expect("it is there")));
    recordings
}

#[test]
fn the_recordings_that_are_changed_are_good_ones() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = place(&dir, "good");
    for (number, recording) in recordings(&dir).into_iter().enumerate() {
        std::fs::write(&path, recording).expect("the folder is writable");
        let read = audio::read(&path, audio::LONGEST);
        assert!(read.is_ok(), "recording {number}: {read:?}");
    }
}

/// The result is at most the limit plus one second of finite samples, whatever the header states.
#[test]
fn no_recording_breaks_its_reader() {
    const LONGEST: f64 = 5.0;
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = place(&dir, "recording");
    Target::new("worker.audio", 900)
        .seeds(recordings(&dir))
        .words(&["RIFF", "WAVE", "fmt ", "data", "LIST", "fLaC"])
        .run(|bytes| {
            std::fs::write(&path, bytes).expect("the folder is writable");
            if let Ok(audio) = audio::read(&path, LONGEST) {
                let most = (LONGEST * f64::from(audio::RATE)) as usize + audio::RATE as usize;
                assert!((1..=most).contains(&audio.samples.len()), "{audio:?}");
                assert!(audio.samples.iter().all(|sample| sample.is_finite()), "{audio:?}");
            }
        });
}
