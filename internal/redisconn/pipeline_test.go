package redisconn

import (
	"slices"
	"testing"
	"time"
)

// Whoever sends something and then undoes it does so in this order, whatever else is queued.
func TestAnUndoStandsBehindWhatItUndoes(t *testing.T) {
	c := must(New("redis://h", Config{Timeout: time.Second, Now: time.Now}))(t)
	c.link = &link{} // nobody writes: the queue stays as it is
	defer c.watchdog.Stop()
	undo := &Command{Script: first.Script, Args: first.Args, Undo: true}
	asked := []*Request{about(first, "a"), about(undo, "a"), about(first, "a"), about(undo, "a")}
	for _, r := range asked {
		r.Asked = time.Now()
		c.Send(r)
	}
	if !slices.Equal(c.queue, asked) {
		t.Error("the queue has another order")
	}
}
