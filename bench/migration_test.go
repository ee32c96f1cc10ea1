package main

import (
	"fmt"
	"slices"
	"testing"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/redisserver"
)

// BenchmarkMigration compares a cycle with two lists that share four of five nodes to one with the first list alone, in
// turns, so that both meet the same machine. Its figures are medians over the turns, those of the ratio within each:
// CPU time for each cycle, of the client ("client") and of client and masters ("all").
//
//	go test -C bench -run '^$' -bench Migration -benchtime 20000x
func BenchmarkMigration(b *testing.B) {
	servers := cases.Must(startSome(6, redisserver.Config{}))(b)
	defer stopServers(servers)
	nodes := addrs(servers)
	var replaced []string
	for _, node := range slices.Concat(nodes[:4], nodes[5:]) {
		replaced = append(replaced, "redis://"+node)
	}
	for _, goroutines := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) {
			kinds := []string{"one-list", "two-lists"}
			var crews []crew
			for _, opts := range [][]redlock.Option{nil, {redlock.WithNewNodes(replaced)}} {
				cl := cases.Must(openRedlock(locks, opts...)(nodes[:5], goroutines))(b)
				defer cl.close()
				crews = append(crews, newCrew(b, cl, goroutines, usualNames))
			}
			const each = 200 // cycles in a turn
			client, all := make([][]float64, 2), make([][]float64, 2)
			for turn := -1; turn*each < b.N; turn++ {
				for i, c := range crews {
					before := snapshot(servers)
					c.cycle(b, each)
					after := snapshot(servers)
					if turn < 0 { // connects and loads scripts
						continue
					}
					of := us(after.client - before.client)
					client[i] = append(client[i], of/each)
					all[i] = append(all[i], (of+us(after.since(before)))/each)
				}
			}
			for what, costs := range map[string][][]float64{"client": client, "all": all} {
				ratios := make([]float64, len(costs[0]))
				for turn := range ratios {
					ratios[turn] = costs[1][turn] / costs[0][turn]
				}
				for i, kind := range kinds {
					b.ReportMetric(median(costs[i]), kind+"-"+what+"-µs")
				}
				b.ReportMetric(median(ratios), what+"-ratio")
			}
			b.ReportMetric(0, "ns/op") // of both
		})
	}
}
