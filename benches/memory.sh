#!/bin/sh
# Measures the memory and the CPU of one replica at rest on a large cluster, beside those of a Go program that holds the
# same three kinds in controller-runtime's caches (peers/): under a real API server, whose objects have all that they
# have in a cluster. Writes its table to target/bench/memory.md too. Needs Linux, for /proc.
#
# Settings, as environment variables: NODES (5000), SERVICES (10000, of 10 endpoints each), SETTLE and DURATION in seconds
# (150 and 30), PORT (18453: the first of two ports on loopback), ZONEWISE (the program, in place of a release build),
# ZONEWISE_CONTROLPLANE (the test control plane, in place of the newest that `make controlplane` built).
set -eu

nodes=${NODES:-5000} services=${SERVICES:-10000}
# Go collects its garbage every two minutes when nothing else makes it.
settle=${SETTLE:-150} duration=${DURATION:-30} port=${PORT:-18453}
programs='zonewise caches stripped'
pids=

cd "$(dirname "$0")/.."
mkdir -p "${CARGO_TARGET_DIR:-target}/bench"
target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)
bench=$target/bench
peers=$bench/peers
metrics=http://127.0.0.1:$((port + 1))/metrics

say() {
  printf '%s\n' "$*" >&2
}

fail() {
  say "memory: $*"
  exit 1
}

stop_all() {
  for pid in $pids; do kill "$pid" 2>/dev/null || true; done
  wait
}
trap stop_all EXIT
trap 'exit 130' INT TERM

need() {
  command -v "$1" >/dev/null || fail "$1 is missing: $2"
}

# Waits up to so many seconds until a command succeeds, as long as the program lives.
wait_until() {
  name=$1 seconds=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    seconds=$((seconds - 1))
    if [ "$seconds" -le 0 ] || ! kill -0 "$(cat "$bench/$name.pid")" 2>/dev/null; then
      fail "$name: no success with \`$*\`; the end of its log: $(tail -n 3 "$bench/$name.log")"
    fi
    sleep 1
  done
}

# Sleeps second by second, since a signal is heeded only between commands.
pause() {
  seconds=$1
  while [ "$seconds" -gt 0 ]; do
    sleep 1
    seconds=$((seconds - 1))
  done
}

# Runs a command in the background under a name, with a standard input that does not end: the control plane would with it.
start() {
  name=$1
  shift
  "$@" <&3 >"$bench/$name.log" 2>&1 &
  pids="$! $pids"
  echo $! >"$bench/$name.pid"
}

# --- What is measured ------------------------------------------------------------------------------------------------

build() {
  say 'Building the peer …'
  go build -C benches/peers -o "$peers" .
  if [ -z "${ZONEWISE:-}" ]; then
    say 'Building zonewise …'
    cargo build --quiet --release
  fi
  zonewise=${ZONEWISE:-$target/release/zonewise}
  controlplane=${ZONEWISE_CONTROLPLANE:-$(ls -t .cache/controlplane/*/controlplane 2>/dev/null | head -n 1)}
  [ -x "$controlplane" ] || fail 'no test control plane: run `make controlplane`'
}

# Without the controllers that would write to the objects that are made here, and without their log of every call.
start_control_plane() {
  say 'Starting the control plane …'
  start controlplane "$controlplane" up --controllers serviceaccount-controller --scheduler=false --kwok=false \
    --apiserver-arg=--audit-log-path=
  wait_until controlplane 120 grep -q kubeconfig "$bench/controlplane.log"
  kubeconfig=$(sed -n 's/.*"kubeconfig":"\([^"]*\)".*/\1/p' "$bench/controlplane.log")
}

fill() {
  say "Making $nodes nodes and $services Services …"
  "$peers" fill --kubeconfig "$kubeconfig" --nodes "$nodes" --services "$services" >&2
}

start_zonewise() {
  "$zonewise" certs generate --dir "$bench/certs" --dns localhost 127.0.0.1 >/dev/null
  start zonewise "$zonewise" serve --kubeconfig "$kubeconfig" --shutdown-delay-duration 0s \
    --webhook-bind-address "127.0.0.1:$port" --metrics-bind-address "127.0.0.1:$((port + 1))" \
    --tls-cert-file "$bench/certs/tls.crt" --tls-private-key-file "$bench/certs/tls.key"
  wait_until zonewise 120 curl --silent --fail "${metrics%/metrics}/readyz"
  wait_until zonewise 120 leads
}

# A leader holds more than others: what it has told of each Service.
leads() {
  [ "$(metric zonewise_leader)" -eq 1 ]
}

metric() {
  curl --silent --fail "$metrics" | awk -v name="$1" 'index($0, name) == 1 {sum += $NF} END {printf "%d\n", sum}'
}

# Every slice has the hints that it should have, so that nothing is written: else this is no rest.
check_rest() {
  hinted=$(metric 'zonewise_services{decision="Hints"')
  [ "$hinted" -eq "$services" ] || fail "$hinted of $services Services have hints"
  for counter in zonewise_slices_drifted zonewise_slices_parked zonewise_drift_patches_total; do
    [ "$(metric $counter)" -eq 0 ] || fail "$counter is $(metric $counter), and not 0"
  done
}

start_caches() {
  start "$@"
  wait_until "$1" 120 grep -q ready "$bench/$1.log"
}

# --- Measuring -------------------------------------------------------------------------------------------------------

# CPU time of a process in milliseconds.
cpu_of() {
  awk -v ticks="$(getconf CLK_TCK)" '{print ($14 + $15) * 1000 / ticks}' "/proc/$1/stat"
}

# A line of a process's status, in MiB.
memory_of() {
  awk -v field="$2:" '$1 == field {print $2 / 1024}' "/proc/$1/status"
}

note_cpu() {
  for program in $programs; do cpu_of "$(cat "$bench/$program.pid")" >"$bench/$program.$1"; done
}

measure() {
  say "At rest; measuring after $settle s for $duration s …"
  pause "$settle"
  note_cpu before
  sleep "$duration"
  note_cpu after
  for program in $programs; do
    pid=$(cat "$bench/$program.pid")
    memory_of "$pid" VmRSS >"$bench/$program.rss"
    memory_of "$pid" VmHWM >"$bench/$program.peak"
  done
  check_rest
}

# --- Telling ---------------------------------------------------------------------------------------------------------

name_of() {
  case $1 in
    zonewise) echo 'zonewise' ;;
    caches) echo 'controller-runtime’s caches' ;;
    stripped) echo '… without managedFields' ;;
  esac
}

row() {
  printf '%s %s %s %s %s\n' "$(cat "$bench/$1.rss")" "$(cat "$bench/$1.peak")" \
    "$(cat "$bench/$1.before")" "$(cat "$bench/$1.after")" "$duration" |
    awk -v name="$(name_of "$1")" \
      '{printf "| %s | %.1f | %.1f | %.1f | %.1f |\n", name, $1, $2, ($4 - $3) / $5, $3 / 1000}'
}

# A part of another program's memory, and whether it is at most a quarter.
verdict() {
  awk -v ours="$(cat "$bench/zonewise.$3")" -v theirs="$(cat "$bench/$2.$3")" -v what="$1" \
    'BEGIN {printf "| %s | 0.25 | %.3f | %s |\n", what, ours / theirs, (ours <= theirs / 4 ? "yes" : "no")}'
}

tell() {
  cat <<END
$nodes nodes and $services Services of 10 endpoints each, $settle s after all was read; CPU over $duration s

| | resident MiB | at its peak | CPU at rest, ms a second | CPU before, s |
|---|--:|--:|--:|--:|
$(for program in $programs; do row "$program"; done)

| resident memory, of | at most | reached | |
|---|--:|--:|--:|
$(verdict 'controller-runtime’s caches' caches rss)
$(verdict '… at their peaks' caches peak)
$(verdict 'the caches without managedFields' stripped rss)
END
}

need go 'see https://go.dev/doc/install'
need curl 'apt-get install -y curl'
[ -r /proc/self/status ] || fail 'there is no /proc: this needs Linux'
build
rm -f "$bench/stdin"
mkfifo "$bench/stdin"
exec 3<>"$bench/stdin"
rm "$bench/stdin"
start_control_plane
fill
say 'Starting what is measured …'
start_zonewise
start_caches caches "$peers" caches --kubeconfig "$kubeconfig"
start_caches stripped "$peers" caches --kubeconfig "$kubeconfig" --strip-managed-fields
measure
tell | tee "$bench/memory.md"
say "This table is in $bench/memory.md."
