//! The choice of a consortium by its name or its id.

use undertone_api::consortium::Consortium;

/// Returns the consortium with a name or an id, or the only one.
///
/// # Errors
/// The remedy, with the names or ids to choose from.
pub(super) fn choose<'a>(consortia: &'a [Consortium], name: Option<&str>) -> Result<&'a Consortium, String> {
    if let Some(one) = consortia.iter().find(|one| name.is_some_and(|name| one.id.to_string() == name)) {
        return Ok(one);
    }
    let is_meant = |one: &&Consortium| name.is_none_or(|name| one.name == name);
    let candidates: Vec<&Consortium> = consortia.iter().filter(is_meant).collect();
    if let [one] = candidates[..] {
        return Ok(one);
    }
    let names = list(consortia.iter().map(|one| one.name.clone()));
    Err(match name {
        _ if consortia.is_empty() => "you are in no consortium: ask a consortium admin for an invitation".to_owned(),
        None => format!("you are in several consortia: add --consortium with one of: {names}"),
        Some(name) if candidates.is_empty() => {
            format!("--consortium: you are in no consortium \"{name}\"; yours are: {names}")
        }
        Some(name) => {
            let ids = list(candidates.iter().map(|one| one.id.to_string()));
            format!("--consortium: several of your consortia have the name \"{name}\"; use one of these ids: {ids}")
        }
    })
}

fn list(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use undertone_api::consortium::Consortium;

    use super::choose;

    const FIRST: &str = "00000000-0000-0000-0000-000000000001";
    const SECOND: &str = "00000000-0000-0000-0000-000000000002";

    fn consortium(id: &str, name: &str) -> Consortium {
        let document = json!({
            "id": id, "name": name, "description": "", "organizations": [], "created_at": "2026-01-01T00:00:00Z",
        });
        serde_json::from_value(document).expect("a consortium")
    }

    #[test]
    fn name_id_or_the_single_one_chooses() {
        let consortia = [consortium(FIRST, "North"), consortium(SECOND, "South")];
        assert_eq!(choose(&consortia, Some("South")).expect("one").name, "South");
        assert_eq!(choose(&consortia, Some(FIRST)).expect("one").name, "North");
        assert_eq!(choose(&consortia[..1], None).expect("one").name, "North");
    }

    #[test]
    fn refusal_names_the_choices() {
        let consortia = [consortium(FIRST, "North"), consortium(SECOND, "South")];
        let message = choose(&consortia, None).expect_err("two");
        assert_eq!(message, "you are in several consortia: add --consortium with one of: North, South");
        let message = choose(&consortia, Some("West")).expect_err("none");
        assert_eq!(message, "--consortium: you are in no consortium \"West\"; yours are: North, South");
        assert!(choose(&[], Some("West")).expect_err("none").starts_with("you are in no consortium: ask"));
        let namesakes = [consortium(FIRST, "North"), consortium(SECOND, "North")];
        let message = choose(&namesakes, Some("North")).expect_err("two");
        assert!(
            message.ends_with(&format!("have the name \"North\"; use one of these ids: {FIRST}, {SECOND}")),
            "{message}"
        );
        assert_eq!(choose(&namesakes, Some(SECOND)).expect("one").id.to_string(), SECOND);
    }
}
