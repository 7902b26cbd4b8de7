use super::{Operation, Standing};

/// The whole policy, as a table that a person can read.
#[test]
fn the_matrix_is_what_was_agreed() {
    let mut table = format!("{:<18}", "");
    for standing in Standing::ALL {
        table.push_str(&format!(" {:<18}", format!("{standing:?}")));
    }
    for operation in Operation::ALL {
        table.push_str(&format!("\n{:<18}", format!("{operation:?}")));
        for standing in Standing::ALL {
            table.push_str(&format!(" {:<18}", if operation.allowed().contains(standing) { "yes" } else { "-" }));
        }
    }
    let table: Vec<&str> = table.lines().map(str::trim_end).collect();
    insta::assert_snapshot!(table.join("\n"));
}
