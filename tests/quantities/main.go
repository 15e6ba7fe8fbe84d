// Command quantities writes test vectors for reading CPU quantities: 5,000 distinct strings, each with what Kubernetes
// itself reads from it, one JSON object a line. Every run writes the same bytes.
//
//	go run . > ../vectors/quantities.jsonl
//
// A line is {"text":"3920m","milliCPU":"3920"}: the exact value, rounded towards positive infinity to whole millicores,
// as a decimal of any length. Where Kubernetes refuses the text, milliCPU is null: {"text":"1e3m","milliCPU":null}.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"

	"gopkg.in/inf.v0"
	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	wantHeld    = 2500
	wantRefused = 2500
)

// vector is one line of the output.
type vector struct {
	Text     string  `json:"text"`
	MilliCPU *string `json:"milliCPU"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "quantities:", err)
		os.Exit(1)
	}
}

func run() error {
	vectors, err := collect(rand.New(rand.NewPCG(1, 37)))
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for _, v := range vectors {
		if err := encoder.Encode(v); err != nil {
			return err
		}
	}
	return out.Flush()
}

// collect takes all odd strings first, then random ones until as many are held and refused as wanted.
func collect(r *rand.Rand) ([]vector, error) {
	var vectors []vector
	held, refused := 0, 0
	seen := map[string]bool{}
	add := func(text string) error {
		if seen[text] {
			return nil
		}
		milliCPU, err := judge(text)
		if err != nil {
			return err
		}
		count, limit := &held, wantHeld
		if milliCPU == nil {
			count, limit = &refused, wantRefused
		}
		if *count < limit {
			*count++
			seen[text] = true
			vectors = append(vectors, vector{text, milliCPU})
		}
		return nil
	}
	for _, text := range odd() {
		if err := add(text); err != nil {
			return nil, err
		}
	}
	for held < wantHeld || refused < wantRefused {
		text := quantity(r)
		if r.IntN(4) > 0 {
			text = mutate(r, text)
		}
		if err := add(text); err != nil {
			return nil, err
		}
	}
	return vectors, nil
}

// judge says what a Node that is decoded from JSON holds when its allocatable CPU is the string text; nil says that it
// can't be decoded.
//
// The entry point is Quantity.UnmarshalJSON, which such a Node goes through, and which differs from ParseQuantity of the
// text in two ways. It trims Unicode white space from both ends. And it reads the raw JSON between the quotes, without
// undoing escapes: a text with a control character, a quote or a backslash is refused wherever that stands, since JSON
// must escape those and no quantity has a backslash. ("1\n" is refused, though " 1" and even a no-break space pass.)
func judge(text string) (*string, error) {
	raw, err := json.Marshal(text)
	if err != nil {
		return nil, err
	}
	var q resource.Quantity
	if err := q.UnmarshalJSON(raw); err != nil {
		return nil, nil
	}
	milliCPU := "0"
	if !q.IsZero() {
		// MilliValue would overflow, and round some negative values down.
		milliCPU = new(inf.Dec).Round(q.AsDec(), 3, inf.RoundCeil).UnscaledBig().String()
	}
	return &milliCPU, nil
}
