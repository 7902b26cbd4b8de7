//! Exact arithmetic for balances: unsigned fixed point in units of 2⁻⁶⁴ (of a nat, or of a probability).
//!
//! A cost is rounded up once, when it enters. From then on there is only integer arithmetic, so no sum can under-count
//! and none depends on its order. 2⁶⁴ nat fit, to a part in 2⁶⁴; a release costs at least one unit.
//!
//! Sums are exact, associative and the same on every machine. Every conversion names its direction: costs enter by
//! [`Fixed::ceil`], budgets by [`Fixed::floor`]. A value that does not fit is infinite, and an infinite cost is
//! refused; nothing wraps and nothing saturates to a finite number.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A number ≥ 0 in units of 2⁻⁶⁴, or infinity. Serialized as a decimal string of units (`"inf"` for infinity), so that no
/// JSON reader can lose bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Fixed(u128);

/// Why a text is not a [`Fixed`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a count of 2^-64 units: write a decimal integer below 2^128 - 1, or `inf`")]
pub struct FixedError(String);

/// Fractional bits.
const BITS: i32 = 64;
/// 2⁶⁴ as a number.
const ONE: f64 = 18_446_744_073_709_551_616.0;

impl Fixed {
    /// Zero.
    pub const ZERO: Self = Self(0);
    /// More than any budget.
    pub const INFINITE: Self = Self(u128::MAX);
    /// The largest finite value.
    const LARGEST: Self = Self(u128::MAX - 1);

    /// Returns the least fixed-point number that is not below `value`. NaN, infinity and values that do not fit are
    /// infinite; negative values are 0.
    pub fn ceil(value: f64) -> Self {
        if value.is_nan() {
            return Self::INFINITE;
        }
        match split(value) {
            None if value > 0.0 => Self::INFINITE,
            None => Self::ZERO,
            Some((units, exact)) => Self(units + u128::from(!exact)),
        }
    }

    /// Returns the greatest finite fixed-point number that is not above `value`; NaN and negative values are 0.
    pub fn floor(value: f64) -> Self {
        if value.is_nan() || value <= 0.0 {
            return Self::ZERO;
        }
        split(value).map_or(Self::LARGEST, |(units, _)| Self(units))
    }

    /// Makes a number of so many units.
    pub const fn from_units(units: u128) -> Self {
        Self(units)
    }

    /// Returns the number of units; `u128::MAX` stands for infinity.
    pub const fn units(self) -> u128 {
        self.0
    }

    /// Returns true if this exceeds every budget.
    pub const fn is_infinite(self) -> bool {
        self.0 == u128::MAX
    }

    /// Returns the sum; infinite when it does not fit.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Returns the product with a count; infinite when it does not fit. Zero times anything is zero.
    #[must_use]
    pub const fn times(self, count: u64) -> Self {
        if count > 0 && self.is_infinite() { self } else { Self(self.0.saturating_mul(count as u128)) }
    }

    /// Returns the difference; `None` when `other` is larger or either is infinite.
    #[must_use]
    pub const fn minus(self, other: Self) -> Option<Self> {
        if self.is_infinite() || other.is_infinite() || self.0 < other.0 { None } else { Some(Self(self.0 - other.0)) }
    }

    /// Returns how many times `cost` fits into this; `None` for a cost of zero, which fits any number of times.
    pub const fn quotient(self, cost: Self) -> Option<u128> {
        if cost.0 == 0 {
            None
        } else if cost.is_infinite() {
            Some(0)
        } else {
            Some(self.0 / cost.0)
        }
    }

    /// Returns the least f64 that is not below this number.
    pub fn to_f64_up(self) -> f64 {
        if self.is_infinite() {
            return f64::INFINITY;
        }
        let nearest = self.0 as f64;
        // The cast back saturates, so the one value that rounds to 2¹²⁸ compares as not below.
        let up = if (nearest as u128) < self.0 { nearest.next_up() } else { nearest };
        up / ONE
    }

    /// Returns the greatest f64 that is not above this number.
    pub fn to_f64_down(self) -> f64 {
        if self.is_infinite() {
            return f64::INFINITY;
        }
        let nearest = self.0 as f64;
        let down = if nearest >= ONE * ONE || (nearest as u128) > self.0 { nearest.next_down() } else { nearest };
        down / ONE
    }
}

/// Returns the whole units in a positive finite number, and whether the conversion was exact; `None` when the number is
/// not positive or does not fit.
fn split(value: f64) -> Option<(u128, bool)> {
    if value == 0.0 {
        return Some((0, true));
    }
    if value.is_nan() || value < 0.0 || value.is_infinite() {
        return None;
    }
    let bits = value.to_bits();
    let biased = (bits >> 52) as i32;
    let fraction = bits & ((1 << 52) - 1);
    let (mantissa, exponent) = if biased == 0 { (fraction, -1074) } else { (fraction | 1 << 52, biased - 1075) };
    let mantissa = u128::from(mantissa);
    let shift = exponent + BITS;
    if shift >= 0 {
        // A mantissa has 53 bits: beyond a shift of 74 it leaves the range (2¹²⁷ and above is left unused).
        (shift <= 74).then(|| (mantissa << shift, true))
    } else if shift <= -64 {
        Some((0, false))
    } else {
        let units = mantissa >> -shift;
        Some((units, units << -shift == mantissa))
    }
}

impl TryFrom<String> for Fixed {
    type Error = FixedError;
    fn try_from(text: String) -> Result<Self, FixedError> {
        text.parse()
    }
}

impl FromStr for Fixed {
    type Err = FixedError;
    fn from_str(text: &str) -> Result<Self, FixedError> {
        if text == "inf" {
            return Ok(Self::INFINITE);
        }
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(units) if digits && units != u128::MAX => Ok(Self(units)),
            _ => Err(FixedError(text.chars().take(48).collect())),
        }
    }
}

impl From<Fixed> for String {
    fn from(value: Fixed) -> Self {
        if value.is_infinite() { "inf".into() } else { value.0.to_string() }
    }
}

impl fmt::Display for Fixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from(*self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn costs_round_up_and_budgets_round_down() {
        assert_eq!(Fixed::ceil(1.0).units(), 1 << 64);
        assert_eq!(Fixed::floor(1.0).units(), 1 << 64);
        assert_eq!(Fixed::ceil(1e-30).units(), 1);
        assert_eq!(Fixed::floor(1e-30), Fixed::ZERO);
        assert_eq!(Fixed::ceil(5e-324).units(), 1);
        assert_eq!(Fixed::ceil(-1.0), Fixed::ZERO);
    }

    #[test]
    fn invalid_cost_is_infinite_and_invalid_budget_is_zero() {
        for value in [f64::NAN, f64::INFINITY, 1e20, f64::MAX] {
            assert!(Fixed::ceil(value).is_infinite(), "{value}");
            assert!(!Fixed::floor(value).is_infinite(), "{value}");
        }
        assert_eq!(Fixed::floor(f64::NAN), Fixed::ZERO);
    }

    #[test]
    fn overflow_is_infinite_and_stays_infinite() {
        let half = Fixed::from_units(1 << 127);
        assert!(half.plus(half).is_infinite());
        assert!(half.times(2).is_infinite());
        assert!(Fixed::INFINITE.plus(Fixed::ZERO).is_infinite());
        assert_eq!(Fixed::INFINITE.times(0), Fixed::ZERO);
        assert_eq!(Fixed::INFINITE.minus(Fixed::ZERO), None);
    }

    proptest! {
        #[test]
        fn number_lies_between_its_roundings(value in 0.0f64..1e15) {
            let floor = Fixed::floor(value);
            let ceil = Fixed::ceil(value);
            prop_assert!(ceil.units() - floor.units() <= 1);
            prop_assert!(floor.to_f64_down() <= value && value <= ceil.to_f64_up());
        }

        #[test]
        fn text_form_keeps_every_bit(units in 0u128..u128::MAX) {
            let fixed = Fixed::from_units(units);
            prop_assert_eq!(String::from(fixed).parse(), Ok(fixed));
            prop_assert!(fixed.to_f64_down() <= fixed.to_f64_up());
        }
    }
}
