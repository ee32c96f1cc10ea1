//go:build !unix

package terminal

import "os"

// keys are none where no screen is live, and no shell stops jobs.
type keys struct{}

func keysOf(*os.File) *keys                        { return nil }
func (*keys) pressed(byte) (pressed, stopped bool) { return false, false }
func (*keys) restore()                             {}
func foreground(*os.File) bool                     { return true }
func background()                                  {}

// Suspend does nothing: no shell could continue us.
func Suspend(int, bool) {}
