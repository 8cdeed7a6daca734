// Go's own Mutex, from etcd's client: a session for each hold, because two contenders on one session share a key.
// https://pkg.go.dev/go.etcd.io/etcd/clientv3/concurrency (3.4), https://pkg.go.dev/go.etcd.io/etcd/client/v3/concurrency
package main

import (
	"context"
	"errors"
	"strings"
	"time"

	clientv3 "CLIENT"
	"CLIENT/concurrency"
)

var errNotOffered = errors.New("not offered")

// A Mutex of etcd 3.5 and later tries once with it.
type tryLocker interface {
	TryLock(ctx context.Context) error
}

type holder struct {
	session *concurrency.Session
	mutex   *concurrency.Mutex
}

func (h *holder) acquire(client *clientv3.Client, r request) (any, error) {
	session, err := concurrency.NewSession(client, concurrency.WithTTL(r.TTL))
	if err != nil {
		return nil, err
	}
	h.session, h.mutex = session, concurrency.NewMutex(session, r.Name)
	ctx := context.Background()
	if r.Timeout != nil {
		limited, cancel := context.WithTimeout(ctx, time.Duration(*r.Timeout)*time.Second)
		defer cancel()
		ctx = limited
	}
	lock := h.mutex.Lock
	if try, ok := interface{}(h.mutex).(tryLocker); r.Timeout != nil && *r.Timeout == 0 {
		if !ok {
			session.Close()
			return nil, errNotOffered
		}
		ctx, lock = context.Background(), try.TryLock
	}
	if err = lock(ctx); err != nil {
		session.Close()
		if ctx.Err() != nil || strings.Contains(err.Error(), "Locked by another session") {
			return false, nil
		}
		return nil, err
	}
	return true, nil
}

func (h *holder) release() (any, error) {
	defer h.session.Close()
	return nil, h.mutex.Unlock(context.Background())
}

// held asks the session, and then etcd: IsOwner is the comparison for the transaction that writes.
func (h *holder) held(client *clientv3.Client) (bool, error) {
	select {
	case <-h.session.Done():
		return false, nil
	default:
		response, err := client.Txn(context.Background()).If(h.mutex.IsOwner()).Commit()
		return err == nil && response.Succeeded, err
	}
}
