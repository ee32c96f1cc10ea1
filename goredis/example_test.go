package redlockgoredis_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/redlock"
	redlockgoredis "github.com/quorumlock/redlock/goredis"
	"github.com/quorumlock/redlock/redlocktest"
)

func ExampleNodes() {
	masters, err := redlocktest.Start(3) // instead of your masters
	if err != nil {
		log.Fatal(err)
	}
	defer masters.Close()
	var options []*redis.Options // as the program has them for its own clients
	for i := range masters.Len() {
		options = append(options, &redis.Options{Addr: masters.Addr(i), PoolSize: 20})
	}

	urls, config, err := redlockgoredis.Nodes(options...)
	if err != nil {
		log.Fatal(err)
	}
	locker, err := redlock.New(urls, redlock.WithNodeConfig(config), redlock.WithNodeTimeout(5*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	err = locker.Do(context.Background(), "stock:4711", func(context.Context, *redlock.Lock) error {
		fmt.Println("locked")
		return nil
	})
	fmt.Println(err)
	// Output:
	// locked
	// <nil>
}

func ExampleUniversalNodes() {
	options := &redis.UniversalOptions{Addrs: []string{"r1:6379", "r2:6379", "r3:6379"}, DB: 2}
	urls, _, err := redlockgoredis.UniversalNodes(options)
	fmt.Println(urls, err)
	options.MasterName = "group-1"
	_, _, err = redlockgoredis.UniversalNodes(options)
	fmt.Println(err)
	// Output:
	// [redis://r1:6379/2 redis://r2:6379/2 redis://r3:6379/2] <nil>
	// redlock: invalid: MasterName: it is of a Sentinel, which keeps no data: name the masters that it watches
}
