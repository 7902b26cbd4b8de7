//! Parses the query of an address.

use serde::de::DeserializeOwned;

/// Parses a query, whether or not the browser encoded the brackets of its names.
pub(crate) fn parse<T: DeserializeOwned>(query: &str) -> Option<T> {
    serde_qs::Config::new(5, true)
        .deserialize_str(query)
        .or_else(|_| serde_qs::Config::new(5, false).deserialize_str(query))
        .ok()
}

/// Returns the names and values of a query, decoded, in their order.
pub(crate) fn read_pairs(query: &str) -> impl Iterator<Item = (String, String)> {
    form_urlencoded::parse(query.as_bytes()).into_owned()
}

/// Returns the first value of this name in a query.
pub(crate) fn find_value(query: &str, name: &str) -> Option<String> {
    read_pairs(query).find(|(other, _)| other == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::find_value;

    #[test]
    fn names_and_values_of_a_query_are_decoded() {
        for query in ["kind=rows&plan%5Btitle%5D=a+b%26c", "plan[title]=a%20b%26c&kind=rows&&bare"] {
            assert_eq!(find_value(query, "kind").as_deref(), Some("rows"), "{query}");
            assert_eq!(find_value(query, "plan[title]").as_deref(), Some("a b&c"), "{query}");
        }
        assert_eq!(find_value("bare", "bare").as_deref(), Some(""));
        assert_eq!(find_value("", "kind"), None);
    }
}
