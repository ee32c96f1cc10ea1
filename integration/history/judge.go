package main

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// cut ends each hold that was taken from its owner when that began, as far as anybody may rely on it: the holder works
// on until it is told, which is what it is taken away for. It returns what must not be: a hold that was trusted for
// more than a TTL after ForceUnlock had returned nil.
func cut(history []record, forced []act) (wrong []string) {
	begun, ended := map[string]int64{}, map[string]int64{}
	for _, f := range forced {
		if at, known := begun[f.About]; !known || f.Begun < at {
			begun[f.About] = f.Begun
		}
		if at, known := ended[f.About]; f.OK && (!known || f.Ended < at) {
			ended[f.About] = f.Ended
		}
	}
	for i := range history {
		h := &history[i]
		if at, known := ended[h.Owner]; known && h.Ended > at+int64(ttl) {
			wrong = append(wrong, fmt.Sprintf("%s trusted its hold of %s for %v after it had been taken away",
				h.Client, h.Name, time.Duration(h.Ended-at)))
		}
		if at, known := begun[h.Owner]; known {
			h.Ended = min(h.Ended, at)
		}
	}
	return wrong
}

// twice returns the jobs that were done again and had not been forgotten in between, or at least begun to be.
func twice(done, forgot []act) (wrong []string) {
	for i, d := range done {
		for _, e := range done[i+1:] {
			first, second := d, e
			if second.Begun < first.Begun {
				first, second = second, first
			}
			if d.About == e.About && !forgotten(forgot, first, second) {
				wrong = append(wrong, fmt.Sprintf("%s was done by %s and by %s", d.About, first.Client, second.Client))
			}
		}
	}
	return wrong
}

// forgotten reports whether the job may have been forgotten between two runs.
func forgotten(forgot []act, first, second act) bool {
	over := map[[2]any]bool{} // the calls that were printed again when they ended
	for _, f := range forgot {
		if f.Ended > 0 {
			over[[2]any{f.Client, f.Begun}] = true
		}
	}
	return slices.ContainsFunc(forgot, func(f act) bool {
		ended := f.Ended
		if ended == 0 && !over[[2]any{f.Client, f.Begun}] {
			ended = second.Begun // it was killed in between: what it has sent may still count
		}
		return f.About == first.About && f.Begun < second.Begun && ended > first.Begun
	})
}

// beyond returns which permits there are too many. Of each, the judges see that it has one holder at a time.
func beyond(history []record) (wrong []string) {
	held := map[string]bool{}
	for _, h := range history {
		if h.Kind == permit {
			held[h.Name] = true
		}
	}
	if len(held) > permits {
		wrong = append(wrong, fmt.Sprintf("%d permits were held: %v", len(held), slices.Sorted(maps.Keys(held))))
	}
	return wrong
}
