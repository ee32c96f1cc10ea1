// Command etcd is one member of an etcd cluster for the benchmarks, with the defaults of etcd's own command: a process
// by itself, so that it can be killed and frozen. It is a module by itself, so that continuous integration, which does
// not measure, need not build a server.
package main

import (
	"flag"
	"fmt"
	"net/url"
	"os"

	"go.etcd.io/etcd/server/v3/embed"
)

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		os.Exit(1)
	}
}

func serve() error {
	c := embed.NewConfig()
	flag.StringVar(&c.Name, "name", "", "the member's name")
	flag.StringVar(&c.Dir, "dir", "", "its data")
	flag.StringVar(&c.InitialCluster, "cluster", "", "name=URL of all members, for each other, separated by commas")
	client, peer := flag.String("client", "", "its URL for clients"), flag.String("peer", "", "its URL for members")
	flag.Parse()
	for _, u := range []struct {
		text string
		all  []*[]url.URL
	}{
		{*client, []*[]url.URL{&c.ListenClientUrls, &c.AdvertiseClientUrls}},
		{*peer, []*[]url.URL{&c.ListenPeerUrls, &c.AdvertisePeerUrls}},
	} {
		parsed, err := url.Parse(u.text)
		if err != nil {
			return err
		}
		for _, list := range u.all {
			*list = []url.URL{*parsed}
		}
	}
	c.LogLevel = "error"
	e, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	return <-e.Err() // until it is killed
}
