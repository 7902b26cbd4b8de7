use ed25519_dalek::SigningKey;
use undertone_api::dataset::{DatasetContent, DatasetRegistration, SizeClass, Visibility};
use undertone_api::id::{LineageId, OrganizationId, WorkerId};
use undertone_api::problem::Code;
use undertone_api::table::{ColumnKind, TableColumn, TableSchema};
use undertone_privacy::PrivacyUnit;
use uuid::Uuid;

use super::{MOST_DATASETS, get, list, register};
use crate::metrics::Limit;
use crate::model::column::JsonColumn;
use crate::service::worker;
use crate::testing::{Person, TestApp, on_both};

fn registration() -> DatasetRegistration {
    DatasetRegistration {
        name: "calls".to_owned(),
        lineage: LineageId(Uuid::from_u128(7)),
        visibility: Visibility::Private,
        content: DatasetContent::Speech,
        inputs: 13,
        classes: 40,
        records: SizeClass(500),
        speakers: SizeClass(20),
        test_records: 0,
        seconds: None,
        users: None,
        table: None,
        units: undertone_api::dataset::usual_units(),
        approval: None,
    }
}

async fn worker_of(app: &TestApp, organization: OrganizationId, admin: &Person, seed: u8) -> WorkerId {
    let new = undertone_api::worker::NewEnrolment { name: "site".to_owned() };
    worker::invite(&app.ctx, &admin.actor(app).await, organization, &new).await.expect("may enrol");
    let key = hex::encode(SigningKey::from_bytes(&[seed; 32]).verifying_key().to_bytes());
    let row = crate::model::worker::Model {
        id: app.ctx.id(),
        organization_id: organization.0,
        name: "site".to_owned(),
        public_key: key,
        version: String::new(),
        kinds: JsonColumn::new(Vec::new()).expect("an empty list is JSON"),
        created_at: app.ctx.now(),
        last_seen_at: None,
        retired_at: None,
        replaces: None,
    };
    use sea_orm::{ActiveModelTrait as _, IntoActiveModel as _};
    let row = app.ctx.db.write("worker", async |tx| Ok(row.clone().into_active_model().insert(tx).await?)).await;
    row.expect("inserted").id.into()
}

on_both! {
    async fn worker_has_a_thousand_datasets_and_no_more(app: &TestApp) {
        use sea_orm::{ActiveModelTrait as _, EntityTrait as _, IntoActiveModel as _};

        use crate::model::dataset;

        let founded = app.founded().await;
        let site = worker_of(app, founded.north.0, &founded.north.1, 1).await;
        let first = register(&app.ctx, site, &registration()).await.expect("registered");
        let row = dataset::Entity::find_by_id(first.id.0).one(app.ctx.db.read()).await.expect("read").expect("one row");
        let rows = (1..MOST_DATASETS - 1).map(|number| {
            let id = Uuid::from_u128(u128::from(number));
            dataset::Model { id, name: format!("calls-{number}"), ..row.clone() }.into_active_model().reset_all()
        });
        let rows: Vec<_> = rows.collect();
        let insert = async |tx: &crate::db::Tx| {
            for some in rows.chunks(100) {
                dataset::Entity::insert_many(some.to_vec()).exec_without_returning(tx).await?;
            }
            Ok(())
        };
        app.ctx.db.write("datasets", insert).await.expect("inserted");
        let with_name = |name: &str| DatasetRegistration { name: name.to_owned(), ..registration() };
        register(&app.ctx, site, &with_name("last")).await.expect("the thousandth");
        let refused = register(&app.ctx, site, &with_name("one more")).await.expect_err("one more than a thousand");
        assert_eq!(refused.code(), Code::TooLarge);
        assert_eq!(app.ctx.metrics.reached(Limit::Datasets), 1);
        register(&app.ctx, site, &registration()).await.expect("a known name is told again");
    }

    async fn repeated_registration_keeps_id_and_updates_facts(app: &TestApp) {
        let founded = app.founded().await;
        let site = worker_of(app, founded.north.0, &founded.north.1, 1).await;
        let first = register(&app.ctx, site, &registration()).await.expect("registered");
        let second = DatasetRegistration { records: SizeClass(1000), ..registration() };
        let second = register(&app.ctx, site, &second).await.expect("registered");
        assert_eq!((second.id, second.records), (first.id, SizeClass(1000)));
        assert_eq!(second.organization_name, "North");
    }

    async fn register_with_equal_facts_writes_nothing(app: &TestApp) {
        let founded = app.founded().await;
        let site = worker_of(app, founded.north.0, &founded.north.1, 1).await;
        let first = register(&app.ctx, site, &registration()).await.expect("registered");
        let statements = || app.ctx.db.timings().statements("register dataset");
        let written = statements();
        assert!(written > 0);
        for _ in 0..3 {
            assert_eq!(register(&app.ctx, site, &registration()).await.expect("known"), first);
        }
        assert_eq!(statements(), written);
        let other = DatasetRegistration { records: SizeClass(1000), ..registration() };
        register(&app.ctx, site, &other).await.expect("registered");
        assert!(statements() > written, "other facts are written");
        let other = worker_of(app, founded.north.0, &founded.north.1, 2).await;
        let refused = register(&app.ctx, other, &registration()).await.expect_err("of another worker");
        assert_eq!(refused.code(), Code::WrongState);
    }

    async fn what_data_are_of_decides_what_may_be_told_of_them_and_stays(app: &TestApp) {
        let founded = app.founded().await;
        let site = worker_of(app, founded.north.0, &founded.north.1, 1).await;
        let units = vec![PrivacyUnit::Record];
        let log = DatasetRegistration {
            name: "log".to_owned(), content: DatasetContent::Queries, inputs: 0, classes: 0, speakers: SizeClass(1), units, ..registration()
        };
        assert_eq!(register(&app.ctx, site, &log).await.expect("registered").content, DatasetContent::Queries);
        assert_eq!(register(&app.ctx, site, &registration()).await.expect("registered").content, DatasetContent::Speech);
        for (wrong, field) in [
            (DatasetRegistration { classes: 201, ..log.clone() }, "classes"),
            (DatasetRegistration { inputs: 13, ..log.clone() }, "inputs"),
            (DatasetRegistration { units: undertone_api::dataset::usual_units(), ..log.clone() }, "units"),
            (DatasetRegistration { inputs: 0, ..registration() }, "inputs"),
        ] {
            let refused = register(&app.ctx, site, &wrong).await.expect_err("refused").into_problem();
            assert_eq!((refused.violations.len(), &*refused.violations[0].field), (1, field));
        }
        let public = DatasetRegistration { name: "golden".to_owned(), classes: 3, visibility: Visibility::Public, ..log.clone() };
        register(&app.ctx, site, &public).await.expect("the labels of public data are known");
        let other = DatasetRegistration { name: "calls".to_owned(), lineage: registration().lineage, ..log };
        assert_eq!(register(&app.ctx, site, &other).await.expect_err("of another kind").code(), Code::WrongState);
    }

    async fn recordings_state_their_length_and_protect_only_words(app: &TestApp) {
        let founded = app.founded().await;
        let site = worker_of(app, founded.north.0, &founded.north.1, 1).await;
        let letters = DatasetRegistration {
            name: "letters".to_owned(), content: DatasetContent::Recordings, inputs: 0, classes: 0, speakers: SizeClass(1),
            seconds: Some(SizeClass(5000)), units: vec![PrivacyUnit::Words], ..registration()
        };
        let dataset = register(&app.ctx, site, &letters).await.expect("registered");
        assert_eq!((dataset.content, dataset.seconds, dataset.units), (DatasetContent::Recordings, Some(SizeClass(5000)), vec![PrivacyUnit::Words]));
        for (wrong, field) in [
            (DatasetRegistration { seconds: None, ..letters.clone() }, "seconds"),
            (DatasetRegistration { seconds: Some(SizeClass(4711)), ..letters.clone() }, "seconds"),
            (DatasetRegistration { units: vec![PrivacyUnit::Record], ..letters.clone() }, "units"),
            (DatasetRegistration { classes: 3, ..letters.clone() }, "classes"),
            (DatasetRegistration { test_records: 5, ..letters.clone() }, "test_records"),
            (DatasetRegistration { seconds: Some(SizeClass(5000)), ..registration() }, "seconds"),
            (DatasetRegistration { units: vec![PrivacyUnit::Record, PrivacyUnit::Words], ..registration() }, "units"),
        ] {
            let refused = register(&app.ctx, site, &wrong).await.expect_err("refused").into_problem();
            assert_eq!((refused.violations.len(), &*refused.violations[0].field), (1, field));
        }
    }

    async fn table_is_registered_with_its_declared_columns(app: &TestApp) {
        let founded = app.founded().await;
        let site = worker_of(app, founded.north.0, &founded.north.1, 1).await;
        let column = |name: &str, most| TableColumn { name: name.to_owned(), kind: ColumnKind::Integer { least: 0, most } };
        let schema = |most| Some(TableSchema { unit_column: "patient".to_owned(), columns: vec![column("age", most)], encoder: None });
        let table = DatasetRegistration {
            name: "visits".to_owned(), content: DatasetContent::Table, inputs: 0, classes: 0, speakers: SizeClass(1),
            users: Some(SizeClass(200)), units: vec![PrivacyUnit::User], table: schema(120), ..registration()
        };
        let dataset = register(&app.ctx, site, &table).await.expect("registered");
        assert_eq!((dataset.content, &dataset.table), (DatasetContent::Table, &table.table));
        // A refresh may declare other ranges.
        let changed = DatasetRegistration { table: schema(99), ..table.clone() };
        let renewed = register(&app.ctx, site, &changed).await.expect("registered");
        assert_eq!((renewed.id, &renewed.table), (dataset.id, &changed.table));
        assert_eq!(get(&app.ctx, &founded.north.1.actor(app).await, dataset.id).await.expect("seen").table, changed.table);
        for (wrong, field) in [
            (DatasetRegistration { table: None, ..table.clone() }, "table"),
            (DatasetRegistration { table: schema(0), ..table.clone() }, "table.columns.0.least"),
            (DatasetRegistration { units: vec![PrivacyUnit::Record], ..table.clone() }, "units"),
            (DatasetRegistration { classes: 3, ..table.clone() }, "classes"),
            (DatasetRegistration { test_records: 5, ..table.clone() }, "test_records"),
            (DatasetRegistration { table: schema(120), ..registration() }, "table"),
        ] {
            let refused = register(&app.ctx, site, &wrong).await.expect_err("refused").into_problem();
            assert_eq!((refused.violations.len(), &*refused.violations[0].field), (1, field));
        }
    }

    async fn a_name_cannot_leave_its_lineage(app: &TestApp) {
        let founded = app.founded().await;
        let site = worker_of(app, founded.north.0, &founded.north.1, 1).await;
        register(&app.ctx, site, &registration()).await.expect("registered");
        let fresh = DatasetRegistration { lineage: LineageId(Uuid::from_u128(8)), ..registration() };
        let refused = register(&app.ctx, site, &fresh).await;
        assert_eq!(refused.expect_err("spent stays spent").code(), Code::WrongState);
    }

    async fn lineage_continues_at_another_worker(app: &TestApp) {
        let founded = app.founded().await;
        let site = worker_of(app, founded.north.0, &founded.north.1, 1).await;
        let first = register(&app.ctx, site, &registration()).await.expect("registered");
        let other = worker_of(app, founded.north.0, &founded.north.1, 2).await;
        let second = DatasetRegistration { name: "calls-2".to_owned(), ..registration() };
        let second = register(&app.ctx, other, &second).await.expect("registered");
        assert_ne!(second.id, first.id);
        let budget = undertone_api::budget::NewBudget {
            unit: PrivacyUnit::Speaker,
            epsilon: undertone_privacy::Epsilon::new(4.0).expect("finite"),
            delta: undertone_privacy::Delta::new(1e-6).expect("a probability"),
            filter: None,
        };
        let steward = founded.north.1.actor(app).await;
        crate::service::budget::set(&app.ctx, &steward, first.id, budget).await.expect("a limit");
        let accounts = get(&app.ctx, &steward, second.id).await.expect("seen").accounts;
        assert_eq!(accounts, get(&app.ctx, &steward, first.id).await.expect("seen").accounts);
        assert_eq!(accounts.len(), 1);
        // Another organization has another account for the same lineage.
        let elsewhere = worker_of(app, founded.south.0, &founded.south.1, 3).await;
        let theirs = register(&app.ctx, elsewhere, &registration()).await.expect("registered");
        assert!(theirs.accounts.is_empty());
    }

    async fn a_name_is_one_workers(app: &TestApp) {
        let founded = app.founded().await;
        let site = worker_of(app, founded.north.0, &founded.north.1, 1).await;
        register(&app.ctx, site, &registration()).await.expect("registered");
        let other = worker_of(app, founded.north.0, &founded.north.1, 2).await;
        let refused = register(&app.ctx, other, &registration()).await;
        assert_eq!(refused.expect_err("another worker's").code(), Code::WrongState);
        let elsewhere = worker_of(app, founded.south.0, &founded.south.1, 3).await;
        register(&app.ctx, elsewhere, &registration()).await.expect("names are by organization");
    }

    async fn an_exact_size_is_refused(app: &TestApp) {
        let founded = app.founded().await;
        let site = worker_of(app, founded.north.0, &founded.north.1, 1).await;
        let exact = DatasetRegistration { records: SizeClass(948), speakers: SizeClass(0), test_records: 3, ..registration() };
        let problem = register(&app.ctx, site, &exact).await.expect_err("exact").into_problem();
        let fields: Vec<&str> = problem.violations.iter().map(|violation| violation.field.as_str()).collect();
        assert_eq!(fields, ["records", "speakers", "test_records"]);
    }

    async fn users_and_the_units_kept_apart_are_told_and_shown(app: &TestApp) {
        let founded = app.founded().await;
        let site = worker_of(app, founded.north.0, &founded.north.1, 1).await;
        let usual = register(&app.ctx, site, &registration()).await.expect("registered");
        assert_eq!((usual.users, usual.units.clone()), (None, undertone_api::dataset::usual_units()));
        let users = Some(SizeClass(200));
        let with = DatasetRegistration { users, units: vec![PrivacyUnit::Speaker, PrivacyUnit::User], ..registration() };
        let dataset = register(&app.ctx, site, &with).await.expect("registered");
        assert_eq!((dataset.users, dataset.units.clone()), (users, with.units.clone()));
        assert_eq!((dataset.keeps_apart(PrivacyUnit::Record), dataset.count(PrivacyUnit::User)), (false, SizeClass(200)));
        for (users, units, field) in [
            (Some(SizeClass(190)), with.units.clone(), "users"),
            (None, with.units.clone(), "users"),
            (users, Vec::new(), "units"),
            (users, vec![PrivacyUnit::User, PrivacyUnit::Speaker], "units"),
        ] {
            let wrong = DatasetRegistration { users, units, ..registration() };
            let problem = register(&app.ctx, site, &wrong).await.expect_err("it does not hold").into_problem();
            let fields: Vec<&str> = problem.violations.iter().map(|violation| violation.field.as_str()).collect();
            assert_eq!(fields, [field]);
        }
    }

    async fn the_consortium_sees_it_and_strangers_do_not(app: &TestApp) {
        let founded = app.founded().await;
        let site = worker_of(app, founded.north.0, &founded.north.1, 1).await;
        let dataset = register(&app.ctx, site, &registration()).await.expect("registered");
        let peer = founded.south.1.actor(app).await;
        assert_eq!(list(&app.ctx, &peer, founded.consortium).await.expect("listed"), vec![dataset.clone()]);
        assert_eq!(get(&app.ctx, &peer, dataset.id).await.expect("seen"), dataset);
        let new = undertone_api::consortium::NewConsortium {
            name: "Other".to_owned(),
            description: String::new(),
            organization: None,
            organization_name: None,
        };
        let operator = founded.operator.actor(app).await;
        let other = crate::service::consortium::create(&app.ctx, &operator, &new).await.expect("founded").id;
        let (_, stranger) = app.organization(&founded.operator, other, "East").await;
        let hidden = get(&app.ctx, &stranger.actor(app).await, dataset.id).await;
        assert_eq!(hidden.expect_err("hidden").code(), Code::NotFound);
    }
}
