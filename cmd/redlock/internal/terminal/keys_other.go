//go:build !unix

package terminal

import "os"

// keys are none where no screen is live.
type keys struct{}

func keysOf(*os.File) *keys { return nil }

func (*keys) pressed(byte) bool { return false }

func (*keys) restore() {}
