package simtest

import "testing"

// Each pair is in a row, and no row is another's.
func TestEachPairIsDrawn(t *testing.T) {
	var drawn Pairs
	all := array()
	for k, row := range all {
		row.pairs(func(a, b Feature) { drawn[a][b]++ })
		for _, other := range all[:k] {
			if other == row {
				t.Errorf("row %d is there twice", k)
			}
		}
	}
	for _, pair := range drawn.Never() {
		t.Errorf("no row has %s", pair)
	}
	t.Logf("%d rows:\n%v", rows, &drawn)
}
