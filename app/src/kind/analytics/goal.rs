//! Errors and shares in a plan, one line for an aggregate: `mean(age) ± 0.5`, or `query 2: count(*) share 2`.
//!
//! An error is half the width of the 95 % interval over the sites together, in the units of the expected errors. A share
//! is the aggregate's part of the noise budget relative to the others.

use undertone_api::job::analytics::{TableAggregate, TableQuery, TargetError};

/// The most lines.
const MOST_LINES: usize = 2_048;
/// The words before an error.
const ERROR_WORDS: [&str; 3] = ["±", "+/-", "+-"];

/// What a line asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Goal {
    Error(f64),
    Share(f64),
}

/// Reads the lines, sets the shares, and returns the errors that they ask for. Each line is for the first aggregate of
/// its name that has none yet.
///
/// # Errors
/// A text that names the first line that cannot be read or has no aggregate.
pub(super) fn read_goals(text: &str, queries: &mut [TableQuery]) -> Result<Vec<TargetError>, String> {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.len() > MOST_LINES {
        return Err(format!("at most {MOST_LINES} lines of errors and shares"));
    }
    let mut named = std::collections::HashSet::new();
    let mut targets = Vec::new();
    for line in lines {
        let (name, goal) = parse_line(line).ok_or_else(|| {
            format!("`{line}`: write `mean(age) ± 0.5` or `mean(age) share 2`, with a number above 0")
        })?;
        let found = list_names(queries).find(|(place, own)| !named.contains(place) && own.contains(&name));
        let Some((place, _)) = found else {
            let all: Vec<String> = list_names(queries).map(|(_, [_, whole])| whole).take(12).collect();
            return Err(format!("`{line}`: no such aggregate without a line; there are {}", all.join(", ")));
        };
        let (query, aggregate) = place;
        named.insert(place);
        match goal {
            Goal::Error(error) => targets.push(TargetError { query, aggregate, error }),
            Goal::Share(share) => queries[query].aggregates[aggregate].share = share,
        }
    }
    Ok(targets)
}

/// Writes the shares of queries as lines; equal shares need none.
pub(super) fn write_shares(queries: &[TableQuery]) -> String {
    let is_usual = |one: &TableAggregate| (one.share - 1.0).abs() < f64::EPSILON;
    let all = || queries.iter().enumerate().flat_map(|(query, own)| own.aggregates.iter().map(move |one| (query, one)));
    if all().all(|(_, one)| is_usual(one)) {
        return String::new();
    }
    let line = |(query, one): (usize, &TableAggregate)| {
        format!("query {}: {} share {}", query + 1, one.measure.label(), one.share)
    };
    all().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns the lines with each error multiplied by a factor.
pub(super) fn scale_errors(text: &str, factor: f64) -> String {
    let scale = |line: &str| {
        let split = ERROR_WORDS.iter().find_map(|word| line.split_once(word));
        match split.and_then(|(name, error)| Some((name, error.trim().parse::<f64>().ok()?))) {
            Some((name, error)) => format!("{}± {}\n", name, error * factor),
            None => format!("{line}\n"),
        }
    };
    text.lines().map(scale).collect()
}

/// Returns the position of each aggregate with its names: alone, and after its query.
fn list_names(queries: &[TableQuery]) -> impl Iterator<Item = ((usize, usize), [String; 2])> {
    queries.iter().enumerate().flat_map(|(query, own)| {
        own.aggregates.iter().enumerate().map(move |(aggregate, one)| {
            let label = fold(&one.measure.label());
            ((query, aggregate), [label.clone(), format!("query{}:{label}", query + 1)])
        })
    })
}

fn parse_line(line: &str) -> Option<(String, Goal)> {
    let above_zero = |text: &str| text.trim().parse().ok().filter(|value: &f64| value.is_finite() && *value > 0.0);
    if let Some((name, error)) = ERROR_WORDS.iter().find_map(|word| line.split_once(word)) {
        return Some((fold(name), Goal::Error(above_zero(error)?)));
    }
    let (name, share) = line.rsplit_once(" share ")?;
    Some((fold(name), Goal::Share(above_zero(share)?)))
}

/// Returns a name without spaces, with the label's word for an average.
fn fold(name: &str) -> String {
    let name: String = name.chars().filter(|one| !one.is_whitespace()).collect();
    name.replace("avg(", "mean(")
}
