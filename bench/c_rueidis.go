package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	rsredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/redis/rueidis"
)

// rueidisPool is one connection for all goroutines, pipelined. redsync's own adapter goes through rueidis's layer for
// go-redis's interface; this one asks rueidis itself, which leaves that work out.
func rueidisPool(node string, _ int) (rsredis.Pool, func() error, error) {
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{node}})
	if err != nil {
		return nil, nil, err
	}
	return overRueidis{c}, func() error { c.Close(); return nil }, nil
}

type overRueidis struct{ c rueidis.Client }

func (p overRueidis) Get(ctx context.Context) (rsredis.Conn, error) {
	if ctx == nil {
		ctx = context.Background()
	}
	return rueidisConn{c: p.c, ctx: ctx}, nil
}

// A rueidisConn has what redsync's lock and unlock call.
type rueidisConn struct {
	rsredis.Conn // nil: the others

	c   rueidis.Client
	ctx context.Context
}

func (c rueidisConn) SetNX(name, value string, expiry time.Duration) (bool, error) {
	set := c.c.B().Set().Key(name).Value(value).Nx().PxMilliseconds(expiry.Milliseconds()).Build()
	reply, err := c.c.Do(c.ctx, set).ToString()
	return reply == "OK", unlessNil(err)
}

func (c rueidisConn) Eval(script *rsredis.Script, keysAndArgs ...any) (any, error) {
	all := make([]string, len(keysAndArgs))
	for i, a := range keysAndArgs {
		all[i] = fmt.Sprint(a)
	}
	keys, args := all[:script.KeyCount], all[script.KeyCount:]
	n := int64(script.KeyCount)
	reply, err := c.c.Do(c.ctx, c.c.B().Evalsha().Sha1(script.Hash).Numkeys(n).Key(keys...).Arg(args...).Build()).ToAny()
	if err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") {
		reply, err = c.c.Do(c.ctx, c.c.B().Eval().Script(script.Src).Numkeys(n).Key(keys...).Arg(args...).Build()).ToAny()
	}
	return reply, unlessNil(err)
}

func (c rueidisConn) Close() error { return nil } // it is everybody's

func unlessNil(err error) error {
	if rueidis.IsRedisNil(err) {
		return nil
	}
	return err
}
