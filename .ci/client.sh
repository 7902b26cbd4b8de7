#!/usr/bin/env bash
# Makes a Python that generates a client from the description of REST, and one that sends the server whatever the description
# allows; prints its path. Does nothing but print the second time.
#   .ci/client.sh                                    the path of the interpreter
#   .ci/client.sh fuzz URL KEY [OPTION...]           schemathesis against a running server, as long as its options say
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. .ci/common.sh

GENERATOR=0.29.1
FUZZER=4.32.5
root=$(pinned_root "client-$GENERATOR-$FUZZER" client.txt)

if [ ! -x "$root/bin/python" ]; then
  command -v python3 >/dev/null || fail "a generated client needs python3 with venv"
  say "fetching openapi-python-client $GENERATOR and schemathesis $FUZZER, once"
  rm -rf "$root.part"
  pinned_python "$root.part" client.txt ||
    fail "pip could not bring openapi-python-client and schemathesis"
  # A virtual environment may be moved as long as only its interpreter is called.
  mv "$root.part" "$root"
fi

if [ "${1:-}" = fuzz ]; then
  [ $# -ge 3 ] || fail "usage: .ci/client.sh fuzz URL KEY [OPTION...]"
  url=$2 key=$3
  shift 3
  # Streams of events do not end by themselves.
  exec "$root/bin/python" -m schemathesis.cli run "$url/api/v1/openapi.json" --url "$url/api/v1" \
    --header "Authorization: Bearer $key" --exclude-path-regex 'events$' \
    --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,response_headers_conformance \
    "$@"
fi
echo "$root/bin/python"
