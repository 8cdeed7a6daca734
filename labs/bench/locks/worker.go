// The part of labs.bench.locks.worker, for Go's own Mutex: the same arguments, the same answers.
//
// Two contenders on one session would share a key, and both hold (etcd #10756): each goroutine has a session.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	clientv3 "CLIENT"
	"CLIENT/concurrency"
)

const ttl = 30 // seconds

type contest struct {
	sync.Mutex
	counting bool
	turns    int
	longest  time.Duration
}

func (c *contest) compete(session *concurrency.Session, name string) {
	mutex := concurrency.NewMutex(session, name)
	for {
		began := time.Now()
		for mutex.Lock(context.Background()) != nil { // "request timed out", of a busy etcd: its key keeps its place
		}
		c.note(time.Since(began))
		for mutex.Unlock(context.Background()) != nil {
		}
	}
}

// takeOne takes one turn, when all begin.
func (c *contest) takeOne(session *concurrency.Session, name string, start chan struct{}, turns *sync.WaitGroup) {
	mutex := concurrency.NewMutex(session, name)
	<-start
	began := time.Now()
	for mutex.Lock(context.Background()) != nil {
	}
	c.note(time.Since(began))
	for mutex.Unlock(context.Background()) != nil {
	}
	turns.Done()
}

func (c *contest) note(waited time.Duration) {
	c.Lock()
	defer c.Unlock()
	if c.counting {
		c.turns++
		if waited > c.longest {
			c.longest = waited
		}
	}
}

// count returns the turns until wait returns, as the worker in Python does.
func (c *contest) count(wait func()) map[string]float64 {
	began, cpu := time.Now(), cpuSeconds()
	c.setCounting(true)
	wait()
	c.setCounting(false)
	return map[string]float64{
		"turns":          float64(c.turns),
		"seconds":        time.Since(began).Seconds(),
		"cpu_seconds":    cpuSeconds() - cpu,
		"longest_wait_s": c.longest.Seconds(),
	}
}

func (c *contest) setCounting(on bool) {
	c.Lock()
	defer c.Unlock()
	c.counting = on
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

func main() {
	endpoint, name := os.Args[2], os.Args[4]
	goroutines, _ := strconv.Atoi(os.Args[5])
	seconds, _ := strconv.ParseFloat(os.Args[6], 64)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	contest, start, turns := &contest{}, make(chan struct{}), &sync.WaitGroup{}
	burst := os.Args[1] == "go-burst"
	for i := 0; i < goroutines; i++ {
		session, err := concurrency.NewSession(client, concurrency.WithTTL(ttl))
		if err != nil {
			log.Fatal(err)
		}
		if burst {
			turns.Add(1)
			go contest.takeOne(session, name, start, turns)
		} else {
			go contest.compete(session, name)
		}
	}
	fmt.Println("queued")
	input := bufio.NewReader(os.Stdin)
	if _, err := input.ReadString('\n'); err != nil {
		log.Fatal(err)
	}
	wait := func() { time.Sleep(time.Duration(seconds * float64(time.Second))) }
	if burst {
		wait = func() { close(start); turns.Wait() }
	}
	answer, _ := json.Marshal(contest.count(wait))
	fmt.Println(string(answer))
}
