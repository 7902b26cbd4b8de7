//! The SQL text and the plan are the same; other clauses are refused by name.

use super::{datasets, example};
use crate::job::analytics::sql::{SqlError, SqlQueries, parse_queries, write_queries};
use crate::job::analytics::{ContributionLimits, GroupKey, TableQuery};
use crate::table::{ColumnKind, TableColumn};

fn parse(text: &str) -> Result<SqlQueries, SqlError> {
    let [table, _] = datasets();
    parse_queries(text, &table.table.expect("it is a table"), ContributionLimits::default())
}

#[test]
fn text_of_the_example_is_its_plan() {
    let mut expected: TableQuery = example().0.queries.remove(0);
    expected.name = "query 1".to_owned();
    expected.aggregates[1].share = 1.0;
    let text = "SELECT sex, count(DISTINCT patient), avg(age) AS mean_age, quantiles(glucose, 0.25, 0.5, 0.75), \
                histogram(age, 18, 40, 65, 120) FROM visits \
                WHERE 18 <= age AND visit BETWEEN DATE '2024-01-01' AND '2025-12-31' GROUP BY sex";
    let parsed = parse(text).expect("a restricted query");
    if let crate::job::analytics::AggregateMeasure::Quantiles { levels, .. } = &mut expected.aggregates[2].measure {
        *levels = 8;
    }
    assert_eq!(parsed.queries, [expected]);
    assert_eq!(parsed.columns, example().0.columns);
}

#[test]
fn statements_become_queries_with_the_columns_that_they_use() {
    let parsed = parse(
        "SELECT count(*) FROM t; \
         SELECT bucket(age, 0, 18, 65), date_trunc('year', visit), variance(age) FROM t \
         WHERE NOT (sex IN ('female', 'other') OR glucose IS NULL) AND age <> -1 \
         GROUP BY bucket(age, 0, 18, 65), date_trunc('year', visit);",
    )
    .expect("two queries");
    assert_eq!(parsed.queries.len(), 2);
    assert_eq!(parsed.columns.len(), 4);
    let mut spec = example().0;
    spec.queries = parsed.queries;
    spec.columns = parsed.columns;
    assert_eq!(crate::job::JobKind::check(&spec, &datasets()), Vec::new());
    assert_eq!(spec.layout().expect("a layout").length(), 1 + 3 * 2 * 7);
}

#[test]
fn written_text_is_read_as_the_same_queries() {
    let text = "SELECT sex, count(*), count(DISTINCT patient), sum(age), variance(glucose), histogram(sex) FROM t \
                WHERE (age < 30 OR sex IN ('male', 'other')) AND NOT glucose BETWEEN -0.5 AND 6 AND visit IS NOT NULL \
                GROUP BY site(), sex; SELECT median(glucose) FROM t GROUP BY bucket(age, 0, 18.5, 120); \
                SELECT survival(age, died, 0, 40, 80.5), covariance(age, glucose, died), corr(age, glucose), \
                linear_regression(glucose, age, died), regr_slope(glucose, age) FROM t";
    let [mut table, _] = datasets();
    let schema = table.table.as_mut().expect("it is a table");
    schema.columns.push(TableColumn { name: "died".to_owned(), kind: ColumnKind::Boolean });
    let parse = |text: &str| parse_queries(text, schema, ContributionLimits::default());
    let parsed = parse(text).expect("three queries");
    let written = write_queries(&parsed.queries, "patient");
    assert_eq!(parse(&written), Ok(parsed), "{written}");
}

#[test]
fn column_of_keys_becomes_chosen_groups_with_its_limit() {
    let [mut table, _] = datasets();
    let schema = table.table.as_mut().expect("it is a table");
    schema.columns.push(TableColumn { name: "code".to_owned(), kind: ColumnKind::Key { longest: 7 } });
    let parse = |text: &str| parse_queries(text, schema, ContributionLimits::default());
    let keys = |text: &str| parse(text).expect("a query").queries.remove(0).group_by;
    let selected = |most| GroupKey::Selected { column: "code".to_owned(), most };
    assert_eq!(keys("SELECT code, count(*) FROM t GROUP BY code"), [selected(100)]);
    let text = "SELECT code, sex, count(*) FROM t WHERE code <> 'Z00' AND code IN ('I21.4', 'e11') GROUP BY code, sex LIMIT 12";
    assert_eq!(keys(text), [selected(12), GroupKey::Values { column: "sex".to_owned() }]);
    let parsed = parse(text).expect("a query");
    let written = write_queries(&parsed.queries, "patient");
    assert!(written.ends_with("LIMIT 12"), "{written}");
    assert_eq!(parse(&written), Ok(parsed), "{written}");
    for clause in ["LIMIT 0", "LIMIT 5 OFFSET 2", "LIMIT 5, 2", "LIMIT 1.5"] {
        let error = parse(&format!("SELECT count(*) FROM t GROUP BY code {clause}")).expect_err("no bound of groups");
        assert!(error.to_string().contains("LIMIT"), "{clause}: {error}");
    }
}

#[test]
fn other_clauses_are_refused_by_name() {
    for (text, word) in [
        ("SELECT * FROM t", "*"),
        ("SELECT age FROM t", "age"),
        ("SELECT max(age) FROM t", "max"),
        ("SELECT covariance(age) FROM t", "covariance(age)"),
        ("SELECT linear_regression(age) FROM t", "linear_regression(age)"),
        ("SELECT survival(age) FROM t", "survival(age)"),
        ("SELECT count(DISTINCT age) FROM t", "count(DISTINCT age)"),
        ("SELECT avg(age + 1) FROM t", "age + 1"),
        ("SELECT avg(patient) FROM t", "patient"),
        ("SELECT avg(age) OVER () FROM t", "OVER"),
        ("SELECT count(*) FILTER (WHERE age > 1) FROM t", "FILTER"),
        ("SELECT count(*) FROM t HAVING count(*) > 5", "HAVING"),
        ("SELECT count(*) FROM t ORDER BY 1", "ORDER BY"),
        ("SELECT count(*) FROM t LIMIT 3", "LIMIT"),
        ("SELECT DISTINCT count(*) FROM t", "SELECT DISTINCT"),
        ("SELECT count(*) FROM t JOIN u ON t.a = u.a", "JOIN"),
        ("SELECT count(*) FROM t, u", "a list of tables"),
        ("SELECT count(*) FROM (SELECT * FROM t) s", "subquery"),
        ("SELECT count(*) FROM t WHERE age IN (SELECT 1)", "subquery"),
        ("SELECT count(*) FROM t WHERE sex LIKE 'f%'", "LIKE"),
        ("SELECT count(*) FROM t WHERE age = age", "age"),
        ("SELECT count(*) FROM t UNION SELECT count(*) FROM t", "UNION"),
        ("WITH s AS (SELECT 1) SELECT count(*) FROM s", "WITH"),
        ("DROP TABLE t", "DROP"),
        ("SELECT count(*) FROM t GROUP BY ALL", "ALL"),
        ("SELECT count(*) FROM t GROUP BY age % 2", "age % 2"),
    ] {
        match parse(text) {
            Err(error @ SqlError::Clause { .. }) => {
                let message = error.to_string();
                assert!(message.contains(word) && message.contains(" is not possible: "), "{text}: {message}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    assert_eq!(parse("SELECT avg(nothing) FROM t"), Err(SqlError::Column("nothing".to_owned())));
    assert!(matches!(parse("SELECT count("), Err(SqlError::Syntax(_))));
    assert!(matches!(parse(&" ".repeat(20_000)), Err(SqlError::Length(20_000))));
    let deep = format!("SELECT count(*) FROM t WHERE {}age > 1{}", "(".repeat(3000), ")".repeat(3000));
    assert!(matches!(parse(&deep), Err(SqlError::Syntax(_))));
}
