package fence

import "context"

// Objects is a store that writes an object on the condition that nobody else has written it meanwhile: S3, Google Cloud
// Storage and Azure Blob Storage (the token in the object's metadata), etcd (the revision), DynamoDB, a server with
// ETags.
type Objects interface {
	// Get reads an object, with the token that was written beside it and what the store calls this version of it. Of one
	// that does not exist, data is nil, the token 0 and version "".
	Get(ctx context.Context, key string) (data []byte, token int64, version string, err error)
	// Put writes an object if its version is still this; "": if it does not exist. It reports whether it has.
	Put(ctx context.Context, key string, data []byte, token int64, version string) (done bool, err error)
}

// ReadObject reads an object under a lock; data is nil if there is none. It writes the token beside it first: one write
// for the first read of a hold. If the holder is late, the error satisfies errors.Is for [ErrOvertaken].
func ReadObject(ctx context.Context, s Objects, key string, h Holder) (data []byte, err error) {
	err = replace(ctx, s, key, h, func(was []byte, token int64) ([]byte, bool) {
		data = was
		return was, token < h.Token()
	})
	return data, err
}

// WriteObject writes an object under a lock. If its outcome is not known, it may be repeated.
func WriteObject(ctx context.Context, s Objects, key string, h Holder, data []byte) error {
	return replace(ctx, s, key, h, func([]byte, int64) ([]byte, bool) { return data, true })
}

// replace puts what becomes of an object in its place, if anything does, until nobody else has written it meanwhile.
func replace(
	ctx context.Context, s Objects, key string, h Holder, by func(data []byte, token int64) (becomes []byte, changes bool),
) error {
	if err := check(h); err != nil {
		return err
	}
	for {
		data, token, version, err := s.Get(ctx, key)
		if err != nil {
			return failed(h, err)
		}
		if err := pass(h, token); err != nil {
			return err
		}
		becomes, changes := by(data, token)
		if !changes {
			return nil
		}
		done, err := s.Put(ctx, key, becomes, h.Token(), version)
		if err != nil {
			return failed(h, err)
		}
		if done {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return failed(h, err)
		}
	}
}
