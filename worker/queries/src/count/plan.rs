//! The two plans, as DataFusion's logical plans: the same for every engine.

use std::io;
use std::path::Path;

use datafusion::dataframe::DataFrame;
use datafusion::error::DataFusionError;
use datafusion::functions_aggregate::expr_fn::{min, sum};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::ExprFunctionExt;
use datafusion::prelude::{ParquetReadOptions, SessionContext, col, lit};

use super::{CountError, cannot};

/// Plans `SELECT text, SUM(n) AS n FROM candidates GROUP BY text HAVING SUM(n) >= k`.
///
/// # Errors
/// When the file is not one of candidates.
pub(super) async fn count(context: &SessionContext, candidates: &Path, k: u64) -> Result<DataFrame, CountError> {
    let sums = open(context, candidates).await?.aggregate(vec![col("text")], vec![sum(col("n")).alias("n")])?;
    Ok(sums.filter(col("n").gt_eq(lit(k)))?)
}

/// Plans one row for each user and text, at most `per_user` of each user:
///
/// ```sql
/// SELECT text FROM (
///   SELECT text, ROW_NUMBER() OVER (PARTITION BY user ORDER BY place, text) AS rank
///   FROM (SELECT user, text, MIN(place) AS place FROM rows GROUP BY user, text))
/// WHERE rank <= per_user
/// ```
///
/// # Errors
/// When the file is not one of users' rows.
pub(super) async fn distinct_users(
    context: &SessionContext,
    rows: &Path,
    per_user: u32,
) -> Result<DataFrame, CountError> {
    let user = || vec![col("user_high"), col("user_low")];
    // A text has the same place in all rows of a user, so the least of them is that place.
    let distinct = open(context, rows)
        .await?
        .aggregate([user(), vec![col("text")]].concat(), vec![min(col("place")).alias("place")])?;
    let rank = row_number()
        .partition_by(user())
        .order_by(vec![col("place").sort(true, false), col("text").sort(true, false)])
        .build()?
        .alias("rank");
    Ok(distinct.window(vec![rank])?.filter(col("rank").lt_eq(lit(u64::from(per_user))))?.select(vec![col("text")])?)
}

/// Opens the rows of a file; by URL, so that no character of its path is read as a pattern.
async fn open(context: &SessionContext, path: &Path) -> Result<DataFrame, CountError> {
    // The path is made absolute without resolving links: executors of a cluster resolve their own.
    let path = std::path::absolute(path).map_err(cannot("find", path))?;
    let url =
        url::Url::from_file_path(&path).map_err(|()| cannot("find", &path)(io::ErrorKind::InvalidFilename.into()))?;
    let frame: Result<_, DataFusionError> = context.read_parquet(url.as_str(), ParquetReadOptions::default()).await;
    Ok(frame?)
}
