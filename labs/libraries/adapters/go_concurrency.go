// Go's own Mutex, from etcd's client: a session for each hold, because two contenders on one session share a key.
package main

import (
	"context"
	"time"

	clientv3 "CLIENT"
	"CLIENT/concurrency"
)

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
	if err = h.mutex.Lock(ctx); err != nil {
		session.Close()
		if ctx.Err() != nil {
			return map[string]any{"acquired": false}, nil
		}
		return nil, err
	}
	return map[string]any{"acquired": true, "token": h.mutex.Header().Revision}, nil
}

func (h *holder) release() (any, error) {
	defer h.session.Close()
	return nil, h.mutex.Unlock(context.Background())
}

func (h *holder) held() bool {
	select {
	case <-h.session.Done():
		return false
	default:
		return true
	}
}
