#!/bin/sh
# Measures zonewise side by side with a webhook that only reads the body (body_only.rs) and with the one that a Go
# engineer would write (peers/): over TLS, with the review of an update of 100 endpoints; and the planner beside
# Kubernetes' own. Writes its tables to target/bench/results.md too.
#
# The servers are measured in turn, round after round, so that whatever else the machine does hits all of them alike.
# Settings, as environment variables: ROUNDS (3), DURATION and WARM_UP of each load in seconds (10 and 2), PORT (18443:
# the first of four ports on loopback).
set -eu

rounds=${ROUNDS:-3} duration=${DURATION:-10} warm_up=${WARM_UP:-2} port=${PORT:-18443}
endpoints=100 connections=8 threads=2
servers='zonewise body_only peer'
pids=

cd "$(dirname "$0")/.."
mkdir -p "${CARGO_TARGET_DIR:-target}/bench"
target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)
bench=$target/bench
peers=$bench/peers

say() {
  printf '%s\n' "$*" >&2
}

fail() {
  say "bench: $*"
  exit 1
}

stop_servers() {
  for pid in $pids; do kill "$pid" 2>/dev/null || true; done
  wait
}
trap stop_servers EXIT
trap 'exit 130' INT TERM

need() {
  command -v "$1" >/dev/null || fail "$1 is missing: $2"
}

# --- What is measured ------------------------------------------------------------------------------------------------

build() {
  say 'Building the peer …'
  go build -C benches/peers -o "$peers" .
  say 'Building the benchmarks …'
  cargo bench --quiet --no-run --bench planner
  # Cargo alone knows the file's full name.
  body_only=$(cargo bench --quiet --no-run --bench body_only --message-format json |
    sed -n 's/.*"executable":"\([^"]*body_only[^"]*\)".*/\1/p')
  # The last, since the benchmarks build it too, with features of their dependencies that it is not shipped with.
  say 'Building zonewise …'
  cargo build --quiet --release
}

prepare() {
  "$target/release/zonewise" certs generate --dir "$bench/certs" --dns localhost 127.0.0.1 >/dev/null
  "$peers" review --endpoints "$endpoints" --out "$bench/review.json" >&2
}

port_of() {
  case $1 in
    zonewise) echo "$port" ;;
    body_only) echo $((port + 1)) ;;
    peer) echo $((port + 2)) ;;
  esac
}

url_of() {
  echo "https://127.0.0.1:$(port_of "$1")/mutate?timeout=1s"
}

serve() {
  certificate=$bench/certs/tls.crt key=$bench/certs/tls.key cluster=benches/peers/cluster.yaml
  address=127.0.0.1:$(port_of "$1")
  case $1 in
    zonewise)
      exec "$target/release/zonewise" serve --webhook-bind-address "$address" --shutdown-delay-duration 0s \
        --metrics-bind-address "127.0.0.1:$((port + 3))" --from-files "$cluster" \
        --tls-cert-file "$certificate" --tls-private-key-file "$key"
      ;;
    body_only)
      exec "$body_only" "$address" "$certificate" "$key"
      ;;
    peer)
      exec "$peers" serve --bind "$address" --nodes "$cluster" \
        --tls-cert-file "$certificate" --tls-private-key-file "$key"
      ;;
  esac
}

start() {
  serve "$1" >"$bench/$1.log" 2>&1 &
  pids="$pids $!"
  echo $! >"$bench/$1.pid"
  tries=100
  until ask "$1" >"$bench/$1.answer" 2>/dev/null; do
    tries=$((tries - 1))
    if [ $tries -eq 0 ] || ! kill -0 "$(cat "$bench/$1.pid")" 2>/dev/null; then
      fail "$1 does not answer on port $(port_of "$1"): $(tail -n 1 "$bench/$1.log")"
    fi
    sleep 0.1
  done
}

ask() {
  curl --silent --fail --cacert "$bench/certs/ca.crt" --header 'Content-Type: application/json' \
    --data-binary "@$bench/review.json" "$(url_of "$1")"
}

# An answer counts if it allows the write and, where hints are decided on, gives one to every endpoint.
check() {
  case $1 in body_only) hints=0 ;; *) hints=$endpoints ;; esac
  grep -q '"allowed":true' "$bench/$1.answer" || fail "$1 does not allow the write: $(head -c 500 "$bench/$1.answer")"
  given=$(sed -n 's/.*"patch":"\([^"]*\)".*/\1/p' "$bench/$1.answer" | base64 -d | grep -o '"op":"add"' | wc -l)
  [ "$given" -eq "$hints" ] || fail "$1 gives $((given)) hints, and not $hints"
  say "$1 answers on port $(port_of "$1") with $((given)) hints"
}

# --- Measuring -------------------------------------------------------------------------------------------------------

# One load on a server; the line that review.lua writes.
load() {
  wrk --threads "$threads" --connections "$connections" --duration "${2}s" --latency \
    --script benches/review.lua "$(url_of "$1")" -- "$bench/review.json" | grep '^load: ' || fail "wrk can't load $1"
}

# CPU time of a process in hundredths of a second, where there is /proc; else nothing.
cpu_of() {
  awk '{print $14 + $15}' "/proc/$1/stat" 2>/dev/null || true
}

# Adds one line to a server's measurements: requests/s, p50, p99, requests, errors, CPU microseconds a request.
measure() {
  pid=$(cat "$bench/$1.pid")
  load "$1" "$warm_up" >/dev/null
  before=$(cpu_of "$pid")
  line=$(load "$1" "$duration")
  after=$(cpu_of "$pid")
  say "  $1 ${line#load: }"
  echo "$line" | tr -d ',' | awk -v cpu="${before:+$(((after - before) * 10000))}" \
    '{print $2, $5, $8, $10, $12, cpu / $10}' >>"$bench/$1.measured"
}

measure_all() {
  for server in $servers; do : >"$bench/$server.measured"; done
  round=1
  while [ "$round" -le "$rounds" ]; do
    say "Round $round of $rounds, ${warm_up} s + ${duration} s each:"
    for server in $servers; do measure "$server"; done
    round=$((round + 1))
  done
  for server in $servers; do
    [ "$(column "$server" 5 | sort -n | tail -n 1)" = 0 ] || fail "$server did not answer all requests with 200"
    ps -o rss= -p "$(cat "$bench/$server.pid")" | awk '{print $1 / 1024}' >"$bench/$server.rss"
  done
}

measure_planners() {
  say 'Timing the planners …'
  : >"$bench/addhints"
  cargo bench --quiet --bench planner >"$bench/planner.log" 2>&1 || fail "the planner's benchmark: see $bench/planner.log"
  for _ in 1 2 3; do "$peers" addhints >>"$bench/addhints"; done
}

# --- Telling ---------------------------------------------------------------------------------------------------------

column() {
  cut -d ' ' -f "$2" "$bench/$1.measured"
}

median() {
  sort -g | awk '{value[NR] = $1} END {print (value[int((NR + 1) / 2)] + value[int(NR / 2) + 1]) / 2}'
}

# The median of a column of a server's measurements.
middle() {
  column "$1" "$2" | median
}

ratio() {
  awk -v a="$1" -v b="$2" -v digits="$3" 'BEGIN {printf "%.*f", digits, a / b}'
}

# Criterion's median in nanoseconds.
criterion() {
  sed 's/.*"median":{"confidence_interval":{[^}]*},"point_estimate":\([0-9.e+]*\).*/\1/' \
    "$target/criterion/$1/$2/new/estimates.json"
}

addhints() {
  sed -n "s/.*\"endpoints\":$1,\"nanosecondsPerOperation\":\([0-9.e+]*\).*/\1/p" "$bench/addhints" | median
}

name_of() {
  case $1 in
    zonewise) echo 'zonewise' ;;
    body_only) echo 'axum, reads the body only' ;;
    peer) echo 'controller-runtime with topologycache' ;;
  esac
}

server_row() {
  column "$1" 1 | sort -g >"$bench/sorted"
  printf '| %s | %.0f | %.0f to %.0f | %.2f | %.2f | %s | %.0f |\n' "$(name_of "$1")" "$(median <"$bench/sorted")" \
    "$(head -n 1 "$bench/sorted")" "$(tail -n 1 "$bench/sorted")" "$(middle "$1" 2)" "$(middle "$1" 3)" \
    "$(middle "$1" 6 | awk '{printf "%s", ($1 ? int($1 + 0.5) : "unknown")}')" "$(cat "$bench/$1.rss")"
}

planner_row() {
  printf '%s %s %s %s %s\n' "$1" "$(addhints "$1")" "$(criterion decide_whole "$1")" "$(criterion decide "$1")" \
    "$(criterion auto "$1")" |
    awk '{printf "| %d | %.1f | %.2f | %.1f | %.2f | %.1f | %.2f |\n", $1, $2 / 1e3, $5 / 1e3, $2 / $5, $3 / 1e3, $2 / $3, $4 / 1e3}'
}

# A target, what was reached, and the least that counts as reached.
verdict() {
  printf '| %s | %s | %s | %s |\n' "$1" "$3" "$2" "$(awk -v a="$2" -v b="$3" 'BEGIN {print (a >= b ? "yes" : "no")}')"
}

worst_planner_ratio() {
  for size in 12 100 1000; do ratio "$(addhints $size)" "$(criterion auto $size)" 1; echo; done | sort -g | head -n 1
}

tell() {
  cat <<END
## Requests

An UPDATE review with $endpoints endpoints ($(wc -c <"$bench/review.json" | tr -d ' ') bytes) over TLS, $connections connections, $threads wrk threads on the same machine;
$rounds rounds of $duration s, each server in turn; medians.

| server | requests/s | least to most | p50 ms | p99 ms | CPU µs a request | resident MiB |
|---|--:|--:|--:|--:|--:|--:|
$(for server in $servers; do server_row "$server"; done)

## Planning

Microseconds. AddHints is Kubernetes' own: from slices of 100 endpoints and the zones' capacity to a hint for each endpoint.
The planner goes from the endpoints' zones to a hint for each. A decision also looks the Service up, merges its slices and keeps
hints; it does so for one slice, which is what a request asks, and with all endpoints in that slice it gives as many hints.

| endpoints | AddHints | planner | times faster | a decision on all | times faster | a decision on one slice of 100 |
|--:|--:|--:|--:|--:|--:|--:|
$(for size in 12 100 1000; do planner_row "$size"; done)

## Targets

| | target | reached | |
|---|--:|--:|--:|
$(verdict 'requests/s, times the peer' "$(ratio "$(middle zonewise 1)" "$(middle peer 1)" 1)" 10)
$(verdict 'requests/s, of reading the body only' "$(ratio "$(middle zonewise 1)" "$(middle body_only 1)" 2)" 0.4)
$(verdict 'planner, times AddHints, at the least' "$(worst_planner_ratio)" 10)

$(uname -sm), $(getconf _NPROCESSORS_ONLN) processors$(sed -n 's/^model name[^:]*:/,/p' /proc/cpuinfo 2>/dev/null | head -n 1);
$(rustc --version | cut -d ' ' -f 1,2), $(go version | cut -d ' ' -f 3);
load average $load_before before and$(uptime | sed 's/.*average[s]*://') after.
END
}

need go 'see https://go.dev/doc/install'
need curl 'apt-get install -y curl, or brew install curl'
need wrk 'apt-get install -y wrk, or brew install wrk'
build
prepare
for server in $servers; do
  start "$server"
  check "$server"
done
load_before=$(uptime | sed 's/.*average[s]*: *//')
measure_all
measure_planners
tell | tee "$bench/results.md"
say "These tables are in $bench/results.md."
