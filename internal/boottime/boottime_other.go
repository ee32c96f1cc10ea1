//go:build !linux

package boottime

import "time"

func read() time.Duration { return 0 }
