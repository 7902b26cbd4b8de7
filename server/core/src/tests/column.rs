//! Reads of rows that were changed outside the server.

use sea_orm::EntityTrait as _;

use crate::model::dataset;
use crate::service::world::TestConsortium;
use crate::testing::{on_both, tamper};

on_both! {
    async fn wrong_text_is_an_error_with_table_and_column(app: &TestApp) {
        TestConsortium::new(&app.ctx, 1, 8.0).await;
        tamper(&app.ctx, "dataset", "UPDATE dataset SET visibility = 'secret'").await;
        let error = dataset::Entity::find().all(app.ctx.db.read()).await.expect_err("the text is none of the words").to_string();
        assert!(error.contains("dataset.visibility") && error.contains("secret"), "{error}");
    }
}
