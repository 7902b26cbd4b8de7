#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _};
use undertone_api::table::{ColumnKind, TableColumn, TableSchema};

use super::error::{LONGEST_QUERY, PostgresError};
use super::{PostgresOptions, PostgresRelation, PostgresSource, parse_address, to_statement};
use crate::source::{RowSource as _, SourceRow, SourceStep};
use crate::value::{LONGEST_UNIT, SourceValue};

fn schema() -> TableSchema {
    let column = |name: &str| TableColumn { name: name.to_owned(), kind: ColumnKind::Boolean };
    TableSchema { unit_column: "patient".to_owned(), columns: vec![column("a"), column("b")], encoder: None }
}

fn options(relation: PostgresRelation, filter: Option<&str>) -> PostgresOptions {
    PostgresOptions { url: "postgres://reader@localhost/ward".to_owned(), relation, filter: filter.map(str::to_owned) }
}

#[test]
fn address_of_another_machine_needs_encryption() {
    for address in [
        "postgres://r:p@db.example/x?sslmode=verify-full",
        "postgresql://r@db.example/x?sslmode=verify-ca",
        "postgres://r@db.example/x?sslmode=require\n",
        "postgres://r@localhost/x",
        "postgres://r@127.0.0.1:5433/x?sslmode=disable",
        "postgres://r@[::1]/x",
    ] {
        assert!(parse_address(address).is_ok(), "{address}");
    }
    for address in ["postgres://r:secret@db.example/x", "postgres://r:secret@10.0.0.7/x?sslmode=prefer"] {
        let error = parse_address(address).unwrap_err();
        assert!(matches!(error, PostgresError::Insecure { .. }) && !error.to_string().contains("secret"), "{error}");
    }
    assert!(matches!(parse_address("mysql://r@localhost/x"), Err(PostgresError::Url)));
}

#[test]
fn statement_reads_the_declared_columns_of_a_quoted_view() {
    let view = PostgresRelation::View("ward.visits\"; DROP TABLE x; --".to_owned());
    let statement = to_statement(&options(view, Some("a > 1 -- note")), &schema()).unwrap();
    assert_eq!(
        statement,
        "DECLARE undertone_rows NO SCROLL CURSOR FOR SELECT left((\"patient\")::text, 1025), left((\"a\")::text, 1025), \
         left((\"b\")::text, 1025) FROM \"ward\".\"visits\"\"; DROP TABLE x; --\" AS source WHERE (\na > 1 -- note\n)"
    );
    let query = |length| PostgresRelation::Query("x".repeat(length));
    assert!(to_statement(&options(query(LONGEST_QUERY), None), &schema()).is_ok());
    for length in [0, LONGEST_QUERY + 1] {
        assert!(matches!(to_statement(&options(query(length), None), &schema()), Err(PostgresError::Length { .. })));
    }
}

/// A schema and a role for reading on the PostgreSQL server of the tests, and their removal.
struct TestServer {
    admin: String,
    name: String,
}

impl TestServer {
    /// Runs `commands` in the schema; returns `None` if `UNDERTONE_TEST_DATABASE_URL` is not set.
    fn create(name: &str, commands: &[&str]) -> Option<Self> {
        let admin = std::env::var("UNDERTONE_TEST_DATABASE_URL").ok()?;
        let name = format!("undertone_{name}_{}", std::process::id());
        let server = Self { admin, name };
        server.remove();
        let name = &server.name;
        server.run(&format!("CREATE SCHEMA {name}"));
        server.run(&format!("CREATE ROLE {name} LOGIN PASSWORD 'reader'"));
        for command in commands {
            server.run(&command.replace("SCHEMA", name));
        }
        server.run(&format!("GRANT USAGE ON SCHEMA {name} TO {name}"));
        Some(server)
    }

    fn run(&self, command: &str) {
        assert!(self.try_run(command), "{command}");
    }

    fn try_run(&self, command: &str) -> bool {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let options: PgConnectOptions = self.admin.parse().unwrap();
            let mut connection = options.connect().await.unwrap();
            sqlx::query(AssertSqlSafe(command.to_owned())).execute(&mut connection).await.is_ok()
        })
    }

    fn remove(&self) {
        let name = &self.name;
        self.try_run(&format!("DROP SCHEMA IF EXISTS {name} CASCADE"));
        if self.try_run(&format!("DROP OWNED BY {name}")) {
            self.try_run(&format!("DROP ROLE {name}"));
        }
    }

    /// Opens a source as the role for reading.
    fn open(&self, relation: &str, filter: Option<&str>) -> Result<PostgresSource, PostgresError> {
        let relation = relation.replace("SCHEMA", &self.name);
        let relation = match relation.strip_prefix("view ") {
            Some(view) => PostgresRelation::View(view.to_owned()),
            None => PostgresRelation::Query(relation),
        };
        let (scheme, rest) = self.admin.split_once("://").unwrap();
        let (_, host) = rest.rsplit_once('@').unwrap_or(("", rest));
        let url = format!("{scheme}://{}:reader@{host}", self.name);
        PostgresSource::open(&PostgresOptions { url, ..options(relation, filter) }, &schema())
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.remove();
    }
}

fn read_rows(mut source: PostgresSource) -> Vec<Vec<SourceValue>> {
    let mut rows = Vec::new();
    let mut row = SourceRow::default();
    while source.next_row(&mut row).unwrap() == SourceStep::Row {
        rows.push(std::iter::once(&row.unit).chain(&row.values).cloned().collect());
    }
    rows
}

#[test]
fn reader_role_reads_a_filtered_view_and_cannot_do_more() {
    let Some(server) = TestServer::create(
        "reader",
        &[
            "CREATE TABLE SCHEMA.visits (patient int, a float8, b timestamptz, secret text)",
            "INSERT INTO SCHEMA.visits SELECT n % 7, n, '2026-01-31 23:30:00-02', 's' FROM generate_series(1, 1200) AS n",
            "INSERT INTO SCHEMA.visits VALUES (8, 'NaN', NULL, 's')",
            "CREATE VIEW SCHEMA.open AS SELECT patient, a, b FROM SCHEMA.visits",
            "CREATE VIEW SCHEMA.long AS SELECT repeat('x', 2000000) AS patient, 1 AS a, 'é' AS b",
            "GRANT SELECT ON SCHEMA.open, SCHEMA.long TO SCHEMA",
            "CREATE SEQUENCE SCHEMA.counter",
            "GRANT ALL ON SEQUENCE SCHEMA.counter TO SCHEMA",
        ],
    ) else {
        return;
    };
    let text = |text: &str| SourceValue::Text(text.to_owned());
    assert_eq!(read_rows(server.open("view SCHEMA.open", None).unwrap()).len(), 1201);
    let rows = read_rows(server.open("view SCHEMA.open", Some("a >= 1199")).unwrap());
    // In PostgreSQL NaN is greater than every number.
    assert_eq!(rows.len(), 3);
    assert!(rows.contains(&vec![text("2"), text("1199"), text("2026-02-01 01:30:00+00")]), "{rows:?}");
    assert!(rows.contains(&vec![text("8"), text("NaN"), SourceValue::Missing]), "{rows:?}");
    let long = read_rows(server.open("SELECT patient, a, b FROM SCHEMA.long -- all", None).unwrap());
    assert_eq!(long, [vec![SourceValue::LongText, text("1"), text("é")]], "{LONGEST_UNIT} bytes and no more");
    for query in [
        "SELECT patient, a, b FROM SCHEMA.open; DELETE FROM SCHEMA.visits",
        "SELECT patient, a, b FROM SCHEMA.open) AS source; DROP TABLE SCHEMA.visits; --",
        "SELECT secret AS patient, a, b FROM SCHEMA.visits",
        "SELECT nextval('SCHEMA.counter') AS patient, 1 AS a, 2 AS b",
        "SELECT patient, a FROM SCHEMA.open",
        "WITH gone AS (DELETE FROM SCHEMA.visits RETURNING *) SELECT patient, a, b FROM gone",
    ] {
        let failed = match server.open(query, None) {
            Err(_) => true,
            Ok(mut source) => source.next_row(&mut SourceRow::default()).is_err(),
        };
        assert!(failed, "{query}");
    }
    assert_eq!(read_rows(server.open("view SCHEMA.open", None).unwrap()).len(), 1201, "nothing was deleted");
    server.run(&format!("GRANT UPDATE ON {0}.visits TO {0}", server.name));
    assert!(matches!(server.open("view SCHEMA.open", None), Err(PostgresError::MayWrite { .. })));
}
