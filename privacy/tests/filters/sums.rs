//! The two other filters that are sound under fully adaptive composition: plain sums of (ε, δ), and Gaussian DP.
//!
//! Accounts use the Rényi filter of `ledger/budget.rs`. These two check it, and have vectors of their own.

use std::fmt;
use std::str::FromStr;

use undertone_privacy::gaussian::GaussianProfile;
use undertone_privacy::{Delta, Epsilon, Fixed};

/// A non-negative decimal, exactly as written: 0.1 + 0.2 is 0.3.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExactDecimal {
    /// Value · 10^scale.
    digits: u128,
    scale: u32,
}

/// Why a text is not a decimal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a non-negative decimal of at most 38 digits: write it like 0.1 or 1e-6")]
pub(crate) struct DecimalError(String);

impl ExactDecimal {
    /// Zero.
    pub(crate) const ZERO: Self = Self { digits: 0, scale: 0 };

    /// Returns the sum; `None` when it needs more than 38 digits.
    pub(crate) fn plus(self, other: Self) -> Option<Self> {
        let (a, b, scale) = self.aligned(other)?;
        Some(Self { digits: a.checked_add(b)?, scale })
    }

    /// Returns true if this is at most `other`; `None` when they cannot be compared within 38 digits.
    pub(crate) fn at_most(self, other: Self) -> Option<bool> {
        let (a, b, _) = self.aligned(other)?;
        Some(a <= b)
    }

    /// Returns the digits of both numbers at the finer scale of the two, and that scale.
    fn aligned(self, other: Self) -> Option<(u128, u128, u32)> {
        let scale = self.scale.max(other.scale);
        let lift =
            |d: Self| if d.digits == 0 { Some(0) } else { d.digits.checked_mul(10u128.checked_pow(scale - d.scale)?) };
        Some((lift(self)?, lift(other)?, scale))
    }
}

impl FromStr for ExactDecimal {
    type Err = DecimalError;
    fn from_str(text: &str) -> Result<Self, DecimalError> {
        let error = || DecimalError(text.chars().take(48).collect());
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().map_err(|_| error())?),
            None => (text, 0),
        };
        let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if whole.is_empty() || !whole.bytes().chain(part.bytes()).all(|byte| byte.is_ascii_digit()) {
            return Err(error());
        }
        let mut digits: u128 = format!("{whole}{part}").parse().map_err(|_| error())?;
        let mut scale = i64::try_from(part.len()).map_err(|_| error())? - i64::from(exponent);
        if digits == 0 {
            return Ok(Self::ZERO);
        }
        while scale > 0 && digits.is_multiple_of(10) {
            digits /= 10;
            scale -= 1;
        }
        if scale < 0 {
            let lift = u32::try_from(-scale).ok().and_then(|lift| 10u128.checked_pow(lift)).ok_or_else(error)?;
            digits = digits.checked_mul(lift).ok_or_else(error)?;
            scale = 0;
        }
        Ok(Self { digits, scale: u32::try_from(scale).map_err(|_| error())? })
    }
}

/// Writes a fraction in lowest terms: `1/10`, `3`.
impl fmt::Display for ExactDecimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut twos, mut fives, mut digits) = (self.scale, self.scale, self.digits);
        while digits != 0 && twos > 0 && digits.is_multiple_of(2) {
            digits /= 2;
            twos -= 1;
        }
        while digits != 0 && fives > 0 && digits.is_multiple_of(5) {
            digits /= 5;
            fives -= 1;
        }
        let below = 2u128.checked_pow(twos).zip(5u128.checked_pow(fives)).and_then(|(a, b)| a.checked_mul(b));
        match below {
            _ if digits == 0 => f.write_str("0"),
            Some(1) => write!(f, "{digits}"),
            Some(below) => write!(f, "{digits}/{below}"),
            None => write!(f, "{digits}/(2^{twos}*5^{fives})"),
        }
    }
}

/// The basic filter: admits while Σε ≤ ε_B and Σδ ≤ δ_B, in exact decimals. All admitted releases are (ε_B,
/// δ_B)-differentially private together under fully adaptive choice (Rogers, Roth, Ullman and Vadhan 2016: basic
/// composition loses nothing).
#[derive(Debug, Clone)]
pub(crate) struct BasicFilter {
    limit: (ExactDecimal, ExactDecimal),
    spent: (ExactDecimal, ExactDecimal),
}

impl BasicFilter {
    /// Makes a filter with (ε_B, δ_B) and no charge.
    pub(crate) const fn new(epsilon: ExactDecimal, delta: ExactDecimal) -> Self {
        Self { limit: (epsilon, delta), spent: (ExactDecimal::ZERO, ExactDecimal::ZERO) }
    }

    /// Charges (ε, δ) if it fits, and returns whether it did. Sums that need too many digits are refused.
    #[must_use]
    pub(crate) fn charge(&mut self, epsilon: ExactDecimal, delta: ExactDecimal) -> bool {
        let after = self.spent.0.plus(epsilon).zip(self.spent.1.plus(delta));
        match after {
            Some(after)
                if after.0.at_most(self.limit.0) == Some(true) && after.1.at_most(self.limit.1) == Some(true) =>
            {
                self.spent = after;
                true
            }
            _ => false,
        }
    }

    /// Returns (Σε, Σδ) so far.
    pub(crate) const fn spent(&self) -> (ExactDecimal, ExactDecimal) {
        self.spent
    }
}

/// The Gaussian-DP filter: admits while Σμ² ≤ μ_B². All admitted releases are μ_B-Gaussian-differentially private
/// together under fully adaptive choice (Smith and Thakurta 2022; Koskela, Tobaben and Honkela 2023), so no constant is
/// lost against plans that are fixed in advance.
#[derive(Debug, Clone)]
pub(crate) struct GdpFilter {
    limit: Fixed,
    spent: Fixed,
}

impl GdpFilter {
    /// Makes a filter for (ε, δ): μ_B is the largest μ whose Gaussian profile passes through it.
    pub(crate) fn new(epsilon: Epsilon, delta: Delta) -> Self {
        let mu = GaussianProfile::largest(epsilon, delta).mu();
        Self { limit: Fixed::floor((mu * mu).next_down()), spent: Fixed::ZERO }
    }

    /// Charges `count` Gaussian releases of noise multiplier z if they fit, and returns whether they did.
    #[must_use]
    pub(crate) fn charge(&mut self, noise_multiplier: f64, count: u64) -> bool {
        // 1/z²: two roundings, each below 2⁻⁵³; rounded up by more.
        let one = Fixed::ceil(1.0 / noise_multiplier / noise_multiplier * (1.0 + 2.0 * f64::EPSILON));
        let after = self.spent.plus(one.times(count));
        let fits = !after.is_infinite() && after <= self.limit;
        if fits {
            self.spent = after;
        }
        fits
    }

    /// Returns μ_B², rounded down.
    pub(crate) fn limit(&self) -> f64 {
        self.limit.to_f64_down()
    }

    /// Returns Σμ² so far, rounded up.
    pub(crate) fn spent(&self) -> f64 {
        self.spent.to_f64_up()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "constants of a test are in range")]
    use super::*;

    #[test]
    fn decimals_parse_exactly() {
        for (text, shown) in
            [("0.1", "1/10"), ("1e-06", "1/1000000"), ("1.0", "1"), ("2.50", "5/2"), ("3E2", "300"), ("0.0", "0")]
        {
            assert_eq!(text.parse::<ExactDecimal>().unwrap().to_string(), shown);
        }
        for text in ["", "-1", "1e", ".5", "NaN", "inf", "1e99", "0x1", "1 "] {
            assert!(text.parse::<ExactDecimal>().is_err(), "{text}");
        }
    }

    #[test]
    fn decimal_tenths_add_exactly() {
        let decimal = |text: &str| text.parse::<ExactDecimal>().unwrap();
        let sum = decimal("0.1").plus(decimal("0.2")).unwrap();
        assert_eq!(sum.at_most(decimal("0.3")), Some(true));
        assert_eq!(decimal("0.3").at_most(sum), Some(true));
    }

    #[test]
    fn unrepresentable_sum_is_refused() {
        let mut filter = BasicFilter::new("1".parse().unwrap(), ExactDecimal::ZERO);
        assert!(filter.charge("0.5".parse().unwrap(), ExactDecimal::ZERO));
        assert!(!filter.charge("1e-60".parse().unwrap(), ExactDecimal::ZERO));
        assert_eq!(filter.spent().0.to_string(), "1/2");
    }
}
