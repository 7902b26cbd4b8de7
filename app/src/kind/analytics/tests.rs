//! The planner's form becomes a job, its templates are valid, and the result shows intervals.
#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use leptos::prelude::{Owner, RenderHtml as _};
use undertone_api::dataset::{Dataset, DatasetContent};
use undertone_api::job::JobKind as _;
use undertone_api::table::{CalendarDate, ColumnKind, TableColumn, TableSchema};
use undertone_privacy::PrivacyUnit;

use super::description::describe_consent;
use super::plan::AnalyticsPlan;
use super::planner::cost;
use super::{goal, result, template};
use crate::testing::example::{self, CONSORTIUM};

fn datasets() -> Vec<Dataset> {
    let date = |text| CalendarDate::parse(text).unwrap();
    let column = |name: &str, kind| TableColumn { name: name.to_owned(), kind };
    let table = TableSchema {
        unit_column: "patient".to_owned(),
        columns: vec![
            column("age", ColumnKind::Integer { least: 0, most: 120 }),
            column("sex", ColumnKind::Category { values: vec!["female".to_owned(), "male".to_owned()] }),
            column("visit", ColumnKind::Date { first: date("2020-01-01"), last: date("2026-12-31") }),
        ],
        encoder: None,
    };
    let to_table = |dataset| Dataset {
        content: DatasetContent::Table,
        table: Some(table.clone()),
        units: vec![PrivacyUnit::User],
        ..dataset
    };
    example::datasets().into_iter().skip(1).map(to_table).collect()
}

fn plan(change: impl FnOnce(&mut AnalyticsPlan)) -> AnalyticsPlan {
    let mut plan = AnalyticsPlan::first(&datasets()).unwrap();
    change(&mut plan);
    plan
}

#[test]
fn first_plan_and_its_templates_are_valid() {
    let datasets = datasets();
    let first = plan(|_| ());
    let schema = first.find_schema(&datasets).unwrap();
    let templates = template::list_templates(schema);
    assert_eq!(templates.len(), 4);
    assert!(
        templates[3].1.contains("date_trunc('quarter', visit), count(DISTINCT patient), avg(age)"),
        "{templates:?}"
    );
    for (title, sql) in templates {
        let quorum = if title == "Drift between sites" { datasets.len() as u32 } else { 1 };
        let spec = plan(|plan| (plan.sql, plan.quorum) = (sql, quorum)).spec(&datasets).unwrap();
        assert_eq!(spec.check(&datasets), Vec::new(), "{title}");
        assert_eq!(spec.participants.len(), datasets.len());
    }
}

#[test]
fn planned_spec_opens_as_its_plan() {
    let datasets = datasets();
    let planned = plan(|plan| {
        plan.sql = "SELECT sex, avg(age) FROM t WHERE age BETWEEN 18 AND 65 GROUP BY sex".to_owned();
        (plan.rows, plan.groups, plan.hours) = (3, 2, 1.5);
        plan.parts[0].joins = false;
    });
    let spec = planned.spec(&datasets).unwrap();
    let opened = AnalyticsPlan::from_spec("a title", &spec, &datasets, &plan(|_| ()));
    assert_eq!((opened.title.as_str(), opened.spec(&datasets).unwrap()), ("a title", spec));
    let link = planned.link(CONSORTIUM);
    assert_eq!(AnalyticsPlan::from_query(link.split_once('?').unwrap().1), Some(planned));
}

#[test]
fn invalid_fields_are_named_by_path() {
    let datasets = datasets();
    let garbled = plan(|plan| {
        (plan.noise, plan.hours) = (0.0, f64::NAN);
        plan.sql = "SELECT * FROM t".to_owned();
    });
    let violations = garbled.spec(&datasets).unwrap_err();
    let fields: Vec<_> = violations.into_iter().map(|violation| violation.field).collect();
    assert_eq!(fields, ["spec.noise_multiplier", "spec.deadline_seconds", "spec.queries"]);
    let page = Owner::new().with(|| cost::render_cost(&garbled, &datasets, &[], CONSORTIUM));
    assert!(page.contains("<code>queries</code>") && page.contains("is not possible"), "{page}");
}

#[test]
fn planner_shows_expected_errors() {
    let page = Owner::new().with(|| cost::render_cost(&plan(|_| ()), &datasets(), &[], CONSORTIUM));
    assert!(page.contains("Expected errors") && page.contains("count(units)") && page.contains('±'), "{page}");
}

#[test]
fn consent_describes_the_release() {
    let datasets = datasets();
    let spec = plan(|_| ()).spec(&datasets).unwrap();
    let consent = describe_consent(&spec, spec.cost(&datasets[0]).as_ref()).join(" ");
    assert!(consent.contains("the sums of 2 queries") && consent.contains("1 release is charged."), "{consent}");
    assert_eq!(describe_consent(&spec, None), Vec::<String>::new());
}

#[test]
fn choice_of_keys_is_planned_described_and_charged() {
    let mut datasets = datasets();
    for dataset in &mut datasets {
        let table = dataset.table.as_mut().unwrap();
        table.columns.push(TableColumn { name: "code".to_owned(), kind: ColumnKind::Key { longest: 7 } });
    }
    let schema = datasets[0].table.as_ref().unwrap();
    let (title, sql) = template::list_templates(schema).pop().unwrap();
    assert_eq!(title, "Most frequent codes");
    let planned = plan(|plan| plan.sql = sql);
    let spec = planned.spec(&datasets).unwrap();
    assert_eq!(spec.check(&datasets), Vec::new());
    let page = Owner::new().with(|| cost::render_cost(&planned, &datasets, &[], CONSORTIUM));
    for text in ["chosen privately", "or more over the sites together is found", "Two releases of each table"] {
        assert!(page.contains(text), "{text}: {page}");
    }
    let consent = describe_consent(&spec, spec.cost(&datasets[0]).as_ref()).join(" ");
    assert!(consent.contains("2 releases are charged.") && consent.contains("their texts are shown"), "{consent}");
    let facts = super::description::list_facts(&spec);
    let fact = |term| facts.iter().find(|(own, _)| *own == term).unwrap().1.clone();
    assert!(
        fact("Round").starts_with("two, each") && fact("Query").contains("of code the 50 most frequent"),
        "{facts:?}"
    );
    let opened = AnalyticsPlan::from_spec("", &spec, &datasets, &plan(|_| ()));
    assert_eq!(opened.spec(&datasets).unwrap(), spec);
}

#[test]
fn result_shows_intervals_and_no_false_zeros() {
    let spec = plan(|_| ()).spec(&datasets()).unwrap();
    let layout = spec.layout().unwrap();
    let report = spec.report(&vec![0.0; layout.length()], 3).unwrap();
    let page = Owner::new().with(|| result::render_result(&report, &result::SiteNames::new()).to_html());
    assert!(page.contains("0 to ") && page.contains("–") && page.contains("3 sites"), "{page}");
    assert!(page.contains("download=\"result.csv\"") && page.contains("data:text/csv"), "{page}");
    assert_eq!(result::summarize(&report), "3 numbers over 3 sites together.");
}

#[test]
fn survival_has_a_step_curve_with_its_interval() {
    let mut datasets = datasets();
    for dataset in &mut datasets {
        let table = dataset.table.as_mut().unwrap();
        table.columns.push(TableColumn { name: "died".to_owned(), kind: ColumnKind::Boolean });
    }
    let plan = plan(|plan| plan.sql = "SELECT survival(age, died, 0, 10, 20) FROM t GROUP BY sex".to_owned());
    let spec = plan.spec(&datasets).unwrap();
    assert_eq!(spec.check(&datasets), Vec::new());
    let layout = spec.layout().unwrap();
    // Women: 1,000 events in each of the two intervals, and 8,000 later times.
    let mut sums = vec![0.0; layout.length()];
    for (place, count) in [(0, 1000.0), (1, 1000.0), (4, 8000.0)] {
        sums[place] = count * layout.blocks()[0].factor();
    }
    let report = spec.report(&sums, 2).unwrap();
    let page = Owner::new().with(|| result::render_result(&report, &result::SiteNames::new()).to_html());
    for text in ["female", "male", "survival(age, died): 20", "90.0 %", "80.0 %", "survival.csv"] {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert_eq!(page.matches("<svg").count(), 2, "a curve of each group");
}

#[test]
fn errors_that_a_plan_asks_for_are_met() {
    let datasets = datasets();
    let asked = plan(|plan| {
        plan.sql = "SELECT avg(age), count(*) FROM t; SELECT count(*) FROM t GROUP BY sex".to_owned();
        plan.goals = "avg(age) +- 0.5\n query 2: count(*) ± 40 \n\ncount(*) share 3".to_owned();
    });
    let (spec, targets) = asked.fit(&datasets).unwrap();
    assert_eq!(targets.iter().map(|target| (target.query, target.aggregate)).collect::<Vec<_>>(), [(0, 0), (1, 0)]);
    let errors = spec.expected_errors(&datasets).unwrap();
    for (error, target) in [(errors[0].overall, 0.5), (errors[2].overall, 40.0)] {
        assert!(error <= target * (1.0 + 1e-9) && error > 0.9 * target, "{error} for {target}");
    }
    // The plan of the spec has the same shares and noise.
    let opened = AnalyticsPlan::from_spec("", &spec, &datasets, &plan(|_| ()));
    assert_eq!(opened.spec(&datasets).unwrap(), spec);
    let page = Owner::new().with(|| cost::render_cost(&asked, &datasets, &[], CONSORTIUM));
    assert!(page.contains("Errors asked for") && page.contains("±0.5") && page.contains("±40"), "{page}");
    let scaled =
        AnalyticsPlan { goals: goal::scale_errors(&asked.goals, 2.0), noise: 2.0 * asked.noise, ..asked.clone() };
    let ratio = scaled.spec(&datasets).unwrap().noise_multiplier.get() / spec.noise_multiplier.get();
    assert!((ratio - 2.0).abs() < 0.02, "{ratio}");
    for (goals, word) in [("avg(age) ± -1", "above 0"), ("avg(age)", "share"), ("avg(sex) ± 1", "query1:mean(age)")] {
        let violations = AnalyticsPlan { goals: goals.to_owned(), ..asked.clone() }.spec(&datasets).unwrap_err();
        assert!(violations.len() == 1 && violations[0].message.contains(word), "{violations:?}");
    }
}

#[test]
fn drift_names_the_sites_and_their_owners_consent_to_it() {
    let datasets = datasets();
    let first = plan(|_| ());
    let (_, sql) = template::list_templates(first.find_schema(&datasets).unwrap()).swap_remove(2);
    assert!(sql.contains("histogram(age, 0, 15, 30, 45, 60, 75, 90, 105, 120), histogram(sex)"), "{sql}");
    let spec = plan(|plan| (plan.sql, plan.quorum) = (sql, datasets.len() as u32)).spec(&datasets).unwrap();
    let consent = describe_consent(&spec, spec.cost(&datasets[0]).as_ref()).join(" ");
    assert!(consent.contains("the numbers of your table alone") && consent.contains("query 1"), "{consent}");
    let layout = spec.layout().unwrap();
    let names: result::SiteNames = datasets.iter().map(|dataset| (dataset.id, dataset.name.clone())).collect();
    // Women at the first site, and men at the others.
    let mut sums = vec![0.0; layout.length()];
    let sex = &layout.blocks()[1];
    for site in 0..datasets.len() {
        sums[sex.coordinates(site).start + usize::from(site > 0)] = 4000.0 * sex.factor();
    }
    let report = spec.report(&sums, datasets.len() as u32).unwrap();
    let page = Owner::new().with(|| result::render_result(&report, &names).to_html());
    for text in
        [datasets[0].name.as_str(), datasets[1].name.as_str(), "drift of histogram(sex)", "stability index", "Site"]
    {
        assert!(page.contains(text), "{text}: {page}");
    }
}
