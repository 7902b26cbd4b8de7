//! Schemas of the types from `undertone-privacy`, which has no schema library. Only the server uses them.

use serde_json::{Value, json};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema, SchemaType, Type};

/// Returns the schema of one word of a list.
fn word(description: &str, words: &[&str]) -> Schema {
    let words = words.iter().map(|word| Value::from(*word));
    ObjectBuilder::new().schema_type(Type::String).description(Some(description)).enum_values(Some(words)).into()
}

/// Returns the schema of [`undertone_privacy::PrivacyUnit`].
pub fn unit() -> Schema {
    word(
        "The protected unit: one recording, all speech of one speaker, all queries of one user, or the number of counts of pieces by word that the release states.",
        &["record", "speaker", "user", "words"],
    )
}

/// Returns the schema of several [`undertone_privacy::PrivacyUnit`]s.
pub fn units() -> Schema {
    Schema::Array(
        ArrayBuilder::new().items(RefOr::T(unit())).description(Some("The units that the data keep apart.")).build(),
    )
}

/// Returns the schema of [`undertone_privacy::Adjacency`].
pub fn adjacency() -> Schema {
    word(
        "The adjacency, the change that the guarantee covers: one unit added or removed, one unit's contribution emptied, or one unit replaced by another.",
        &["add_remove", "zero_out", "replace_one"],
    )
}

/// Returns the schema of [`undertone_privacy::ledger::FilterKind`].
pub fn filter() -> Schema {
    word(
        "The rule by which an account admits jobs: by the Rényi loss of each release, or by a Gaussian certificate for the whole job.",
        &["renyi", "gaussian"],
    )
}

/// Returns the schema of [`undertone_privacy::Event`]: a tag and parameters. Kinds are only ever added, so the
/// parameters are not closed here.
pub fn event() -> Schema {
    let tag = ObjectBuilder::new().schema_type(Type::String).description(Some("The mechanism."));
    let parameter = |description| ObjectBuilder::new().schema_type(Type::Number).description(Some(description));
    ObjectBuilder::new()
        .description(Some("A release with the exact parameters of the mechanism that makes it."))
        .property("event", tag)
        .property("sampling_rate", parameter("q, the probability with which each unit enters a Poisson sample."))
        .property("noise_multiplier", parameter("z, the noise's standard deviation relative to the sensitivity."))
        .required("event")
        .examples([json!({ "event": "poisson_sampled_gaussian", "sampling_rate": 0.125, "noise_multiplier": 1.0 })])
        .into()
}

/// Returns the schema of [`undertone_privacy::ledger::Overlap`].
pub fn overlap() -> Schema {
    let most = ObjectBuilder::new()
        .schema_type(SchemaType::Array(vec![Type::Integer, Type::Null]))
        .description(Some("The most organizations that may have data of one person; null for all of them."))
        .minimum(Some(0));
    let overlapping = ObjectBuilder::new().property("at_most", most).required("at_most");
    OneOfBuilder::new()
        .description(Some("In how many organizations' data one person may be."))
        .item(word("In one at most. The consortium's ε is the greatest ε of the parties.", &["disjoint"]))
        .item(
            ObjectBuilder::new()
                .description(Some("In several. The consortium's loss is the sum of the largest losses of the parties."))
                .property("overlapping", overlapping)
                .required("overlapping"),
        )
        .examples([json!("disjoint"), json!({ "overlapping": { "at_most": null } })])
        .into()
}

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use serde_json::{Value, json};
    use undertone_privacy::{Adjacency, PrivacyUnit};

    use super::{adjacency, unit, units};

    fn words(all: &[impl Serialize]) -> Value {
        json!(all)
    }

    #[test]
    fn the_words_are_those_of_the_contract() {
        let of = |schema| serde_json::to_value(schema).expect("a schema has a JSON form");
        let every_unit = [PrivacyUnit::Record, PrivacyUnit::Speaker, PrivacyUnit::User, PrivacyUnit::Words];
        assert_eq!(of(unit())["enum"], words(&every_unit));
        assert_eq!(of(units())["items"]["enum"], words(&every_unit));
        let every_adjacency = [Adjacency::AddRemove, Adjacency::ZeroOut, Adjacency::ReplaceOne];
        assert_eq!(of(adjacency())["enum"], words(&every_adjacency));
    }
}
