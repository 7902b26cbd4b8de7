//! The price of a sound at a provider: exact, in the provider's currency, with the provider's rounding.
//!
//! Prices change, so they come from the planner and from the site's configuration. A sum estimates the bill from above,
//! without retries of sounds that were heard but not answered.

use serde::{Deserialize, Serialize};

/// Samples in a second: all sent audio is mono at 16 kHz.
pub const RATE: u32 = 16_000;
/// Billionths in one unit of currency.
const NANOS: u128 = 1_000_000_000;

/// The reason why a price is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PriceError {
    /// Not a currency.
    #[error("price.currency: three capital letters (ISO 4217) as in USD, not `{0}`")]
    Currency(String),
    /// Not a sum.
    #[error("price.per_minute: a decimal number with at most 9 places, below 1000000, as in \"0.0060\", not `{0}`")]
    PerMinute(String),
    /// Not a step.
    #[error("price.step_seconds: 1 to 60, not {0}")]
    Step(u32),
    /// Not a minimum.
    #[error("price.least_seconds: 0 to 60, not {0}")]
    Least(u32),
}

/// A provider's price: `price` in a spec, and in the provider's settings at a site.
///
/// ```toml
/// price = { currency = "USD", per_minute = "0.024", step_seconds = 15 }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TranscriptionPrice))]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// The currency, by ISO 4217.
    #[cfg_attr(feature = "openapi", schema(example = "USD"))]
    pub currency: String,
    /// The price of a minute of audio, a decimal number.
    #[cfg_attr(feature = "openapi", schema(example = "0.0060"))]
    pub per_minute: String,
    /// The billing step: the audio of every request is rounded up to a multiple of these seconds.
    #[serde(default = "one")]
    pub step_seconds: u32,
    /// The least number of seconds that a request is billed.
    #[serde(default)]
    pub least_seconds: u32,
}

const fn one() -> u32 {
    1
}

/// A valid price.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tariff {
    currency: String,
    per_minute: u128,
    step: u64,
    least: u64,
}

/// A sum of money.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TranscriptionMoney))]
pub struct Money {
    /// The currency, by ISO 4217.
    pub currency: String,
    /// The amount in billionths of the currency's unit.
    pub nanos: u64,
}

impl Money {
    /// Parses a currency (ISO 4217) and a decimal number with at most 9 places, below 1,000,000; `None` if either is
    /// invalid.
    pub fn parse(currency: &str, amount: &str) -> Option<Self> {
        let nanos = u64::try_from(nanos(amount)?).ok()?;
        is_currency(currency).then(|| Self { currency: currency.to_owned(), nanos })
    }
}

/// `USD 1.2345`: four places, rounded up.
impl std::fmt::Display for Money {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = self.nanos.div_ceil(100_000);
        write!(f, "{} {}.{:04}", self.currency, parts / 10_000, parts % 10_000)
    }
}

impl Price {
    /// Validates the price.
    ///
    /// # Errors
    /// [`PriceError`] names the field and the valid range.
    pub fn tariff(&self) -> Result<Tariff, PriceError> {
        if !is_currency(&self.currency) {
            return Err(PriceError::Currency(self.currency.clone()));
        }
        if !(1..=60).contains(&self.step_seconds) {
            return Err(PriceError::Step(self.step_seconds));
        }
        if self.least_seconds > 60 {
            return Err(PriceError::Least(self.least_seconds));
        }
        let per_minute = nanos(&self.per_minute).ok_or_else(|| PriceError::PerMinute(self.per_minute.clone()))?;
        Ok(Tariff {
            currency: self.currency.clone(),
            per_minute,
            step: self.step_seconds.into(),
            least: self.least_seconds.into(),
        })
    }
}

impl Tariff {
    /// Returns the billed seconds of a request with so many samples at 16 kHz.
    pub fn billed(&self, samples: u64) -> u64 {
        (samples.div_ceil(u64::from(RATE) * self.step) * self.step).max(self.least)
    }

    /// Returns the total cost of requests, given each one's samples at 16 kHz, rounded up once at the end.
    pub fn cost(&self, requests: impl IntoIterator<Item = u64>) -> Money {
        self.price_seconds(requests.into_iter().map(|samples| u128::from(self.billed(samples))).sum())
    }

    /// Returns the total cost of `requests` requests with `samples` samples each.
    pub fn alike(&self, requests: u64, samples: u64) -> Money {
        self.price_seconds(u128::from(requests) * u128::from(self.billed(samples)))
    }

    fn price_seconds(&self, seconds: u128) -> Money {
        let nanos = seconds.saturating_mul(self.per_minute).div_ceil(60);
        Money { currency: self.currency.clone(), nanos: u64::try_from(nanos).unwrap_or(u64::MAX) }
    }
}

fn is_currency(text: &str) -> bool {
    text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_uppercase())
}

/// Parses a decimal number without sign into billionths.
fn nanos(text: &str) -> Option<u128> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || whole.len() > 6 || part.len() > 9 || !digits(whole) || !digits(part) {
        return None;
    }
    let part = format!("{part:0<9}");
    Some(whole.parse::<u128>().ok()? * NANOS + part.parse::<u128>().ok()?)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use super::{Money, Price, PriceError};

    fn price(per_minute: &str, step_seconds: u32, least_seconds: u32) -> Price {
        Price { currency: "USD".to_owned(), per_minute: per_minute.to_owned(), step_seconds, least_seconds }
    }

    #[test]
    fn each_request_is_rounded_up_by_itself() {
        let tariff = price("0.024", 15, 0).tariff().unwrap();
        assert_eq!([1, 240_000, 240_001].map(|samples| tariff.billed(samples)), [15, 15, 30]);
        // Four requests of a second cost as much as a minute.
        assert_eq!(tariff.cost([16_000; 4]), Money { currency: "USD".to_owned(), nanos: 24_000_000 });
        let tariff = price("0.006", 1, 10).tariff().unwrap();
        assert_eq!([1, 160_001].map(|samples| tariff.billed(samples)), [10, 11]);
    }

    #[test]
    fn a_sum_is_exact_and_never_too_low() {
        let tariff = price("0.1", 1, 0).tariff().unwrap();
        assert_eq!(tariff.cost([16_000]).nanos, 1_666_667);
        assert_eq!(tariff.cost([16_000; 60]).nanos, 100_000_000, "rounded once, not sixty times");
        assert_eq!(tariff.cost([16_000]).to_string(), "USD 0.0017");
        assert_eq!(tariff.cost([]).to_string(), "USD 0.0000");
        assert_eq!(tariff.alike(60, 16_000), tariff.cost([16_000; 60]));
        let dearest = price("999999.999999999", 60, 60).tariff().unwrap();
        assert_eq!(dearest.cost([u64::MAX / 2; 1_000]).nanos, u64::MAX);
    }

    #[test]
    fn a_sum_is_read_to_the_last_place_and_not_beyond() {
        let sum = |nanos| Some(Money { currency: "EUR".to_owned(), nanos });
        assert_eq!(Money::parse("EUR", "25.5"), sum(25_500_000_000));
        assert_eq!(Money::parse("EUR", "999999.999999999"), sum(999_999_999_999_999));
        assert_eq!(Money::parse("EUR", "0"), sum(0));
        for (currency, amount) in [("EUR", "1000000"), ("EUR", "-1"), ("EUR", ""), ("euro", "1"), ("EU", "1")] {
            assert_eq!(Money::parse(currency, amount), None, "{currency} {amount}");
        }
    }

    #[test]
    fn invalid_price_names_its_field() {
        for text in ["", ".5", "1e3", "-1", "0,5", "0.0000000001", "1000000"] {
            assert_eq!(price(text, 1, 0).tariff(), Err(PriceError::PerMinute(text.to_owned())));
        }
        assert_eq!(price("1", 0, 0).tariff(), Err(PriceError::Step(0)));
        assert_eq!(price("1", 61, 0).tariff(), Err(PriceError::Step(61)));
        assert!(price("999999.999999999", 60, 60).tariff().is_ok() && price("0", 1, 0).tariff().is_ok());
        assert_eq!(price("1", 1, 61).tariff(), Err(PriceError::Least(61)));
        let dollars = Price { currency: "dollars".to_owned(), ..price("1", 1, 0) };
        assert!(matches!(dollars.tariff(), Err(PriceError::Currency(_))));
    }
}
