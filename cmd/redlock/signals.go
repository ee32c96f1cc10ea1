package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// signalled is the cause of a context's end.
type signalled struct{ by os.Signal }

func (s signalled) Error() string { return s.by.String() }

// untilSignalled returns a context that ends with the first signal that asks us to end; its cause says which one.
// HUP and QUIT are among them: left alone, they would end us with the terminal in raw mode. What our parent ignores
// (nohup) stays ignored.
func untilSignalled(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(sig) {
			signal.Notify(signals, sig)
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case sig := <-signals:
			cancel(signalled{sig})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
		<-ended
	}
}
