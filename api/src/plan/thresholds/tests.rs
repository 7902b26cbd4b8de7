//! The table equals that of the specification, entry by entry.
#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use super::{DELTAS, EPSILONS, ThresholdRequest, ThresholdsError, csv};

/// Section 6.5 of the specification of the mathematics: a line for each δ, a column for each ε; `rate:published/exact`.
const SPECIFIED: &str = "\
1e-02 | 0.01:2/1 0.05:4/2 0.1:7/3 0.2:14/5 | 0.01:2/1 0.05:3/2 0.1:4/3 0.2:7/4 0.3:12/6 | 0.01:1/1 0.05:2/2 0.1:3/3 0.2:6/4 0.3:8/5 0.4:10/7 0.5:15/9 | 0.01:1/1 0.05:2/2 0.1:3/3 0.2:4/3 0.3:7/4 0.4:9/6 0.5:12/8 0.6:19/11 \n\
1e-03 | 0.01:3/2 0.05:6/3 0.1:11/5 0.2:24/11 | 0.01:2/2 0.05:4/3 0.1:6/4 0.2:11/7 0.3:19/11 | 0.01:2/2 0.05:4/3 0.1:5/4 0.2:8/6 0.3:12/8 0.4:19/12 0.5:27/17 | 0.01:2/2 0.05:3/3 0.1:4/4 0.2:7/5 0.3:10/7 0.4:13/10 0.5:20/14 0.6:30/20 \n\
1e-04 | 0.01:4/3 0.05:8/5 0.1:15/9 0.2:32/18 | 0.01:3/3 0.05:6/4 0.1:9/6 0.2:16/10 0.3:26/17 | 0.01:3/2 0.05:5/4 0.1:7/5 0.2:11/8 0.3:17/12 0.4:25/18 0.5:38/26 | 0.01:3/2 0.05:4/4 0.1:6/5 0.2:9/7 0.3:14/10 0.4:20/15 0.5:28/21 0.6:42/30 \n\
1e-05 | 0.01:5/4 0.05:11/7 0.1:19/12 0.2:43/26 | 0.01:4/3 0.05:7/5 0.1:11/8 0.2:20/14 0.3:34/23 | 0.01:3/3 0.05:6/5 0.1:8/7 0.2:15/11 0.3:22/17 0.4:34/24 0.5:50/36 | 0.01:3/3 0.05:5/5 0.1:7/6 0.2:12/10 0.3:17/14 0.4:26/19 0.5:37/28 0.6:54/40 \n\
1e-06 | 0.01:6/4 0.05:13/9 0.1:23/16 0.2:52/35 | 0.01:5/4 0.05:9/7 0.1:13/10 0.2:25/18 0.3:42/30 | 0.01:4/4 0.05:7/6 0.1:10/8 0.2:18/14 0.3:28/21 0.4:42/31 0.5:60/46 | 0.01:4/4 0.05:7/6 0.1:9/8 0.2:14/12 0.3:22/17 0.4:31/25 0.5:46/35 0.6:66/51 \n\
1e-08 | 0.01:8/6 0.05:18/13 0.1:32/24 0.2:73/53 | 0.01:6/5 0.05:12/10 0.1:18/15 0.2:35/27 0.3:58/44 | 0.01:6/5 0.05:10/8 0.1:14/12 0.2:24/20 0.3:38/31 0.4:57/46 0.5:83/67 | 0.01:5/5 0.05:9/8 0.1:12/10 0.2:19/17 0.3:30/24 0.4:42/35 0.5:61/50 0.6:90/74 \n\
1e-10 | 0.01:10/8 0.05:23/18 0.1:41/32 0.2:93/72 | 0.01:8/7 0.05:15/12 0.1:23/19 0.2:44/36 0.3:73/59 | 0.01:7/6 0.05:12/11 0.1:18/15 0.2:31/26 0.3:48/40 0.4:72/60 0.5:108/89 | 0.01:6/6 0.05:11/10 0.1:15/13 0.2:25/22 0.3:37/32 0.4:55/46 0.5:78/67 0.6:117/98";

#[test]
fn the_usual_table_is_the_specified_one() {
    let lines = ThresholdRequest::default().lines().unwrap();
    assert_eq!(lines.len(), EPSILONS.len() * DELTAS.len());
    let mut compared = 0;
    for (row, delta) in SPECIFIED.lines().zip(DELTAS) {
        let mut cells = row.split('|').map(str::trim);
        assert_eq!(cells.next().unwrap().parse::<f64>().unwrap().to_bits(), delta.to_bits());
        for (cell, epsilon) in cells.zip(EPSILONS) {
            let is = |of: f64, at: f64| of.to_bits() == at.to_bits();
            let line = lines.iter().find(|line| is(line.epsilon, epsilon) && is(line.delta, delta)).unwrap();
            let ours =
                line.feasible.iter().map(|one| format!("{}:{}/{}", one.rate, one.threshold, one.threshold_tight));
            assert_eq!(ours.collect::<Vec<_>>().join(" "), cell, "at epsilon {epsilon}, delta {delta}");
            compared += line.feasible.len();
        }
    }
    // 4, 5, 7 and 8 rates are possible at the four epsilons.
    assert_eq!(compared, 7 * (4 + 5 + 7 + 8));
}

#[test]
fn the_file_has_a_line_for_every_pair() {
    let lines = ThresholdRequest::parse("0.5", "1e-6, 1e-8", "0.1 0.2,0.9").unwrap().lines().unwrap();
    let text = csv(&lines);
    assert_eq!(text.lines().count(), 1 + 2 * 2, "0.9 is too much for epsilon 0.5: {text}");
    assert_eq!(text.lines().nth(1).unwrap(), "0.5,1e-6,0.1,13,10");
    assert!(lines[0].find_rate(0.1).is_some() && lines[0].find_rate(0.9).is_none());
}

#[test]
fn numbers_out_of_the_table_s_range_are_named() {
    assert_eq!(ThresholdRequest::parse("", " ", "").unwrap(), ThresholdRequest::default());
    assert_eq!(ThresholdRequest::parse("one", "", ""), Err(ThresholdsError::NotANumber("one".to_owned())));
    let out = |epsilons: &str, deltas: &str, rates: &str| {
        ThresholdRequest::parse(epsilons, deltas, rates).unwrap_err().to_string()
    };
    assert_eq!(out("0", "", ""), "epsilons are above 0 and at most 10, not 0");
    assert_eq!(out("", "1", ""), "deltas are at least 1e-15 and below 1, not 1");
    assert_eq!(out("", "", "1"), "rates are above 0 and at most 0.99, not 1");
    assert_eq!(out("", "nan", ""), "deltas are at least 1e-15 and below 1, not NaN");
    assert_eq!(out("1 2 3 4 5 6 7 8 9 1 2 3 4", "", ""), "name 1 to 12 epsilons, not 13");
}
