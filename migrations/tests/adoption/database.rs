//! Databases of the tests, and what they hold.

use sea_orm_migration::sea_orm::{
    ConnectOptions, ConnectionTrait as _, Database, DatabaseConnection, DbBackend, Statement,
};
use tempfile::TempDir;
use uuid::Uuid;

/// The tables and the columns, constraints, indexes, triggers and functions of PostgreSQL, one for each line.
const POSTGRES_SCHEMA: &str = "
    SELECT 'column ' || table_name || ' ' || ordinal_position || ' ' || column_name || ' ' || data_type
        || coalesce('(' || character_maximum_length || ')', '') || ' ' || is_nullable
        || coalesce(' ' || column_default, '') AS line
        FROM information_schema.columns WHERE table_schema = 'public'
    UNION ALL SELECT 'constraint ' || conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid)
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace
    UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
    UNION ALL SELECT pg_get_triggerdef(oid) || ' ' || tgenabled::text FROM pg_trigger WHERE NOT tgisinternal
    UNION ALL SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
    UNION ALL SELECT 'relation ' || relname || ' ' || relkind::text FROM pg_class
        WHERE relnamespace = 'public'::regnamespace";
const POSTGRES_TABLES: &str = "SELECT tablename::text AS line FROM pg_tables WHERE schemaname = 'public'";
const SQLITE_TABLES: &str = "SELECT name AS line FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'";

/// A new database, which is removed at the end.
pub(crate) struct TestDatabase {
    url: String,
    pub(crate) connection: DatabaseConnection,
    /// The address of the PostgreSQL server and the name of the database on it.
    server: Option<(String, String)>,
    _folder: TempDir,
}

impl TestDatabase {
    /// Creates an empty database on SQLite and, if `UNDERTONE_TEST_DATABASE_URL` names a server, one on PostgreSQL.
    pub(crate) async fn create_all() -> Vec<Self> {
        let sqlite = Self::create_sqlite().await;
        std::iter::once(sqlite).chain(Self::create_postgres().await).collect()
    }

    async fn create_sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let url = format!("sqlite://{}?mode=rwc", folder.path().join("test.db").display());
        Self { connection: connect(&url).await, url, server: None, _folder: folder }
    }

    /// Creates an empty database on PostgreSQL; `None` if `UNDERTONE_TEST_DATABASE_URL` is not set.
    pub(crate) async fn create_postgres() -> Option<Self> {
        let server = std::env::var("UNDERTONE_TEST_DATABASE_URL").ok()?;
        let name = format!("undertone_migrations_{}", Uuid::now_v7().simple());
        execute(&server, &format!("CREATE DATABASE {name}")).await;
        let (address, _) = server.rsplit_once('/').expect("the address of a database");
        let url = format!("{address}/{name}");
        let folder = tempfile::tempdir().expect("a temporary folder");
        Some(Self { connection: connect(&url).await, url, server: Some((server, name)), _folder: folder })
    }

    /// Fills the database with the tables and rows of the last program before the first release.
    pub(crate) async fn load_earlier(&self) {
        let dump = match self.connection.get_database_backend() {
            DbBackend::Postgres => include_str!("../data/earlier-postgres.sql"),
            _ => include_str!("../data/earlier-sqlite.sql"),
        };
        execute(&self.url, dump).await;
    }

    /// Opens one more connection, as another replica does.
    pub(crate) async fn connect(&self) -> DatabaseConnection {
        connect(&self.url).await
    }

    /// Closes the connection and removes the database.
    pub(crate) async fn remove(self) {
        self.connection.close().await.expect("closed");
        if let Some((server, name)) = self.server {
            execute(&server, &format!("DROP DATABASE {name} WITH (FORCE)")).await;
        }
    }

    /// Returns the schema as sorted lines.
    pub(crate) async fn read_schema(&self) -> Vec<String> {
        let mut lines = match self.connection.get_database_backend() {
            DbBackend::Postgres => self.query_lines(POSTGRES_SCHEMA).await,
            _ => self.read_sqlite_schema().await,
        };
        lines.sort();
        lines
    }

    /// SQLite keeps the text of each definition, but a column that was added later is written after the constraints: so
    /// a table gives one line for each column, with its position, and one for each constraint.
    async fn read_sqlite_schema(&self) -> Vec<String> {
        let mut lines =
            self.query_lines("SELECT sql AS line FROM sqlite_master WHERE type <> 'table' AND sql <> ''").await;
        for table in self.query_lines(SQLITE_TABLES).await {
            let definition =
                self.query_lines(&format!("SELECT sql AS line FROM sqlite_master WHERE name = '{table}'")).await;
            let (_, body) = definition[0].split_once('(').expect("a list of columns");
            let body = body.trim_end().strip_suffix(')').expect("the end of the list");
            let (columns, constraints): (Vec<String>, Vec<String>) =
                split_list(body).into_iter().partition(|item| item.starts_with('"'));
            let columns = columns.iter().enumerate().map(|(position, column)| format!("{table} {position} {column}"));
            lines.extend(columns.chain(constraints.iter().map(|constraint| format!("{table} {constraint}"))));
        }
        lines
    }

    /// Returns all rows of all tables except the list of steps, as sorted text.
    pub(crate) async fn read_rows(&self) -> Vec<String> {
        let is_postgres = self.connection.get_database_backend() == DbBackend::Postgres;
        let mut rows = Vec::new();
        for table in self.query_lines(if is_postgres { POSTGRES_TABLES } else { SQLITE_TABLES }).await {
            if table == "seaql_migrations" {
                continue;
            }
            let text = if is_postgres {
                format!("\"{table}\"::text")
            } else {
                let names = self.query_lines(&format!("SELECT name AS line FROM pragma_table_info('{table}')")).await;
                names.iter().map(|name| format!("quote(\"{name}\")")).collect::<Vec<_>>().join(" || ',' || ")
            };
            rows.extend(self.query_lines(&format!("SELECT '{table} ' || {text} AS line FROM \"{table}\"")).await);
        }
        rows.sort();
        rows
    }

    /// Returns the column `line` of a query.
    pub(crate) async fn query_lines(&self, query: &str) -> Vec<String> {
        let statement = Statement::from_string(self.connection.get_database_backend(), query);
        let rows = self.connection.query_all_raw(statement).await.expect(query);
        rows.iter().map(|row| row.try_get("", "line").expect("text")).collect()
    }
}

async fn connect(url: &str) -> DatabaseConnection {
    let mut options = ConnectOptions::new(url);
    options.max_connections(1);
    Box::pin(Database::connect(options)).await.expect("the database answers")
}

async fn execute(url: &str, statements: &str) {
    let connection = connect(url).await;
    connection.execute_unprepared(statements).await.expect("executed");
    connection.close().await.expect("closed");
}

/// Splits a list at the commas outside parentheses.
fn split_list(text: &str) -> Vec<String> {
    let mut items = vec![String::new()];
    let mut depth = 0;
    for character in text.chars() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if character == ',' && depth == 0 {
            items.push(String::new());
        } else {
            items.last_mut().expect("at least one item").push(character);
        }
    }
    items.iter().map(|item| item.trim().to_owned()).collect()
}
