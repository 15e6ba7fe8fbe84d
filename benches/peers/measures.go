package main

import (
	"math/big"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// What a replayed trace is judged by, by the definitions of zonewise simulate (docs/simulate.md).
type (
	outcome struct {
		Traces     int                `json:"traces"`
		Heuristics []heuristicOutcome `json:"heuristics"`
	}
	heuristicOutcome struct {
		Heuristic string `json:"heuristic"`
		measures
	}
	measures struct {
		Events           int                      `json:"events"`
		HintChanges      int                      `json:"hintChanges"`
		MovedHints       int                      `json:"movedHints"`
		Flips            int                      `json:"flips"`
		HintedStates     int                      `json:"hintedStates"`
		Violations       int                      `json:"violations"`
		WorstOverload    float64                  `json:"worstOverload"`
		MeanOverload     float64                  `json:"meanOverload"`
		MeanInZoneShare  float64                  `json:"meanInZoneShare"`
		ControllerWrites int                      `json:"controllerWrites"`
		ByEvent          map[string]*kindMeasures `json:"byEvent"`

		inZone, overload sum
	}
	kindMeasures struct {
		Events      int `json:"events"`
		HintChanges int `json:"hintChanges"`
		MovedHints  int `json:"movedHints"`
		Flips       int `json:"flips"`
	}
)

func newMeasures() measures {
	return measures{ByEvent: map[string]*kindMeasures{}}
}

func (m *measures) add(event string, before, after *state, writes int) {
	kind, ok := m.ByEvent[event]
	if !ok {
		kind = &kindMeasures{}
		m.ByEvent[event] = kind
	}
	changes, moves := after.changesSince(before)
	flips := count(before.hinted != after.hinted)
	kind.Events++
	kind.HintChanges += changes
	kind.MovedHints += moves
	kind.Flips += flips
	m.Events++
	m.HintChanges += changes
	m.MovedHints += moves
	m.Flips += flips
	m.HintedStates += count(after.hinted)
	m.Violations += count(after.violation)
	m.ControllerWrites += writes
	if after.hasTraffic {
		m.MeanInZoneShare = m.inZone.meanWith(after.inZoneShare)
		m.WorstOverload = max(m.WorstOverload, after.worstOverload)
		m.MeanOverload = m.overload.meanWith(after.worstOverload)
	}
}

type sum struct {
	sum    float64
	values float64
}

func (s *sum) meanWith(value float64) float64 {
	s.sum += value
	s.values++
	return s.sum / s.values
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// state is what is stored once the controller has reacted to an event, and what kube-proxy makes of it.
type state struct {
	// hints of each pod, by its name.
	hints map[string][]string
	// hinted says whether every endpoint has a hint, so that kube-proxy follows them.
	hinted    bool
	violation bool
	// hasTraffic says whether there are clients and endpoints; without, the next two are 0.
	hasTraffic    bool
	worstOverload float64
	inZoneShare   float64
}

// changesSince returns how many pods that are there before and now have other hints than before, and how many of them had
// some and have some.
func (s *state) changesSince(before *state) (changes, moves int) {
	for pod, hints := range s.hints {
		if old, stays := before.hints[pod]; stays && !slices.Equal(old, hints) {
			changes++
			moves += count(len(old) > 0 && len(hints) > 0)
		}
	}
	return changes, moves
}

type endpointSeen struct {
	zone  string
	hints []string
}

func (r *replay) observe() *state {
	s := &state{hints: map[string][]string{}}
	var endpoints []endpointSeen
	s.hinted = true
	for _, slice := range r.slices {
		for _, endpoint := range slice.Endpoints {
			seen := endpointSeen{zone: *endpoint.Zone}
			if endpoint.Hints != nil {
				for _, zone := range endpoint.Hints.ForZones {
					seen.hints = append(seen.hints, zone.Name)
				}
			}
			s.hinted = s.hinted && len(seen.hints) > 0
			s.hints[endpoint.TargetRef.Name] = seen.hints
			endpoints = append(endpoints, seen)
		}
	}
	s.hinted = s.hinted && len(endpoints) > 0
	s.follow(r.milliCPUByZone(), endpoints)
	return s
}

// milliCPUByZone is where clients are, and how many: the CPU of the ready nodes.
func (r *replay) milliCPUByZone() map[string]int64 {
	zones := map[string]int64{}
	for _, node := range r.nodes {
		if isReady(node) {
			zones[node.Labels[corev1.LabelTopologyZone]] += milliCPU(node)
		}
	}
	return zones
}

// follow sends each zone's traffic where kube-proxy there does: to the endpoints that are hinted for the zone, if every
// endpoint has a hint and one names the zone; else to all.
func (s *state) follow(zones map[string]int64, endpoints []endpointSeen) {
	if len(zones) == 0 || len(endpoints) == 0 {
		return
	}
	s.hasTraffic = true
	var total int64
	for _, cpu := range zones {
		total += cpu
	}
	load := make([]float64, len(endpoints))
	for zone, cpu := range zones {
		named := named(endpoints, zone)
		if s.hinted && int64(len(named)) < minimum(cpu, total, int64(len(endpoints))) {
			s.violation = true
		}
		if !s.hinted || len(named) == 0 {
			named = all(endpoints)
		}
		share := float64(cpu) / float64(total)
		atHome := 0
		for _, i := range named {
			load[i] += share * float64(len(endpoints)) / float64(len(named))
			atHome += count(endpoints[i].zone == zone)
		}
		s.inZoneShare += share * float64(atHome) / float64(len(named))
	}
	s.worstOverload = slices.Max(load) - 1
}

func named(endpoints []endpointSeen, zone string) []int {
	var named []int
	for i, endpoint := range endpoints {
		if slices.Contains(endpoint.hints, zone) {
			named = append(named, i)
		}
	}
	return named
}

func all(endpoints []endpointSeen) []int {
	all := make([]int, len(endpoints))
	for i := range all {
		all[i] = i
	}
	return all
}

// minimum is the least number of endpoints for a zone, ceil(share * endpoints / 1.2), in exact arithmetic.
func minimum(cpu, total, endpoints int64) int64 {
	numerator := new(big.Int).Mul(big.NewInt(cpu*10), big.NewInt(endpoints))
	denominator := big.NewInt(total * 12)
	quotient, rest := new(big.Int).QuoRem(numerator, denominator, new(big.Int))
	if rest.Sign() > 0 {
		return quotient.Int64() + 1
	}
	return quotient.Int64()
}
