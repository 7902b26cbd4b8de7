//! The servers' writing transactions by name, with their times, from `/metrics`. On SQLite they run one at a time, so
//! the shares of the time add up to at most one for a server. On PostgreSQL they add up to at most one for all servers,
//! except for transactions that run concurrently with the one writer.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use support::stage::TestResult;

/// The transactions of all servers until a moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct WriterTurns(BTreeMap<String, TransactionTotals>);

/// All transactions of one name together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct TransactionTotals {
    count: f64,
    statements: f64,
    /// Seconds before their turns.
    waited: f64,
    /// Seconds of their turns.
    held: f64,
}

impl WriterTurns {
    /// Reads the counts of the servers at these ports.
    ///
    /// # Errors
    /// When a server does not answer.
    pub(super) async fn now(ports: &[u16]) -> TestResult<Self> {
        let mut all = Self::default();
        for port in ports {
            let answer = reqwest::get(format!("http://127.0.0.1:{port}/metrics")).await?.error_for_status()?;
            all.add(&answer.text().await?);
        }
        Ok(all)
    }

    fn add(&mut self, text: &str) {
        for line in text.lines() {
            let Some((metric, value)) =
                line.strip_prefix("undertone_transaction_").and_then(|rest| rest.rsplit_once(' '))
            else {
                continue;
            };
            let Some((metric, labels)) = metric.split_once('{') else { continue };
            let name = labels.split_once("name=\"").and_then(|(_, rest)| rest.split_once('"'));
            let (Some((name, _)), Ok(value)) = (name, value.parse::<f64>()) else { continue };
            let turn = self.0.entry(name.to_owned()).or_default();
            match metric {
                "wait_seconds_count" => turn.count += value,
                "wait_seconds_sum" => turn.waited += value,
                "duration_seconds_sum" => turn.held += value,
                "statements_total" => turn.statements += value,
                _ => {}
            }
        }
    }

    /// Returns the transactions since an earlier moment.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let since = |(name, now): (&String, &TransactionTotals)| {
            let then = earlier.0.get(name).copied().unwrap_or_default();
            let turn = TransactionTotals {
                count: now.count - then.count,
                statements: now.statements - then.statements,
                waited: now.waited - then.waited,
                held: now.held - then.held,
            };
            (name.clone(), turn)
        };
        Self(self.0.iter().map(since).filter(|(_, turn)| turn.count > 0.0).collect())
    }

    /// Returns the transactions by name, in descending order of their time, as shares of `within` seconds.
    pub(super) fn figures(&self, within: f64) -> Value {
        let mut turns: Vec<_> = self.0.iter().collect();
        turns.sort_by(|(_, one), (_, other)| other.held.total_cmp(&one.held));
        let figures = |(name, turn): (&String, &TransactionTotals)| {
            json!({
                "name": name, "count": turn.count, "per_second": turn.count / within, "share_of_time": turn.held / within,
                "statements": turn.statements / turn.count, "waited_milliseconds": 1000.0 * turn.waited / turn.count,
                "held_milliseconds": 1000.0 * turn.held / turn.count,
            })
        };
        Value::Array(turns.into_iter().map(figures).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::WriterTurns;

    const BEFORE: &str = "# TYPE undertone_transaction_wait_seconds histogram\n\
        undertone_transaction_wait_seconds_sum{name=\"renew lease\"} 0.5\n\
        undertone_transaction_wait_seconds_count{name=\"renew lease\"} 1\n";
    const AFTER: &str = "undertone_transaction_wait_seconds_sum{name=\"renew lease\"} 0.75\n\
        undertone_transaction_wait_seconds_count{name=\"renew lease\"} 3\n\
        undertone_transaction_wait_seconds_bucket{le=\"1.0\",name=\"renew lease\"} 3\n\
        undertone_transaction_duration_seconds_sum{name=\"renew lease\",outcome=\"committed\"} 0.25\n\
        undertone_transaction_duration_seconds_sum{name=\"renew lease\",outcome=\"rolled back\"} 0.25\n\
        undertone_transaction_statements_total{name=\"renew lease\"} 4\n\
        undertone_transaction_wait_seconds_count{name=\"close round\"} 1\n\
        undertone_transaction_duration_seconds_sum{name=\"close round\",outcome=\"committed\"} 1.5\n\
        undertone_rounds_open 7\n# EOF\n";

    #[test]
    fn transaction_totals_since_start_are_sorted_by_time() {
        let (mut before, mut after) = (WriterTurns::default(), WriterTurns::default());
        before.add(BEFORE);
        after.add(AFTER);
        let figures = after.since(&before).figures(2.0);
        assert_eq!(
            (&figures[0]["name"], &figures[1]["name"], figures.get(2)),
            (&"close round".into(), &"renew lease".into(), None)
        );
        let renewals = &figures[1];
        let of = |what: &str| renewals[what].as_f64();
        assert_eq!((of("count"), of("statements"), of("share_of_time")), (Some(2.0), Some(2.0), Some(0.25)));
        assert_eq!((of("waited_milliseconds"), of("held_milliseconds")), (Some(125.0), Some(250.0)));
        assert_eq!(after.since(&after), WriterTurns::default());
    }
}
