//! Text tables with columns as wide as their widest cells.

/// Returns a table with a header; the last column is not padded.
pub(super) fn format_table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = head.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<_> = cells.zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        padded.join("  ").trim_end().to_owned() + "\n"
    };
    let mut text = line(&mut head.iter().copied());
    for row in rows {
        text += &line(&mut row.iter().map(String::as_str));
    }
    text
}

/// Formats a loss, rounded up in its last digit: the displayed expense is never below the true one.
pub(super) fn round_up(value: f64) -> String {
    if value.is_finite() { format!("{:.4}", (value * 1e4).ceil() / 1e4) } else { "infinite".to_owned() }
}

/// Formats a remainder, rounded down in its last digit.
pub(super) fn round_down(value: f64) -> String {
    format!("{:.4}", (value * 1e4).floor() / 1e4)
}

#[cfg(test)]
mod tests {
    use super::{format_table, round_down, round_up};

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let text = format_table(&["A", "LONG"], &[vec!["wide".to_owned(), "x".to_owned()]]);
        assert_eq!(text, "A     LONG\nwide  x\n");
    }

    #[test]
    fn expenses_round_up_and_remainders_round_down() {
        assert_eq!((round_up(1.000_01), round_down(1.000_09)), ("1.0001".to_owned(), "1.0000".to_owned()));
        assert_eq!(round_up(f64::INFINITY), "infinite");
    }
}
