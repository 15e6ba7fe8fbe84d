package main

import (
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
)

// quantity gives a random string of the grammar in the doc comment of resource.Quantity (and of `n` and `u`, which it
// forgets).
func quantity(r *rand.Rand) string {
	return pick(r, "", "", "", "", "", "-", "+") + number(r) + suffix(r)
}

func number(r *rand.Rand) string {
	switch r.IntN(8) {
	case 0:
		return digits(r) + "."
	case 1:
		return "." + digits(r)
	case 2, 3, 4:
		return digits(r) + "." + digits(r)
	default:
		return digits(r)
	}
}

// digits favours zeros and nines, where rounding shows, and sometimes the lengths where ParseQuantity changes from
// int64 to big integers.
func digits(r *rand.Rand) string {
	length := 1 + r.IntN(4)
	switch r.IntN(8) {
	case 0, 1:
		length = 5 + r.IntN(10)
	case 2:
		length = 15 + r.IntN(15)
	}
	var out strings.Builder
	for range length {
		out.WriteByte("00001234567899"[r.IntN(14)])
	}
	return out.String()
}

func suffix(r *rand.Rand) string {
	switch r.IntN(8) {
	case 0:
		return ""
	case 1, 2, 3:
		return pick(r, decimalSuffixes...)
	case 4, 5:
		return pick(r, binarySuffixes...)
	default:
		return pick(r, "e", "E") + pick(r, "", "+", "-") + pick(r, "", "", "", "0", "00") + exponent(r)
	}
}

func exponent(r *rand.Rand) string {
	limit := 13
	switch r.IntN(16) {
	case 0, 1, 2:
		limit = 40
	case 3:
		limit = 320
	}
	return strconv.Itoa(r.IntN(limit))
}

// hugeExponent matches what mutation must not make: an exponent of thousands, whose line would be as long, or more, for
// which ParseQuantity may compute for minutes.
var hugeExponent = regexp.MustCompile(`[eE][+-]?0*[1-9][0-9]{3}`)

// mutate edits one to three characters of text, which may leave it a quantity.
func mutate(r *rand.Rand, text string) string {
	for {
		mutated := []rune(text)
		for range 1 + r.IntN(3) {
			mutated = edit(r, mutated)
		}
		if !hugeExponent.MatchString(string(mutated)) {
			return string(mutated)
		}
	}
}

// edit inserts, replaces or deletes one character.
func edit(r *rand.Rand, text []rune) []rune {
	at := r.IntN(len(text) + 1)
	head, tail := text[:at:at], text[at:]
	if len(tail) > 0 && r.IntN(3) > 0 {
		tail = tail[1:]
		if r.IntN(2) == 0 {
			return append(head, tail...)
		}
	}
	return append(append(head, character(r)), tail...)
}

var (
	fitting = []rune("0123456789....++--eeEEiinumkKMGTP")
	foreign = []rune(" \u00a0_,:xXaIKuUmN'\"\\/\t\n\r\x00\x7f\u00b5²١７−\ufeff")
)

func character(r *rand.Rand) rune {
	if r.IntN(10) == 0 {
		return pick(r, foreign...)
	}
	return pick(r, fitting...)
}

func pick[T any](r *rand.Rand, from ...T) T {
	return from[r.IntN(len(from))]
}
