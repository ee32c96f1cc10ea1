// Package adapters lets other libraries use redlock. Each file is one adapter, to be copied.
package adapters

import (
	"errors"
	"log"
	"time"

	"github.com/quorumlock/redlock"
)

// EndWith ends the process when the hold has less than notice left, or has ended, unless it was unlocked: for work that
// cannot be told to stop. While the masters can be reached, renewal keeps that from happening.
//
// The notice, a tenth of the TTL say, is what the process needs to end before another may hold the lock; two thirds of
// the TTL is what outages of the masters may last: choose a long TTL, since each longer outage costs a restart. A
// process that is paused ends late all the same: only a token keeps its last write out.
func EndWith(lock *redlock.Lock, notice time.Duration) {
	go func() {
		<-lock.Ending(notice)
		if err := lock.Err(); !errors.Is(err, redlock.ErrUnlocked) {
			log.Fatalf("the process ends with its hold: %s: %v", lock, err)
		}
	}()
}
