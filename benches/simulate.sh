#!/bin/sh
# Plays the same random traces through zonewise and through Kubernetes' own EndpointSlice reconciler with its topology
# cache (peers/), and puts their measures side by side. Writes its tables to target/bench/simulate.md too.
#
# Settings, as environment variables: SEEDS (60), FIRST_SEED (1), EVENTS of each trace (200), SLICE_SIZE (100). Arguments
# are those of `zonewise simulate`, as in `benches/simulate.sh --keep-in-zone 0.08`.
set -eu

seeds=${SEEDS:-60} first=${FIRST_SEED:-1} events=${EVENTS:-200} slice_size=${SLICE_SIZE:-100}

cd "$(dirname "$0")/.."
mkdir -p "${CARGO_TARGET_DIR:-target}/bench"
target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)
bench=$target/bench
traces=$bench/traces.jsonl

say() {
  printf '%s\n' "$*" >&2
}

build() {
  say 'Building Kubernetes’ side …'
  go build -C benches/peers -o "$bench/peers" .
  # Nothing is timed here, so it need not be the release.
  say 'Building zonewise …'
  cargo build --quiet
}

# A measure of a side, from its JSON.
measure() {
  sed -n "s/^      \"$2\": \([-0-9.e]*\).*/\1/p" "$bench/simulate-$1.json"
}

# Changed hints of a side and how many events there were, for a kind of event.
by_event() {
  awk -F '[:,]' -v kind="\"$2\"" '
    index($0, kind) {inside = 1}
    inside && /"events"/ {events = $2}
    inside && /"hintChanges"/ {print $2 + 0, events + 0; exit}' "$bench/simulate-$1.json"
}

calculate() {
  awk "BEGIN {printf \"$1\", $2}"
}

count_row() {
  ours=$(measure zonewise "$2") theirs=$(measure kubernetes "$2")
  printf '| %s | %s | %s |\n' "$1" "$ours" "$theirs"
}

percent_row() {
  printf '| %s | %s %% | %s %% |\n' "$1" "$(calculate '%.2f' "100 * $(measure zonewise "$2")")" \
    "$(calculate '%.2f' "100 * $(measure kubernetes "$2")")"
}

event_row() {
  ours=$(by_event zonewise "$1") theirs=$(by_event kubernetes "$1")
  [ -z "$ours" ] || printf '| %s | %s | %s | %s |\n' "$1" "${ours#* }" "${ours% *}" "${theirs% *}"
}

# A target, what was reached, and whether that is enough.
verdict() {
  printf '| %s | %s | %s | %s |\n' "$1" "$2" "$3" "$(awk "BEGIN {print ($4) ? \"yes\" : \"no\"}")"
}

of_kubernetes() {
  calculate '%.3f' "$(measure zonewise "$1") / $(measure kubernetes "$1")"
}

tell() {
  behind=$(calculate '%.3f' "100 * ($(measure kubernetes meanInZoneShare) - $(measure zonewise meanInZoneShare))")
  cat <<END
$seeds traces of $events events from seed $first on, slices of at most $slice_size${flags:+, \`$flags\`}

| | zonewise | Kubernetes |
|---|--:|--:|
$(count_row 'changed hints of endpoints that stay' hintChanges)
$(count_row '… from one zone to another' movedHints)
$(count_row 'hints turned on or off' flips)
$(count_row 'states with hints' hintedStates)
$(count_row 'violations' violations)
$(percent_row 'worst overload' worstOverload)
$(percent_row 'worst overload of a state, mean' meanOverload)
$(percent_row 'traffic in its zone, mean' meanInZoneShare)
$(count_row 'slices written by the controller' controllerWrites)
| slices written by drift | $(measure zonewise driftWrites) | |

Changed hints of endpoints that stay, by event:

| event | events | zonewise | Kubernetes |
|---|--:|--:|--:|
$(for kind in podAdded podRemoved podReplaced nodeAdded nodeRemoved nodeResized zoneLost zoneBack; do event_row $kind; done)

| target | at most | reached | |
|---|--:|--:|--:|
$(verdict 'changed hints, of Kubernetes’' 0.30 "$(of_kubernetes hintChanges)" "$(of_kubernetes hintChanges) <= 0.30")
$(verdict '… without those that came or went with all of the Service’s' 0.30 "$(of_kubernetes movedHints)" "$(of_kubernetes movedHints) <= 0.30")
$(verdict 'traffic in its zone, percentage points behind' 0.2 "$behind" "$behind <= 0.2")
$(verdict 'violations' 0 "$(measure zonewise violations)" "$(measure zonewise violations) == 0")
END
}

flags=$*
build
say 'Playing …'
"$target/debug/zonewise" simulate --seed "$first" --seeds "$seeds" --events "$events" --slice-size "$slice_size" \
  --write-trace "$traces" --output json "$@" >"$bench/simulate-zonewise.json"
"$bench/peers" replay --trace "$traces" --slice-size "$slice_size" >"$bench/simulate-kubernetes.json"
tell | tee "$bench/simulate.md"
say "These tables are in $bench/simulate.md."
