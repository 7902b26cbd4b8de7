//! Codes, dates and the limits of a schema.

use super::{CalendarDate, ColumnKind, TableColumn, TableSchema};

fn schema(kind: ColumnKind) -> TableSchema {
    let column = |name: &str, kind| TableColumn { name: name.to_owned(), kind };
    TableSchema {
        unit_column: "patient".to_owned(),
        columns: vec![column("x", kind), column("y", ColumnKind::Boolean)],
        encoder: None,
    }
}

#[test]
fn codes_are_clamped_and_rounded_to_the_grid() {
    let real = ColumnKind::Real { least: -1.0, most: 2.0, step: 0.1 };
    assert_eq!(real.code_range(), (-10, 20));
    let codes = [-5.0, 0.26, 1.99, f64::INFINITY, f64::NAN].map(|value| real.encode_real(value));
    assert_eq!(codes, [Some(-10), Some(3), Some(20), Some(20), None]);
    assert_eq!(real.display_code(3), "0.3");
    let integer = ColumnKind::Integer { least: 0, most: 120 };
    assert_eq!([-3, 50, i64::MAX].map(|value| integer.encode_integer(value)), [Some(0), Some(50), Some(120)]);
    let category = ColumnKind::Category { values: vec!["f".to_owned(), "m".to_owned()] };
    assert_eq!(["m", "M", "other"].map(|text| category.encode_category(text)), [Some(1), None, None]);
    assert_eq!((category.code_range(), category.display_code(0)), ((0, 1), "f".to_owned()));
}

#[test]
fn dates_are_days_since_1970() {
    for (text, days) in [("1970-01-01", 0), ("2000-03-01", 11_017), ("1969-12-31", -1), ("0001-01-01", -719_162)] {
        let date = CalendarDate::parse(text).expect("a date");
        assert_eq!((date.days(), date.to_string()), (days, text.to_owned()));
        assert_eq!(CalendarDate::from_days(days), Ok(date));
    }
    for text in ["2026-02-29", "2026-2-01", "0000-01-01", "2026-01-01T00:00", "２026-01-0", "", "+026-01-01"] {
        assert!(CalendarDate::parse(text).is_err(), "{text}");
    }
    assert!(CalendarDate::from_days(i64::MAX).is_err());
}

#[test]
fn limits_of_a_schema_name_their_fields() {
    let fields = |schema: &TableSchema| -> Vec<String> {
        schema.check("table").into_iter().map(|violation| violation.field).collect()
    };
    let real = |least, most, step| schema(ColumnKind::Real { least, most, step });
    assert_eq!(fields(&real(0.0, 1.0, 0.01)), [""; 0]);
    for (least, most, step, field) in [
        (1.0, 0.0, 0.1, "least"),
        (0.0, f64::NAN, 0.1, "least"),
        (0.0, 1.0, 0.0, "step"),
        (0.0, 1.0, 5.0, "step"),
        (0.0, 1.0, 1e-17, "step"),
    ] {
        assert_eq!(fields(&real(least, most, step)), [format!("table.columns.0.{field}")], "{least} {most} {step}");
    }
    assert_eq!(fields(&schema(ColumnKind::Integer { least: 0, most: i64::MAX })), ["table.columns.0.least"]);
    let twice = vec!["a".to_owned(), "a".to_owned()];
    assert_eq!(fields(&schema(ColumnKind::Category { values: twice })), ["table.columns.0.values"]);
    assert_eq!(fields(&schema(ColumnKind::Category { values: vec!["a".repeat(201)] })), ["table.columns.0.values"]);
    let text = |most_grams| ColumnKind::Text { most_grams, characters: false };
    assert_eq!(fields(&schema(text(0))), ["table.columns.0.most_grams"]);
    assert_eq!(fields(&schema(text(1001))), ["table.columns.0.most_grams"]);
    for longest in [0, 10] {
        assert_eq!(fields(&schema(ColumnKind::Key { longest })), ["table.columns.0.longest"], "{longest}");
    }
    assert_eq!(fields(&schema(ColumnKind::Key { longest: 9 })), [""; 0]);
    let encoded = |digest: &str| TableSchema { encoder: Some(digest.to_owned()), ..schema(ColumnKind::Boolean) };
    assert_eq!(fields(&encoded(&"0a".repeat(32))), [""; 0]);
    for digest in ["0a".repeat(31), "0A".repeat(32), String::new()] {
        assert_eq!(fields(&encoded(&digest)), ["table.encoder"], "{digest}");
    }
    let mut texts = schema(text(600));
    texts.columns[1].kind = text(400);
    assert_eq!(fields(&texts), [""; 0]);
    texts.columns[1].kind = text(401);
    assert_eq!(fields(&texts), ["table.columns"]);
    let mut other = schema(ColumnKind::Boolean);
    other.columns[0].name = "patient".to_owned();
    other.columns[1].name = "Y".to_owned();
    assert_eq!(fields(&other), ["table.columns.0.name", "table.columns.1.name"]);
    other.columns.clear();
    assert_eq!(fields(&other), ["table.columns"]);
}

#[test]
fn codes_of_a_text_lie_together_at_its_place() {
    let kind = ColumnKind::Text { most_grams: 3, characters: false };
    let mut texts = schema(kind.clone());
    texts.columns.push(TableColumn { name: "z".to_owned(), kind });
    assert_eq!(texts.code_count(), 7);
    assert_eq!([0, 1, 2].map(|place| texts.code_positions(place)), [0..3, 3..4, 4..7]);
    assert_eq!(texts.columns[0].kind.encode_text("one two three").len(), 3);
    assert_eq!(ColumnKind::Boolean.encode_text("one"), [0; 0]);
}

#[test]
fn schema_is_one_flat_object_per_column() {
    let text = r#"{"unit_column":"patient","columns":[{"name":"age","kind":"integer","least":0,"most":120},{"name":"visit","kind":"date","first":"2020-01-01","last":"2026-12-31"}]}"#;
    let schema: TableSchema = serde_json::from_str(text).expect("a schema");
    assert_eq!(serde_json::to_string(&schema).expect("JSON"), text);
    assert_eq!(schema.find_column("visit").map(|(place, kind)| (place, kind.label())), Some((1, "date")));
}
