//! The tables of a new database, and those of a database that the last program before the first release made.

mod database;

use sea_orm_migration::sea_orm::ConnectionTrait as _;
use undertone_migrations::{list_steps, load_applied_steps, migrate, translate_steps};

use database::TestDatabase;

const STEPS: &str = "SELECT version AS line FROM seaql_migrations ORDER BY version";
/// The steps that were added after those of the tables: an earlier database runs them when it is adopted.
const LATER_STEPS: &[&str] = &[
    "m20261127_000100_add_artifact_deletion",
    "m20261127_000100_add_entry_certificate",
    "create_departure",
    "create_party_terms",
    "m20261128_000100_add_table_schema",
    "create_change",
    "create_masked_round",
    "create_masked_message",
    "m20261129_000100_add_masked_refusals",
];
/// The tables with columns of later steps, and how many.
const LATER_COLUMNS: &[(&str, usize)] = &[("artifact", 3), ("dataset", 1), ("ledger_entry", 1)];

#[tokio::test]
async fn fresh_and_adopted_schemas_are_equal() {
    let fresh = TestDatabase::create_all().await;
    let adopted = TestDatabase::create_all().await;
    for (fresh, adopted) in fresh.into_iter().zip(adopted) {
        migrate(&fresh.connection).await.expect("created");
        adopted.load_earlier().await;
        migrate(&adopted.connection).await.expect("adopted");
        let fresh_schema = fresh.read_schema().await;
        let adopted_schema = adopted.read_schema().await;
        let missing: Vec<_> = adopted_schema.iter().filter(|line| !fresh_schema.contains(line)).collect();
        let additional: Vec<_> = fresh_schema.iter().filter(|line| !adopted_schema.contains(line)).collect();
        assert!(missing.is_empty() && additional.is_empty(), "missing: {missing:#?}\nadditional: {additional:#?}");
        assert_eq!(fresh_schema, adopted_schema);
        fresh.remove().await;
        adopted.remove().await;
    }
}

#[tokio::test]
async fn adoption_keeps_all_rows_and_renames_steps() {
    for database in TestDatabase::create_all().await {
        database.load_earlier().await;
        let rows = database.read_rows().await;
        let schema = database.read_schema().await;
        assert!(rows.iter().any(|row| row.contains("asa@north.example")), "the rows are those of the file: {rows:?}");
        // A second start finds nothing to do.
        for _ in 0..2 {
            migrate(&database.connection).await.expect("adopted");
            assert_eq!(without_later_columns(database.read_rows().await), rows);
            let now = database.read_schema().await;
            let is_missing = |line: &&String| !now.contains(line);
            assert_eq!(schema.iter().find(is_missing), None, "the later steps only add");
            assert_eq!(sort(database.query_lines(STEPS).await), sort(list_steps()));
        }
        let change = database.connection.execute_unprepared("DELETE FROM ledger_entry").await;
        assert!(change.expect_err("a table of evidence").to_string().contains("append-only"));
        database.remove().await;
    }
}

#[tokio::test]
async fn earlier_steps_are_read_as_the_steps_of_the_tables() {
    for database in TestDatabase::create_all().await {
        database.load_earlier().await;
        let earlier = database.query_lines(STEPS).await;
        let mut tables = sort(list_steps());
        tables.retain(|step| !LATER_STEPS.contains(&step.as_str()));
        assert_eq!(load_applied_steps(&database.connection).await.expect("read"), tables);
        assert_eq!(translate_steps(earlier[1..].to_vec()), [""; 0], "an incomplete list stands for no step");
        assert_eq!(translate_steps(vec!["later".to_owned()]), ["later"]);
        database.remove().await;
    }
}

#[tokio::test]
async fn database_before_the_last_earlier_step_is_refused() {
    const NEWEST: &str = "m20261126_000900_create_ledger_position";
    for database in TestDatabase::create_all().await {
        database.load_earlier().await;
        let delete = format!("DELETE FROM seaql_migrations WHERE version = '{NEWEST}'");
        database.connection.execute_unprepared(&delete).await.expect("deleted");
        let steps = database.query_lines(STEPS).await;
        let error = migrate(&database.connection).await.expect_err("an older database").to_string();
        assert!(error.contains(NEWEST) && error.contains("run `undertone-server migrate`"), "{error}");
        assert_eq!(database.query_lines(STEPS).await, steps, "nothing has changed");
        database.remove().await;
    }
}

#[tokio::test]
async fn unknown_step_beside_earlier_ones_is_refused() {
    for database in TestDatabase::create_all().await {
        database.load_earlier().await;
        let insert = "INSERT INTO seaql_migrations (version, applied_at) VALUES ('m20261231_000000_unknown', 1)";
        database.connection.execute_unprepared(insert).await.expect("inserted");
        let steps = database.query_lines(STEPS).await;
        let error = migrate(&database.connection).await.expect_err("another program's").to_string();
        assert!(error.contains("m20261231_000000_unknown"), "{error}");
        assert_eq!(database.query_lines(STEPS).await, steps, "nothing has changed");
        database.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn replicas_that_start_at_once_migrate_in_turn() {
    for is_earlier in [false, true] {
        let Some(database) = TestDatabase::create_postgres().await else { return };
        if is_earlier {
            database.load_earlier().await;
        }
        let mut replicas = Vec::new();
        for _ in 0..4 {
            let connection = database.connect().await;
            replicas.push(tokio::spawn(async move {
                migrate(&connection).await?;
                connection.close().await
            }));
        }
        for replica in replicas {
            replica.await.expect("no panic").expect("migrated");
        }
        assert_eq!(sort(database.query_lines(STEPS).await), sort(list_steps()));
        database.remove().await;
    }
}

/// Returns the rows without the columns of later steps, which have no value in earlier rows.
fn without_later_columns(rows: Vec<String>) -> Vec<String> {
    let strip = |row: String| {
        let table = row.split(' ').next().unwrap_or_default();
        let Some((_, columns)) = LATER_COLUMNS.iter().find(|(name, _)| *name == table) else { return row };
        let is_postgres = row.ends_with(')');
        let suffix = if is_postgres { format!("{})", ",".repeat(*columns)) } else { ",NULL".repeat(*columns) };
        match row.strip_suffix(suffix.as_str()) {
            Some(earlier) if is_postgres => format!("{earlier})"),
            Some(earlier) => earlier.to_owned(),
            None => row,
        }
    };
    sort(rows.into_iter().map(strip).collect())
}

fn sort(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}
