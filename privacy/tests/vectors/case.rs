//! Reading cases: numbers, infinities as text, and the one-sided rule of acceptance.

use std::path::{Path, PathBuf};

use serde_json::Value;
use undertone_privacy::{Curve, Delta, Epsilon, Fixed, Order, OrderGrid};

/// One case of a vector file.
pub(crate) struct VectorCase(Value);

/// Returns the folder of the vectors.
pub(crate) fn folder() -> PathBuf {
    let folder = std::env::var_os("UNDERTONE_VECTORS").map_or_else(|| "tests/vectors".into(), PathBuf::from);
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder)
}

/// Returns every case of a file, in order.
pub(crate) fn cases(name: &str) -> Vec<VectorCase> {
    let path = folder().join(format!("{name}.json"));
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; set UNDERTONE_VECTORS to the folder of vectors", path.display()));
    let file: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let cases = file["cases"].as_array().unwrap_or_else(|| panic!("{}: no cases", path.display())).clone();
    assert!(!cases.is_empty(), "{}: no cases", path.display());
    cases.into_iter().map(VectorCase).collect()
}

impl VectorCase {
    /// Reads part of a case like a case.
    pub(crate) fn part(value: &Value) -> Self {
        Self(value.clone())
    }

    pub(crate) fn id(&self) -> &str {
        self.0["id"].as_str().unwrap_or("a case without an id")
    }

    pub(crate) fn text(&self, key: &str) -> &str {
        self.0[key].as_str().unwrap_or_else(|| panic!("{}: `{key}` is not a text", self.id()))
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        !self.0[key].is_null()
    }

    pub(crate) fn number(&self, key: &str) -> f64 {
        number(&self.0[key]).unwrap_or_else(|| panic!("{}: `{key}` is not a number", self.id()))
    }

    pub(crate) fn number_or(&self, key: &str, otherwise: f64) -> f64 {
        if self.has(key) { self.number(key) } else { otherwise }
    }

    pub(crate) fn count(&self, key: &str) -> u64 {
        let count = self.number(key);
        assert!(count >= 0.0 && count.fract() == 0.0, "{}: `{key}` is not a count", self.id());
        count as u64
    }

    pub(crate) fn truth(&self, key: &str) -> bool {
        self.0[key].as_bool().unwrap_or_else(|| panic!("{}: `{key}` is not true or false", self.id()))
    }

    pub(crate) fn list(&self, key: &str) -> Vec<Value> {
        self.0[key].as_array().unwrap_or_else(|| panic!("{}: `{key}` is not a list", self.id())).clone()
    }

    /// Returns the value under a key.
    pub(crate) fn value(&self, key: &str) -> Value {
        self.0[key].clone()
    }

    /// Returns the numbers under a key, by name.
    pub(crate) fn table(&self, key: &str) -> Vec<(String, f64)> {
        let table = self.0[key].as_object().unwrap_or_else(|| panic!("{}: `{key}` is not a table", self.id()));
        let value = |value| number(value).unwrap_or_else(|| panic!("{}: `{key}`", self.id()));
        table.iter().map(|(name, found)| (name.clone(), value(found))).collect()
    }

    /// Returns the lists of numbers under a key, by name.
    pub(crate) fn lists(&self, key: &str) -> Vec<(String, Vec<f64>)> {
        let table = self.0[key].as_object().unwrap_or_else(|| panic!("{}: `{key}` is not a table", self.id()));
        table.keys().map(|name| (name.clone(), Self(self.0[key].clone()).numbers(name))).collect()
    }

    pub(crate) fn numbers(&self, key: &str) -> Vec<f64> {
        self.list(key).iter().map(|v| number(v).unwrap_or_else(|| panic!("{}: `{key}`", self.id()))).collect()
    }

    pub(crate) fn epsilon(&self) -> Epsilon {
        Epsilon::new(self.number("epsilon")).unwrap_or_else(|error| panic!("{}: {error}", self.id()))
    }

    pub(crate) fn delta(&self) -> Delta {
        Delta::new(self.number("delta")).unwrap_or_else(|error| panic!("{}: {error}", self.id()))
    }

    pub(crate) fn grid(&self) -> OrderGrid {
        let orders = self.numbers("orders").into_iter().map(Order::new).collect::<Result<_, _>>();
        let orders = orders.unwrap_or_else(|error| panic!("{}: {error}", self.id()));
        OrderGrid::new(orders).unwrap_or_else(|error| panic!("{}: {error}", self.id()))
    }

    /// Returns the curve of the losses under a key, in nats; they are upper bounds already.
    pub(crate) fn curve(&self, key: &str) -> Curve {
        let losses = self.numbers(key).into_iter().map(Fixed::ceil).collect();
        let curve = Curve::from_fixed(&self.grid(), losses, Fixed::ZERO);
        curve.unwrap_or_else(|error| panic!("{}: {error}", self.id()))
    }

    /// Checks a logarithm within `tolerance`, relative above 1 and absolute below.
    #[track_caller]
    pub(crate) fn near(&self, got: f64, key: &str, tolerance: f64) {
        let reference = self.number(key);
        let close = (got - reference).abs() <= tolerance * reference.abs().max(1.0);
        assert!(close || same(got, reference), "{}: `{key}` is {got}, not {reference}", self.id());
    }

    /// Fails for an unknown kind.
    pub(crate) fn unknown(&self) -> ! {
        panic!("{}: no rule for kind `{}`", self.id(), self.text("kind"))
    }

    /// Checks a bound: never below the reference by more than `slack` of it, never above it by more than the case's
    /// tolerances.
    #[track_caller]
    pub(crate) fn bounds(&self, got: f64, reference: f64, slack: f64) {
        if reference.is_infinite() {
            assert!(same(got, reference), "{}: {got:e} instead of {reference}", self.id());
            return;
        }
        let relative = self.number_or("rel_tol", 1e-12);
        let absolute = self.number_or("abs_tol", 0.0);
        assert!(got >= reference - reference.abs() * slack, "{}: {got:e} is below {reference:e}", self.id());
        // The least number above 0 satisfies a reference that underflowed to 0.
        let most = reference + reference.abs() * relative + absolute + f64::MIN_POSITIVE;
        assert!(got <= most, "{}: {got:e} is above {reference:e} by more than allowed", self.id());
    }
}

/// Returns true for equal numbers, infinities included.
fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits()
}

/// Reads a JSON number, or an infinity written as text.
fn number(value: &Value) -> Option<f64> {
    match value.as_str() {
        Some("inf") => Some(f64::INFINITY),
        Some("-inf") => Some(f64::NEG_INFINITY),
        Some(_) => None,
        None => value.as_f64(),
    }
}
