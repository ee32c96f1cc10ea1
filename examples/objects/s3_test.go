// Package objects has what package fence needs to write to S3: Get and Put of bucket are to copy. It was tried against
// a server that stands in for S3, not against S3.
package objects

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/quorumlock/redlock/fence"
	"github.com/quorumlock/redlock/fence/fencetest"
)

// bucket makes fence.Objects of a client of S3. The token is metadata of the object.
type bucket struct {
	client *s3.Client
	name   string
}

// is reports whether S3 has answered with one of these codes.
func is(err error, codes ...int) bool {
	var reply interface{ HTTPStatusCode() int }
	return errors.As(err, &reply) && slices.Contains(codes, reply.HTTPStatusCode())
}

func (b bucket) Get(ctx context.Context, key string) (data []byte, token int64, version string, err error) {
	object, err := b.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.name, Key: &key})
	if is(err, http.StatusNotFound) {
		return nil, 0, "", nil
	}
	if err != nil {
		return nil, 0, "", err
	}
	defer object.Body.Close()
	defer fencetest.Step(ctx) // for the test alone
	token, err = strconv.ParseInt(object.Metadata["token"], 10, 64)
	data, bad := io.ReadAll(object.Body)
	return data, token, *object.ETag, errors.Join(err, bad)
}

func (b bucket) Put(ctx context.Context, key string, data []byte, token int64, version string) (bool, error) {
	object := &s3.PutObjectInput{Bucket: &b.name, Key: &key, Body: bytes.NewReader(data), IfMatch: &version}
	object.Metadata = map[string]string{"token": strconv.FormatInt(token, 10)}
	if nothing := "*"; version == "" {
		object.IfMatch, object.IfNoneMatch = nil, &nothing
	}
	_, err := b.client.PutObject(ctx, object)
	if is(err, http.StatusPreconditionFailed, http.StatusConflict) { // conflict: another write is under way
		return false, nil
	}
	return err == nil, err
}

func (b bucket) Read(ctx context.Context, h fence.Holder) (string, error) {
	data, err := fence.ReadObject(ctx, b, "stock", h)
	return string(data), err
}

func (b bucket) Write(ctx context.Context, h fence.Holder, value string) error {
	return fence.WriteObject(ctx, b, "stock", h, []byte(value))
}

// standIn has one object, and writes it on the conditions that S3 documents.
type standIn struct {
	mu          sync.Mutex // guards the others
	writes      int
	etag, token string // etag is "" if there is no object
	data        []byte
}

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch match := r.Header.Get("If-Match"); {
	case s.etag == "" && (r.Method == http.MethodGet || match != ""):
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodGet:
		w.Header().Set("ETag", s.etag)
		w.Header().Set("X-Amz-Meta-Token", s.token)
		_, _ = w.Write(s.data)
	case match != s.etag: // of a write that wants no object, none
		w.WriteHeader(http.StatusPreconditionFailed)
	default:
		s.writes++
		s.etag, s.token = strconv.Quote(strconv.Itoa(s.writes)), r.Header.Get("X-Amz-Meta-Token")
		s.data, _ = io.ReadAll(r.Body)
	}
}

func TestS3LosesNoUpdate(t *testing.T) {
	_ = flag.Set("test.short", "true") // a hundred interleavings
	server := httptest.NewServer(&standIn{})
	defer server.Close()
	client := s3.New(s3.Options{BaseEndpoint: &server.URL, Region: "any", UsePathStyle: true})
	fencetest.Run(t, bucket{client, "shop"})
}
