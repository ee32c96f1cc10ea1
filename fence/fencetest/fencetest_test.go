package fencetest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/redlock/fence"
)

// register is a store in memory, in which one thing may be wrong.
type register struct {
	mu    sync.Mutex
	value string
	mark  int64
	aged  time.Duration

	raises  func(r *register, token int64) bool // at a read; nil: it does
	refuses func(token, mark int64) bool        // nil: a smaller token
	expires bool
	writes  func(r *register, ctx context.Context, token int64, value string) error // nil: as it should
}

func (r *register) Advance(d time.Duration) { r.aged += d }

func (r *register) refused(token int64) error {
	if r.expires && r.aged > time.Hour {
		r.mark = 0
	}
	late := token < r.mark
	if r.refuses != nil {
		late = r.refuses(token, r.mark)
	}
	if late {
		return fmt.Errorf("%d after %d: %w", token, r.mark, fence.ErrOvertaken)
	}
	return nil
}

func (r *register) Read(ctx context.Context, h fence.Holder) (string, error) {
	Step(ctx) // so that all is played in one order
	token := h.Token()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.raises != nil && !r.raises(r, token) {
		return r.value, nil
	}
	if err := r.refused(token); err != nil {
		return "", err
	}
	r.mark, r.aged = token, 0
	return r.value, nil
}

func (r *register) Write(ctx context.Context, h fence.Holder, value string) error {
	Step(ctx)
	token := h.Token()
	if r.writes != nil {
		return r.writes(r, ctx, token, value)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.refused(token); err != nil {
		return err
	}
	r.mark, r.aged, r.value = token, 0, value
	return nil
}

// brokenStores returns the usual mistakes, each in a store that is right otherwise.
func brokenStores() map[string]*register {
	return map[string]*register{
		"nothing is checked":                        {refuses: func(int64, int64) bool { return false }},
		"the mark rises with the write, not before": {raises: func(*register, int64) bool { return false }},
		"an equal token is rejected":                {refuses: func(token, mark int64) bool { return token <= mark }},
		"the mark expires":                          {expires: true},
		"tokens are compared as text": {refuses: func(token, mark int64) bool {
			return fmt.Sprint(token) < fmt.Sprint(mark)
		}},
		"tokens have 32 bits": {refuses: func(token, mark int64) bool { return int32(token) < int32(mark) }},
		"tokens are floating-point numbers of 32 bits": {refuses: func(token, mark int64) bool {
			return float32(token) < float32(mark)
		}},
		"a read sets the mark to whatever comes": {raises: func(r *register, token int64) bool {
			r.mark = token
			return false
		}},
		"check and write are two steps": {writes: func(r *register, ctx context.Context, token int64, value string) error {
			r.mu.Lock()
			err := r.refused(token)
			r.mu.Unlock()
			Step(ctx)
			r.mu.Lock()
			defer r.mu.Unlock()
			if err == nil {
				r.mark, r.value = max(r.mark, token), value
			}
			return err
		}},
		"the check comes after the write": {writes: func(r *register, _ context.Context, token int64, value string) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.value = value
			err := r.refused(token)
			r.mark = max(r.mark, token)
			return err
		}},
		"a row that has the value already counts as not changed, as in MySQL": {
			writes: func(r *register, _ context.Context, token int64, value string) error {
				r.mu.Lock()
				defer r.mu.Unlock()
				if err := r.refused(token); err != nil || r.mark == token && r.value == value && value != "" {
					return cmp.Or(err, fence.ErrOvertaken)
				}
				r.mark, r.value = token, value
				return nil
			},
		},
		"the token is checked by a read alone": {
			writes: func(r *register, _ context.Context, _ int64, value string) error {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.value = value
				return nil
			},
		},
	}
}

// said is a test that fails.
type said struct {
	*testing.T
	text string
}

func (s *said) Errorf(format string, args ...any) { s.text = fmt.Sprintf(format, args...) }

// Each of the usual mistakes is found, and shown in few lines: see mistakes.txt.
func TestBrokenStores(t *testing.T) {
	var b strings.Builder
	broken := brokenStores()
	for _, name := range slices.Sorted(maps.Keys(broken)) {
		s := &said{T: t}
		// None of these waits for another that is paused, so that all is played in one order however busy the machine is.
		(&runner{store: broken[name], next: firstToken, patience: time.Minute}).run(s, 1000)
		if s.text == "" {
			t.Errorf("%s: not found", name)
		}
		fmt.Fprintf(&b, "%s:\n%s\n\n", name, s.text)
	}
	const path = "mistakes.txt"
	if os.Getenv("REDLOCK_UPDATE") != "" {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || string(want) != b.String() {
		t.Errorf("%v: it is another; with REDLOCK_UPDATE it is written anew", err)
	}
}

func TestARightStore(t *testing.T) { Run(t, &register{}) }
