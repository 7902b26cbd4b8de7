//! The statistics of each aggregate, with their parts of its share.

use super::{BlockStatistic, CentredColumn, LEVELS, least_shift};
use crate::job::analytics::query::AggregateMeasure;
use crate::job::analytics::resolve::CodeBounds;
use crate::job::analytics::resolve_error::ResolveError;
use crate::table::{ColumnKind, TableColumn};

/// A statistic before its weight is chosen.
#[derive(Debug)]
pub(in crate::job::analytics) struct PlannedStatistic {
    /// The positions of its columns.
    pub(in crate::job::analytics) columns: Vec<usize>,
    pub(in crate::job::analytics) statistic: BlockStatistic,
    /// Its part of the aggregate's share, in sixths.
    pub(in crate::job::analytics) part: u128,
}

impl PlannedStatistic {
    const fn new(columns: Vec<usize>, statistic: BlockStatistic, part: u128) -> Self {
        Self { columns, statistic, part }
    }
}

/// Returns the statistics of an aggregate.
///
/// The parts balance the errors of a mean half-way between centre and end: the error of the sum counts twice that of the
/// number of rows, so that it has twice the share; the squares of a variance and the products of a covariance matrix
/// have half of it.
pub(in crate::job::analytics) fn plan_statistics(
    measure: &AggregateMeasure,
    columns: &[TableColumn],
) -> Result<Vec<PlannedStatistic>, ResolveError> {
    let number = |column: &str, use_of| find_number(columns, column, use_of);
    let plan = PlannedStatistic::new;
    Ok(match measure {
        AggregateMeasure::Count { column } => {
            let column = column.as_ref().map(|column| ResolveError::find(columns, column).map(|(place, _)| place));
            vec![plan(column.transpose()?.into_iter().collect(), BlockStatistic::Rows, 6)]
        }
        AggregateMeasure::CountUnits => vec![plan(Vec::new(), BlockStatistic::Units, 6)],
        AggregateMeasure::Sum { column } => {
            let (place, kind) = number(column, "a sum")?;
            let (least, most) = kind.code_range();
            let span = least.unsigned_abs().max(most.unsigned_abs());
            vec![plan(vec![place], BlockStatistic::sum(0, span, least_shift(u128::from(span))), 6)]
        }
        AggregateMeasure::Mean { column } => {
            let (place, kind) = number(column, "a mean")?;
            vec![plan(vec![place], BlockStatistic::Rows, 2), plan(vec![place], centred_sum(kind), 4)]
        }
        AggregateMeasure::Variance { column } => {
            let (place, kind) = number(column, "a variance")?;
            let CentredColumn { centre, span } = CentredColumn::new(kind);
            let squares = BlockStatistic::squares(centre, span, least_shift(u128::from(span).pow(2)));
            vec![
                plan(vec![place], BlockStatistic::Rows, 1),
                plan(vec![place], centred_sum(kind), 2),
                plan(vec![place], squares, 3),
            ]
        }
        AggregateMeasure::Histogram { column, edges } => {
            let bins = if edges.is_empty() {
                CodeBounds::from_values(column, columns, "a histogram without edges")?
            } else {
                CodeBounds::from_edges(column, edges, columns, "a histogram with edges")?
            };
            vec![plan(vec![bins.column], BlockStatistic::Bins(bins), 6)]
        }
        AggregateMeasure::Quantiles { column, levels, .. } => {
            let (place, kind) = ResolveError::find(columns, column)?;
            if matches!(kind, ColumnKind::Boolean | ColumnKind::Category { .. } | ColumnKind::Key { .. }) {
                let (use_of, needed) = ("quantiles", "integers, reals or dates");
                return Err(ResolveError::Kind { column: column.clone(), kind: kind.label(), use_of, needed });
            }
            vec![plan(vec![place], plan_tree(kind, *levels), 6)]
        }
        AggregateMeasure::Survival { time, event, edges } => {
            let bounds = CodeBounds::from_edges(time, edges, columns, "the time of a survival curve")?;
            let (place, kind) = ResolveError::find(columns, event)?;
            if !matches!(kind, ColumnKind::Boolean) {
                let (use_of, needed) = ("the event of a survival curve", "booleans");
                return Err(ResolveError::Kind { column: event.clone(), kind: kind.label(), use_of, needed });
            }
            vec![plan(vec![bounds.column, place], BlockStatistic::LifeTable(bounds), 6)]
        }
        AggregateMeasure::Covariance { .. } => plan_products(measure, columns, "a covariance")?,
        AggregateMeasure::LinearRegression { .. } => plan_products(measure, columns, "a linear regression")?,
    })
}

/// Returns the number of rows, the sum of each column of an aggregate, and the sum of the product of each pair.
fn plan_products(
    measure: &AggregateMeasure,
    columns: &[TableColumn],
    use_of: &'static str,
) -> Result<Vec<PlannedStatistic>, ResolveError> {
    let names = measure.columns();
    let found: Vec<_> = names.iter().map(|name| find_number(columns, name, use_of)).collect::<Result<_, _>>()?;
    let places: Vec<usize> = found.iter().map(|(place, _)| *place).collect();
    let centred: Vec<CentredColumn> = found.iter().map(|(_, kind)| CentredColumn::new(kind)).collect();
    let plan = PlannedStatistic::new;
    Ok(vec![
        plan(places.clone(), BlockStatistic::Rows, 1),
        plan(places.clone(), BlockStatistic::sums(centred.clone()), 2),
        plan(places, BlockStatistic::products(centred), 3),
    ])
}

fn find_number<'a>(
    columns: &'a [TableColumn],
    column: &str,
    use_of: &'static str,
) -> Result<(usize, &'a ColumnKind), ResolveError> {
    let (place, kind) = ResolveError::find(columns, column)?;
    if kind.is_number() {
        return Ok((place, kind));
    }
    let needed = "booleans, integers or reals";
    Err(ResolveError::Kind { column: column.to_owned(), kind: kind.label(), use_of, needed })
}

fn centred_sum(kind: &ColumnKind) -> BlockStatistic {
    let CentredColumn { centre, span } = CentredColumn::new(kind);
    BlockStatistic::sum(centre, span, least_shift(u128::from(span)))
}

/// Returns a tree over the range, with fewer levels where the range has fewer codes.
fn plan_tree(kind: &ColumnKind, levels: u32) -> BlockStatistic {
    let (least, most) = kind.code_range();
    let codes = most.abs_diff(least).saturating_add(1);
    let enough = codes.next_power_of_two().trailing_zeros().max(1);
    let levels = levels.clamp(1, LEVELS.1).min(enough);
    BlockStatistic::Tree { least, leaf: codes.div_ceil(1 << levels), levels }
}
