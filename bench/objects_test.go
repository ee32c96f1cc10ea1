package main

import (
	"cmp"
	"context"
	"flag"
	"os"
	"strconv"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/quorumlock/redlock/fence"
	"github.com/quorumlock/redlock/fence/fencetest"
	"github.com/quorumlock/redlock/internal/cases"
)

// etcdObjects makes fence.Objects of a client of etcd. A key's version is the revision that wrote it; the token is in a
// key beside it, and both go in one transaction.
type etcdObjects struct{ client *clientv3.Client }

func (o etcdObjects) Get(ctx context.Context, key string) (data []byte, token int64, version string, err error) {
	reply, err := o.client.Txn(ctx).Then(clientv3.OpGet(key), clientv3.OpGet(key+"/token")).Commit()
	if err != nil || reply.Responses[0].GetResponseRange().Count == 0 {
		return nil, 0, "", err
	}
	object, mark := reply.Responses[0].GetResponseRange().Kvs[0], reply.Responses[1].GetResponseRange().Kvs[0]
	token, err = strconv.ParseInt(string(mark.Value), 10, 64)
	return object.Value, token, strconv.FormatInt(object.ModRevision, 10), err
}

func (o etcdObjects) Put(ctx context.Context, key string, data []byte, token int64, version string) (bool, error) {
	revision, _ := strconv.ParseInt(version, 10, 64) // of a key that does not exist: 0
	reply, err := o.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).Then(
		clientv3.OpPut(key, string(data)), clientv3.OpPut(key+"/token", strconv.FormatInt(token, 10)),
	).Commit()
	return err == nil && reply.Succeeded, err
}

// stock is an object, as what is tested.
type stock struct{ fence.Objects }

func (s stock) Get(ctx context.Context, key string) (data []byte, token int64, version string, err error) {
	defer fencetest.Step(ctx)
	return s.Objects.Get(ctx, key)
}

func (s stock) Read(ctx context.Context, h fence.Holder) (string, error) {
	data, err := fence.ReadObject(ctx, s, "stock", h)
	return string(data), err
}

func (s stock) Write(ctx context.Context, h fence.Holder, value string) error {
	return fence.WriteObject(ctx, s, "stock", h, []byte(value))
}

func TestEtcdLosesNoUpdate(t *testing.T) {
	if os.Getenv("REDLOCK_LONG") == "" { // a thousand interleavings: make consensus
		cases.NoError(t, flag.Set("test.short", "true"))
	}
	fencetest.Run(t, stock{etcdObjects{etcd(t)}})
}

// etcd returns a client of one member in memory.
func etcd(t *testing.T) *clientv3.Client {
	t.Helper()
	if _, err := os.Stat(etcdBinary); err != nil {
		t.Skip("NOT RUN: no etcd is built, which takes minutes; make consensus does it")
	}
	e := startEnsemble(etcdMemory3.system, 1)
	t.Cleanup(e.stop)
	client := connectEtcd(addrs(e.members))
	t.Cleanup(func() { client.Close() })
	return client
}

// deaf is a connection that loses the answers to deletions.
type deaf struct{ clientv3.KV }

func (d deaf) Delete(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.DeleteResponse, error) {
	_, err := d.KV.Delete(ctx, key, opts...)
	return nil, cmp.Or(err, context.DeadlineExceeded)
}

// An Unlock whose answer was lost, and that is called again, deletes a later lock of the same session: etcd#22082.
func TestEtcdDeletesALaterLock(t *testing.T) {
	client, ctx := etcd(t), t.Context()
	session := cases.Must(concurrency.NewSession(client))(t)
	first, second := concurrency.NewMutex(session, "job"), concurrency.NewMutex(session, "job")
	cases.NoError(t, first.Lock(ctx))
	hears := client.KV
	client.KV = deaf{hears}
	cases.Equals(t, first.Unlock(ctx), context.DeadlineExceeded, "unlock, unheard")
	client.KV = hears
	cases.NoError(t, second.Lock(ctx))
	cases.NoError(t, first.Unlock(ctx)) // again
	held := cases.Must(client.Get(ctx, second.Key()))(t)
	cases.Equals(t, held.Count, 0, "keys of the second lock")
}
