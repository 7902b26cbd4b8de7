# Prints the failed tests of `cargo test`'s output, each with the first line of its panic or error, and the targets that failed:
# `awk -f .ci/failures.awk LOG...`. Of pytest's output, its own lines of failed tests. At most 100 tests and 240 characters of a message.

function report() {
  if (name == "") return
  count++
  if (count <= 100) printf "FAILED %s: %s\n", name, (message == "" ? "no message" : substr(message, 1, 240))
  name = message = ""
}

# "---- module::test stdout ----" begins a failed test's output; "failures:" begins the list of names below all of them.
/^---- .+ stdout ----$/ { report(); name = $0; sub(/^---- /, "", name); sub(/ stdout ----$/, "", name); awaits = 0; next }
/^failures:$/ { report(); next }
/^test result:/ { report(); next }
# "FAILED tests/test_x.py::test_y - message" of pytest.
/^(FAILED|ERROR) [^ ]+\.py(::| )/ { report(); count++; if (count <= 100) print substr($0, 1, 320); next }
# "undertone/client.py:70: error: message" of mypy.
/^[^ ]+\.py:[0-9]+: error: / { report(); count++; if (count <= 100) print "FAILED mypy: " substr($0, 1, 320); next }
# "thread 'test' (12) panicked at file.rs:1:2:" stands above the message.
name != "" && message == "" && awaits { message = $0; awaits = 0; next }
name != "" && message == "" && /panicked at / { awaits = 1; next }
name != "" && message == "" && /^(Error: |error(\[|:)|Couldn't compile)/ { message = $0; next }
# "error: 2 targets failed:" stands above "    `-p package --lib`".
/^error: [0-9]+ targets? failed:$/ { report(); targets = 1; next }
targets && /^    `/ { printf "FAILED target%s\n", substr($0, 4); next }
{ targets = 0 }

END {
  report()
  if (count > 100) printf "and %d more failed tests\n", count - 100
}
