#!/usr/bin/env bash
# Makes a Python with the peers that a measurement compares us with, and prints its path: `accounting` is Google's dp_accounting, for
# `make bench NAME=accounting`; `training` is PyTorch, Opacus and scikit-learn, for `make bench NAME=dp_step` and
# `make bench NAME=tabular`; `counting` is DuckDB and Apache
# DataSketches, for `make bench NAME=counting`; `analytics` is OpenDP, DataFusion and DuckDB, for `make bench NAME=analytics`; `rounds` is
# Flower, for `make bench NAME=rounds`. Their scripts are in benches/peers. Does nothing but print the second time. Nothing of the product
# uses it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. .ci/common.sh

peer=${1:-accounting}
case "$peer" in
  accounting) name=dp-accounting-0.6.0 ;;
  training) name=torch-2.15.0-opacus-1.6.0-sklearn-1.9.1 ;;
  analytics) name=opendp-0.16.0-datafusion-55.0.0-duckdb-2.0.0 ;;
  counting) name=duckdb-2.0.0-datasketches-5.2.0 ;;
  rounds) name=flwr-1.41.0 ;;
  *) fail "peers are accounting, analytics, counting, rounds and training, not ${1}" ;;
esac
root=$(pinned_root "$name" "$peer.txt")

if [ ! -x "$root/bin/python" ]; then
  command -v python3 >/dev/null || fail "the peer of this measurement needs python3 with venv"
  say "fetching $name, once"
  rm -rf "$root.part"
  pinned_python "$root.part" "$peer.txt" || fail "pip could not bring $name"
  # A virtual environment may be moved as long as only its interpreter is called.
  mv "$root.part" "$root"
fi
echo "$root/bin/python"
