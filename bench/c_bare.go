package main

import (
	"context"
	"errors"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
)

// bareSetNX1 is no library: SET NX PX and a compare-and-delete script on one node, with a
// connection for each goroutine. What a careful person writes by hand.
var bareSetNX1 = contestant{name: "bare SET NX", nodes: 1, open: func(nodes []string, _ int) (client, error) {
	return bareClient(nodes[0]), nil
}}

const releaseScript = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`

type bareClient string

func (c bareClient) worker() (worker, error) {
	conn, err := redis.Dial("tcp", string(c))
	if err != nil {
		return nil, err
	}
	sha, err := redis.String(conn.Do("SCRIPT", "LOAD", releaseScript))
	return &bareWorker{conn: conn, sha: sha}, err
}
func (c bareClient) close() {}

type bareWorker struct {
	conn             redis.Conn
	sha, name, owner string
}

func (w *bareWorker) lock(_ context.Context, name string) error {
	w.name, w.owner = name, uuid.NewString()
	reply, err := w.conn.Do("SET", name, w.owner, "NX", "PX", lockTTL.Milliseconds())
	if err == nil && reply == nil {
		err = errors.New("taken")
	}
	return err
}

func (w *bareWorker) unlock(context.Context) error {
	deleted, err := redis.Int(w.conn.Do("EVALSHA", w.sha, 1, w.name, w.owner))
	if err == nil && deleted == 0 {
		err = errNoOwner
	}
	return err
}

func (w *bareWorker) close() { _ = w.conn.Close() }
