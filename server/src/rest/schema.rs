//! Schemas of exported documents, as JSON Schema (draft 2020-12): generated from the same types as the OpenAPI
//! document, and also locked by a snapshot.

use serde_json::{Map, Value, json};
use undertone_api::signed::{Certificate, CertificateFile};
use utoipa::{PartialSchema as _, ToSchema};

/// The path of the schema of a certificate's file.
const CERTIFICATE: &str = "/api/v1/schemas/certificate.json";

/// Returns the schema of a certificate's file; `#/$defs/Certificate` is that of the signed payload inside it.
pub(super) fn certificate() -> Value {
    let mut definitions = Map::new();
    let mut schemas = Vec::new();
    <CertificateFile as ToSchema>::schemas(&mut schemas);
    <Certificate as ToSchema>::schemas(&mut schemas);
    schemas.push((Certificate::name().into_owned(), Certificate::schema()));
    for (name, schema) in schemas {
        definitions.insert(name, local(value(&schema)));
    }
    let mut file = local(value(&CertificateFile::schema()));
    // The payload is a text, because its exact bytes are signed; its content still has a schema.
    file["properties"]["payload"]["contentMediaType"] = json!("application/json");
    file["properties"]["payload"]["contentSchema"] = json!({ "$ref": "#/$defs/Certificate" });
    file["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    file["$id"] = json!(CERTIFICATE);
    file["title"] = json!("Undertone certificate");
    file["$defs"] = Value::Object(definitions);
    file
}

fn value(schema: &impl serde::Serialize) -> Value {
    // A schema consists of plain strings, numbers and lists, which always have a JSON form.
    serde_json::to_value(schema).unwrap_or_default()
}

/// Converts references to the OpenAPI document's components into local ones.
fn local(schema: Value) -> Value {
    match schema {
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| match (name.as_str(), value) {
                ("$ref", Value::String(to)) => (name, json!(to.replace("#/components/schemas/", "#/$defs/"))),
                (_, value) => (name, local(value)),
            })
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => items.into_iter().map(local).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{StatusCode, header};
    use boon::{Compiler, Schemas};
    use serde_json::{Value, json};

    use crate::testing::on_both;
    use undertone_server_core::service::certificate;
    use undertone_server_core::service::world::TestConsortium;
    use undertone_server_core::service::world::finished::finished;

    /// Returns the mismatch between a document and the published schema, if any. The content of the signed text is
    /// checked too.
    fn wrong(document: &Value) -> Option<String> {
        const AT: &str = "https://undertone.example/api/v1/schemas/certificate.json";
        let mut schemas = Schemas::new();
        let mut compiler = Compiler::new();
        compiler.enable_content_assertions();
        compiler.enable_format_assertions();
        compiler.add_resource(AT, super::certificate()).expect("the schema is JSON");
        let schema = compiler.compile(AT, &mut schemas).unwrap_or_else(|error| panic!("no schema: {error:#}"));
        schemas.validate(document, schema).err().map(|error| format!("{error:#}"))
    }

    #[test]
    fn the_schema_is_what_was_agreed() {
        insta::assert_json_snapshot!(super::certificate());
    }

    on_both! {
        async fn certificates_are_what_their_schema_says(app: &TestApp) {
            let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
            let job = Box::pin(finished(&mut world, 2)).await.summary.id;
            let file = certificate::file(&app.ctx, &world.sites[1].steward, job).await.expect("issued");
            let file = serde_json::to_value(&file).expect("a file is JSON");
            assert_eq!(wrong(&file), None);
            let payload = file["payload"].as_str().expect("a text");
            for (from, to) in [
                ("\"valid_for\":\"budgets\"", "\"valid_for\":\"anything\""),
                ("\"unit\":\"record\"", "\"unit\":\"patient\""),
                ("\"counted\":2", "\"counted\":\"two\""),
                ("\"together\":", "\"alone\":"),
            ] {
                assert!(payload.contains(from), "{from} is not in {payload}");
                let mut bent = file.clone();
                bent["payload"] = json!(payload.replacen(from, to, 1));
                assert!(wrong(&bent).is_some(), "{to} passes");
            }
            let mut more = file.clone();
            more["comment"] = json!("trust me");
            assert!(wrong(&more).is_some(), "what nobody signed passes");
        }

        async fn the_schema_is_for_everybody_and_a_certificate_is_not(app: &TestApp) {
            let schema = app.server.get("/api/v1/schemas/certificate.json").await;
            schema.assert_status_ok();
            assert_eq!(schema.header(header::CONTENT_TYPE), "application/schema+json");
            assert_eq!(schema.json::<Value>(), crate::rest::schema::certificate());
            let job = "/api/v1/jobs/00000000-0000-0000-0000-000000000001/certificate";
            app.server.get(job).await.assert_status(StatusCode::UNAUTHORIZED);
            let bearer = app.operator().await.bearer();
            let none = app.server.get(job).add_header(header::AUTHORIZATION, &bearer).await;
            none.assert_status(StatusCode::NOT_FOUND);
        }
    }
}
