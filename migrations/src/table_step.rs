//! The step that creates one table.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::DbBackend;

/// The step that creates one table with its indexes and, for evidence, the triggers that reject changes of its rows.
#[derive(Debug)]
pub(crate) struct TableStep {
    table: &'static str,
    name: String,
    statement: TableCreateStatement,
    indexes: Vec<IndexCreateStatement>,
    is_append_only: bool,
}

impl TableStep {
    /// Begins the step `create_<table>`.
    pub(crate) fn new(table: &'static str) -> Self {
        Self {
            table,
            name: format!("create_{table}"),
            statement: Table::create().table(table).to_owned(),
            indexes: Vec::new(),
            is_append_only: false,
        }
    }

    /// Adds a column.
    pub(crate) fn column(mut self, column: impl IntoColumnDef) -> Self {
        self.statement.col(column);
        self
    }

    /// Makes `columns` the primary key; PostgreSQL names it `<table>_pkey`.
    pub(crate) fn primary_key<const N: usize>(mut self, columns: [&'static str; N]) -> Self {
        self.statement.primary_key(&mut index(columns));
        self
    }

    /// Makes `columns` the primary key with a name, which only PostgreSQL keeps.
    pub(crate) fn primary_key_with_name<const N: usize>(mut self, name: &str, columns: [&'static str; N]) -> Self {
        self.statement.primary_key(index(columns).name(name));
        self
    }

    /// Lets `columns` refer to `target_columns` of the table `target`.
    pub(crate) fn foreign_key<const N: usize>(
        mut self,
        name: &str,
        columns: [&'static str; N],
        target: &'static str,
        target_columns: [&'static str; N],
    ) -> Self {
        let mut key = ForeignKey::create();
        key.name(name).from_tbl(self.table).to_tbl(target);
        for column in columns {
            key.from_col(column);
        }
        for column in target_columns {
            key.to_col(column);
        }
        self.statement.foreign_key(&mut key);
        self
    }

    /// Adds an index.
    pub(crate) fn index<const N: usize>(mut self, name: &str, columns: [&'static str; N]) -> Self {
        self.indexes.push(index(columns).name(name).table(self.table).to_owned());
        self
    }

    /// Adds an index that admits each combination of values once.
    pub(crate) fn unique_index<const N: usize>(mut self, name: &str, columns: [&'static str; N]) -> Self {
        self.indexes.push(index(columns).name(name).table(self.table).unique().to_owned());
        self
    }

    /// Makes every UPDATE and DELETE (and TRUNCATE, where there is one) fail with "<table> is append-only": the
    /// database itself protects evidence from every caller.
    pub(crate) fn append_only(mut self) -> Self {
        self.is_append_only = true;
        self
    }
}

impl MigrationName for TableStep {
    fn name(&self) -> &str {
        &self.name
    }
}

#[async_trait::async_trait]
impl MigrationTrait for TableStep {
    /// Both databases roll back the creation of tables, so an interrupted step can run again.
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.create_table(self.statement.clone()).await?;
        for index in &self.indexes {
            manager.create_index(index.clone()).await?;
        }
        if self.is_append_only {
            for trigger in append_only_triggers(manager.get_database_backend(), self.table) {
                manager.get_connection().execute_unprepared(&trigger).await?;
            }
        }
        Ok(())
    }
}

fn index<const N: usize>(columns: [&'static str; N]) -> IndexCreateStatement {
    let mut index = Index::create();
    for column in columns {
        index.col(column);
    }
    index
}

fn append_only_triggers(backend: DbBackend, table: &str) -> Vec<String> {
    if backend == DbBackend::Postgres {
        return vec![
            format!(
                "CREATE FUNCTION {table}_append_only() RETURNS trigger LANGUAGE plpgsql AS \
                 $$ BEGIN RAISE EXCEPTION '{table} is append-only'; END $$"
            ),
            format!(
                "CREATE TRIGGER {table}_no_change BEFORE UPDATE OR DELETE ON {table} \
                 FOR EACH ROW EXECUTE FUNCTION {table}_append_only()"
            ),
            format!(
                "CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table} \
                 FOR EACH STATEMENT EXECUTE FUNCTION {table}_append_only()"
            ),
        ];
    }
    let trigger = |action: &str| {
        format!(
            "CREATE TRIGGER {table}_no_{} BEFORE {action} ON {table} \
             BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END",
            action.to_lowercase()
        )
    };
    vec![trigger("UPDATE"), trigger("DELETE")]
}
