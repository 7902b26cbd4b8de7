//! Addresses that carry a text: files that a page offers, and values of a query.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// All but the unreserved characters of an address (RFC 3986, 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Encodes a text as a part of an address.
pub(crate) fn percent_encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Returns the address of a CSV file with this text.
pub(crate) fn csv_address(text: &str) -> String {
    format!("data:text/csv;charset=utf-8,{}", percent_encode(text))
}

/// Returns the address of a JSON file with this text.
#[cfg(any(feature = "ssr", feature = "planner"))]
pub(crate) fn json_address(text: &str) -> String {
    format!("data:application/json,{}", percent_encode(text))
}

#[cfg(test)]
mod tests {
    use super::{csv_address, percent_encode};

    #[test]
    fn csv_address_encodes_any_label() {
        assert_eq!(csv_address("a,\"é#\r\n"), "data:text/csv;charset=utf-8,a%2C%22%C3%A9%23%0D%0A");
    }

    #[test]
    fn unreserved_characters_are_unchanged() {
        assert_eq!(percent_encode("a-b._~ &c"), "a-b._~%20%26c");
    }
}
