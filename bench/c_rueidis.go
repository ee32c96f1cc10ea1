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
	return rueidisConn{p.c, ctx}, nil
}

type rueidisConn struct {
	c   rueidis.Client
	ctx context.Context
}

func (c rueidisConn) Get(name string) (string, error) {
	value, err := c.c.Do(c.ctx, c.c.B().Get().Key(name).Build()).ToString()
	return value, unlessNil(err)
}

func (c rueidisConn) Set(name, value string) (bool, error) {
	return c.said(c.c.B().Set().Key(name).Value(value).Build())
}

func (c rueidisConn) SetNX(name, value string, expiry time.Duration) (bool, error) {
	return c.said(c.c.B().Set().Key(name).Value(value).Nx().PxMilliseconds(expiry.Milliseconds()).Build())
}

func (c rueidisConn) said(command rueidis.Completed) (bool, error) {
	reply, err := c.c.Do(c.ctx, command).ToString()
	return reply == "OK", unlessNil(err)
}

func (c rueidisConn) PTTL(name string) (time.Duration, error) {
	ms, err := c.c.Do(c.ctx, c.c.B().Pttl().Key(name).Build()).ToInt64()
	return time.Duration(ms) * time.Millisecond, err
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

func (c rueidisConn) ScriptLoad(script *rsredis.Script) (err error) {
	script.Hash, err = c.c.Do(c.ctx, c.c.B().ScriptLoad().Script(script.Src).Build()).ToString()
	return err
}

func (c rueidisConn) Close() error { return nil } // it is everybody's

func unlessNil(err error) error {
	if rueidis.IsRedisNil(err) {
		return nil
	}
	return err
}
