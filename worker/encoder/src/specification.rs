//! The declared facts about an encoder: its input, its pooling, and the range of its outputs. They are public.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use serde::Deserialize;

use crate::error::EncoderError;

/// The most tokens of a text, with those at its beginning and its end.
pub const TOKENS: RangeInclusive<u32> = 3..=4_096;
/// The rates of sounds, Hz.
pub const SOUND_RATES: RangeInclusive<u32> = 4_000..=48_000;
/// The longest sound, seconds.
pub const MOST_SECONDS: f64 = 600.0;
/// The width and the height of a resized picture, pixels.
pub const SIDES: RangeInclusive<u32> = 1..=2_048;
/// The most columns of numbers.
pub const MOST_NUMBERS: usize = 255;

/// The part `[encoder]` of an encoding file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EncoderSpec {
    /// The beginning of the names of the output columns, which are `PREFIX_0`, `PREFIX_1` and so on.
    pub prefix: String,
    /// The pooling over the steps of the output; absent for an output `[1, width]`.
    pub pool: Option<Pooling>,
    /// The least value of the output columns.
    pub least: f64,
    /// The greatest value of the output columns.
    pub most: f64,
    /// The step to which outputs are rounded.
    pub step: f64,
    /// The input.
    pub input: InputSpec,
}

/// The pooling of an output `[1, steps, width]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    /// The mean over the steps.
    Mean,
}

/// The input of an encoder, and the columns of the source that hold it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum InputSpec {
    /// Numbers: f32 `[1, columns]`.
    Numbers {
        /// The columns, in the order of the graph: 1 to [`MOST_NUMBERS`].
        columns: Vec<String>,
    },
    /// A text as tokens of WordPiece: int64 `[1, tokens]`.
    Text {
        /// The column.
        column: String,
        /// The file with one token on each line, relative to the encoding file.
        vocabulary: PathBuf,
        /// Whether texts are lower-cased and lose their accents, as for an uncased BERT.
        #[serde(default = "default_lower_case")]
        lower_case: bool,
        /// The most tokens of a text, of [`TOKENS`]; the others are cut.
        tokens: u32,
    },
    /// A sound: f32 `[1, samples]`, mono, full scale = 1.
    Audio {
        /// The column with the path of a WAV or FLAC file.
        column: String,
        /// The rate to which sounds are resampled, Hz, of [`SOUND_RATES`].
        rate: u32,
        /// The longest sound in seconds, at most [`MOST_SECONDS`]; the rest is cut.
        seconds: f64,
    },
    /// A picture: f32 `[1, 3, height, width]`, red, green and blue.
    Image {
        /// The column with the path of a PNG or JPEG file.
        column: String,
        /// The width to which pictures are resized, pixels, of [`SIDES`].
        width: u32,
        /// The height to which pictures are resized, pixels, of [`SIDES`].
        height: u32,
        /// The mean of each channel, which is subtracted from values of 0 to 1.
        #[serde(default)]
        mean: [f32; 3],
        /// The deviation of each channel, by which the difference is divided.
        #[serde(default = "default_deviation")]
        deviation: [f32; 3],
    },
}

const fn default_lower_case() -> bool {
    true
}

const fn default_deviation() -> [f32; 3] {
    [1.0; 3]
}

impl InputSpec {
    /// Returns the columns of the source that hold the input.
    pub fn columns(&self) -> &[String] {
        match self {
            Self::Numbers { columns } => columns,
            Self::Text { column, .. } | Self::Audio { column, .. } | Self::Image { column, .. } => {
                std::slice::from_ref(column)
            }
        }
    }

    /// Returns whether the column holds paths of files.
    pub const fn is_file(&self) -> bool {
        matches!(self, Self::Audio { .. } | Self::Image { .. })
    }

    /// Returns the most samples of a sound; 0 for other inputs.
    pub(crate) fn most_samples(&self) -> usize {
        match self {
            Self::Audio { rate, seconds, .. } => (seconds * f64::from(*rate)) as usize,
            _ => 0,
        }
    }
}

impl EncoderSpec {
    /// Checks the ranges of the fields.
    ///
    /// # Errors
    /// [`EncoderError::Specification`] with the first field that is out of its range.
    pub fn check(&self) -> Result<(), EncoderError> {
        let refuse = |field, problem: String| Err(EncoderError::Specification { field, problem });
        if self.prefix.is_empty() {
            return refuse("prefix", "the beginning of the names of the output columns".to_owned());
        }
        match &self.input {
            InputSpec::Numbers { columns } if !(1..=MOST_NUMBERS).contains(&columns.len()) => {
                refuse("input.columns", format!("1 to {MOST_NUMBERS} columns, not {}", columns.len()))
            }
            InputSpec::Text { tokens, .. } if !TOKENS.contains(tokens) => {
                refuse("input.tokens", describe_range(&TOKENS, *tokens))
            }
            InputSpec::Audio { rate, .. } if !SOUND_RATES.contains(rate) => {
                refuse("input.rate", describe_range(&SOUND_RATES, *rate))
            }
            InputSpec::Audio { seconds, .. } if self.input.most_samples() == 0 || *seconds > MOST_SECONDS => refuse(
                "input.seconds",
                format!("at least one sample and at most {MOST_SECONDS} seconds, not {seconds}"),
            ),
            InputSpec::Image { width, .. } if !SIDES.contains(width) => {
                refuse("input.width", describe_range(&SIDES, *width))
            }
            InputSpec::Image { height, .. } if !SIDES.contains(height) => {
                refuse("input.height", describe_range(&SIDES, *height))
            }
            InputSpec::Image { mean, deviation, .. }
                if !mean.iter().all(|mean| mean.is_finite())
                    || !deviation.iter().all(|deviation| deviation.is_finite() && *deviation > 0.0) =>
            {
                refuse("input.deviation", "finite means, and finite deviations greater than 0".to_owned())
            }
            _ => Ok(()),
        }
    }
}

fn describe_range(range: &RangeInclusive<u32>, value: u32) -> String {
    format!("{} to {}, not {value}", range.start(), range.end())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::EncoderSpec;

    fn check(input: &str) -> Result<(), String> {
        let text = format!("prefix = \"f\"\nleast = -1.0\nmost = 1.0\nstep = 0.01\n[input]\n{input}");
        toml::from_str::<EncoderSpec>(&text).unwrap().check().map_err(|error| error.to_string())
    }

    #[test]
    fn value_outside_a_limit_names_its_field() {
        let text =
            |tokens: u32| check(&format!("kind = \"text\"\ncolumn = \"c\"\nvocabulary = \"v\"\ntokens = {tokens}"));
        let audio = |rate: u32, seconds: &str| {
            check(&format!("kind = \"audio\"\ncolumn = \"c\"\nrate = {rate}\nseconds = {seconds}"))
        };
        let image = |width: u32, height: u32, more: &str| {
            check(&format!("kind = \"image\"\ncolumn = \"c\"\nwidth = {width}\nheight = {height}\n{more}"))
        };
        let numbers = |count: usize| check(&format!("kind = \"numbers\"\ncolumns = {:?}", vec!["c"; count]));
        for valid in [
            text(3),
            text(4096),
            audio(4_000, "600.0"),
            audio(48_000, "0.001"),
            image(1, 2048, ""),
            numbers(1),
            numbers(255),
        ] {
            assert_eq!(valid, Ok(()));
        }
        for (refused, field) in [
            (text(2), "encoder.input.tokens: 3 to 4096, not 2"),
            (text(4097), "input.tokens"),
            (audio(3_999, "1.0"), "input.rate"),
            (audio(48_001, "1.0"), "input.rate"),
            (audio(16_000, "600.5"), "input.seconds"),
            (audio(16_000, "0.0"), "input.seconds"),
            (audio(16_000, "nan"), "input.seconds"),
            (image(0, 1, ""), "input.width"),
            (image(1, 2049, ""), "input.height"),
            (image(1, 1, "deviation = [1.0, 0.0, 1.0]"), "input.deviation"),
            (image(1, 1, "mean = [1.0, inf, 1.0]"), "input.deviation"),
            (numbers(0), "input.columns"),
            (numbers(256), "input.columns"),
        ] {
            assert!(refused.as_ref().is_err_and(|message| message.contains(field)), "{refused:?} {field}");
        }
    }
}
