#!/usr/bin/env bash
# Runs a command beside a private PostgreSQL: `.ci/with-postgres.sh cargo test -p undertone-server`. The server has its
# own data directory and a free port on loopback, and is gone when the command ends. The command finds a superuser's URL
# in UNDERTONE_TEST_DATABASE_URL; a test makes, and drops, a database of its own.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[ $# -gt 0 ] || fail "usage: with-postgres.sh COMMAND..."

initdb=$(compgen -G '/usr/lib/postgresql/*/bin/initdb' | sort --version-sort | tail -1) || true
[ -n "$initdb" ] || fail "PostgreSQL is not installed: run .ci/setup.sh"
bin=$(dirname "$initdb")

home=$(mktemp -d "${TMPDIR:-/tmp}/undertone-pg.XXXXXX")
# PostgreSQL refuses to run as root.
as_owner=()
if [ "$(id -u)" = 0 ]; then
  chown postgres "$home"
  as_owner=(runuser -u postgres --)
fi

stop() {
  "${as_owner[@]}" "$bin/pg_ctl" -D "$home/data" -m immediate -w stop >/dev/null 2>&1 || true
  rm -rf "$home"
}
trap stop EXIT
trap 'exit 130' INT TERM HUP

cd "$home"
password=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
"${as_owner[@]}" sh -c 'umask 077; printf "%s\n" "$1" > password' sh "$password"
"${as_owner[@]}" "$bin/initdb" -D "$home/data" -U undertone --pwfile=password --auth=scram-sha-256 \
  --encoding=UTF8 --locale=C.UTF-8 --no-sync >initdb.log 2>&1 || { cat initdb.log >&2; fail "initdb failed"; }

options="-c listen_addresses=127.0.0.1 -c unix_socket_directories=$home -c max_connections=300"
# Nothing here outlives the run, so nothing needs to survive a power cut; a measurement may want it to all the same.
if [ -z "${UNDERTONE_POSTGRES_DURABLE:-}" ]; then
  options+=" -c fsync=off -c synchronous_commit=off -c full_page_writes=off"
fi
for attempt in 1 2 3 4 5 6 7 8 9 10; do
  port=$((20000 + (RANDOM * 32768 + RANDOM) % 12000))
  if "${as_owner[@]}" "$bin/pg_ctl" -D "$home/data" -l "$home/server.log" -w -t 60 -o "$options -p $port" start >/dev/null 2>&1; then
    break
  fi
  # Another program may hold the port: anything else will fail again and be shown.
  [ "$attempt" != 10 ] || { tail -20 "$home/server.log" >&2; fail "PostgreSQL did not start"; }
done
cd "$OLDPWD"

export UNDERTONE_TEST_DATABASE_URL="postgres://undertone:$password@127.0.0.1:$port/postgres"
say "PostgreSQL $("$bin/postgres" --version | grep -oE '[0-9]+\.[0-9]+' | head -1) on port $port"
"$@"
