package redlock_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log"
	"slices"

	"github.com/quorumlock/redlock"
)

// lockFleet is a set of masters that locks names of its own, and this process's Locker for it.
type lockFleet struct {
	id     string // never changes, and is never given to another fleet
	locker *redlock.Locker
}

// fleetOf returns the fleet of a name, by rendezvous hashing: the one whose id gives the largest hash with the name.
// Every process must choose the same, so the hash must not depend on the process, as hash/maphash does.
func fleetOf(fleets []lockFleet, name string) (best lockFleet) {
	var largest uint64
	for _, f := range fleets {
		sum := sha256.Sum256([]byte(f.id + "\x00" + name))
		if weight := binary.BigEndian.Uint64(sum[:]); weight >= largest {
			best, largest = f, weight
		}
	}
	return best
}

// Names over several fleets: each name belongs to one of them. A fleet more takes its share of the names from all
// others, and no name moves between these.
func Example_severalFleets() {
	north, stopNorth := lockerOnFiveMasters()
	defer stopNorth()
	south, stopSouth := lockerOnFiveMasters()
	defer stopSouth()
	fleets := []lockFleet{{"north", north}, {"south", south}}

	locker := fleetOf(fleets, "stock:4711").locker
	err := locker.Do(context.Background(), "stock:4711", func(ctx context.Context, _ *redlock.Lock) error {
		fmt.Println("nobody else is here")
		return ctx.Err()
	})
	if err != nil {
		log.Fatal(err)
	}

	before, moved := map[string]int{}, map[string]int{}
	more := append(slices.Clone(fleets), lockFleet{id: "west"})
	for i := range 3000 {
		name := fmt.Sprintf("stock:%d", i)
		from, to := fleetOf(fleets, name).id, fleetOf(more, name).id
		before[from]++
		if from != to {
			moved[to]++
		}
	}
	fmt.Println(before, moved)
	// Output:
	// nobody else is here
	// map[north:1453 south:1547] map[west:971]
}
