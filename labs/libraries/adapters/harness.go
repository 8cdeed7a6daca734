// The common half of the adapter in Go: what harness.py does for those in Python.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	clientv3 "CLIENT"
	"CLIENT/concurrency"
)

type request struct {
	ID                        int
	Do, Contender, Name, File string
	TTL, Turns                int
	Timeout                   *int
	Seconds                   float64
}

func main() {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{os.Args[1]}, DialTimeout: time.Minute})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(`{"id": 0, "result": "VERSION"}`)
	contenders := map[string]chan request{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var r request
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			continue
		}
		if contenders[r.Contender] == nil {
			requests, h := make(chan request, 16), &holder{}
			contenders[r.Contender] = requests
			go func() {
				for each := range requests {
					answer(each, h, client)
				}
			}()
		}
		contenders[r.Contender] <- r
	}
}

func answer(r request, h *holder, client *clientv3.Client) {
	response := map[string]any{"id": r.ID}
	result, err := h.do(r, client)
	if err == errNotOffered {
		response["offered"] = false
	} else if err != nil {
		response["error"] = err.Error()
	} else {
		response["result"] = result
	}
	line, _ := json.Marshal(response)
	os.Stdout.Write(append(line, '\n')) // one write: others answer as well
}

func (h *holder) do(r request, client *clientv3.Client) (any, error) {
	switch r.Do {
	case "acquire":
		return h.acquire(client, r)
	case "release":
		return h.release()
	case "held":
		return h.held(client)
	case "block", "renew":
		return nil, errNotOffered
	case "write":
		held, err := h.held(client)
		if err != nil {
			return nil, err
		}
		if held {
			note(r, "write", 0)
		}
		return map[string]any{"wrote": held}, nil
	case "turn":
		for turn := 0; turn < r.Turns; turn++ {
			if _, err := h.acquire(client, r); err != nil {
				return nil, err
			}
			note(r, "enter", h.mutex.Header().Revision)
			time.Sleep(time.Duration(r.Seconds * float64(time.Second)))
			note(r, "leave", 0)
			if _, err := h.release(); err != nil {
				return nil, err
			}
		}
	case "repeat":
		return h.repeat(r, client)
	}
	return nil, nil
}

func (h *holder) repeat(r request, client *clientv3.Client) (any, error) {
	session, err := concurrency.NewSession(client, concurrency.WithTTL(r.TTL))
	if err != nil {
		return nil, err
	}
	defer session.Close()
	mutex, began, count := concurrency.NewMutex(session, r.Name), time.Now(), 0
	for ; time.Since(began).Seconds() < r.Seconds; count++ {
		if err := mutex.Lock(context.Background()); err != nil {
			return nil, err
		}
		if err := mutex.Unlock(context.Background()); err != nil {
			return nil, err
		}
	}
	return float64(count) / time.Since(began).Seconds(), nil
}

// note appends a line to the file with the monotonic clock that all processes share.
func note(r request, event string, token int64) {
	var now syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&now)), 0)
	at := float64(now.Sec) + float64(now.Nsec)/1e9
	line, _ := json.Marshal(map[string]any{"at": at, "who": r.Contender, "event": event, "token": token})
	file, err := os.OpenFile(r.File, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err == nil {
		file.Write(append(line, '\n'))
		file.Close()
	}
}
