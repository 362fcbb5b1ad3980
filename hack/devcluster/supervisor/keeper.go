package supervisor

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/ekiden-dev/ekiden/hack/devcluster/launch"
)

// service is a process of the cluster that is to run all the time.
type service struct {
	name    string
	command func() *exec.Cmd // A new one for each start.
	log     string
	stop    syscall.Signal
	grace   time.Duration  // From stop to SIGKILL.
	death   syscall.Signal // What it receives when the supervisor dies.
}

// Between the death of a process and its next start. The port of a killed server
// may be taken for some seconds more, so a keeper never gives up.
const (
	shortestPause = 100 * time.Millisecond
	longestPause  = 2 * time.Second
	// A process that lived this long had started; its death is a new matter.
	healthy = 10 * time.Second
)

// keeper keeps one service running until it is told to stop.
type keeper struct {
	service
	thread  *launch.Thread
	changed func() // Called after every start, with a new process id.

	stopping chan struct{} // Closed by the one call of Stop that is first.
	once     sync.Once
	ended    chan struct{} // Closed when no process is left and none will come.

	mu     sync.Mutex
	pid    int
	deaths int
}

func keep(s service, thread *launch.Thread, changed func()) *keeper {
	k := &keeper{
		service: s, thread: thread, changed: changed,
		stopping: make(chan struct{}), ended: make(chan struct{}),
	}
	go k.run()
	return k
}

// PID is that of the living process, or 0.
func (k *keeper) PID() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.pid
}

// Deaths counts the processes that ended without having been told to.
func (k *keeper) Deaths() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.deaths
}

// Stop ends the service and waits until it is gone.
func (k *keeper) Stop() {
	k.once.Do(func() { close(k.stopping) })
	<-k.ended
}

func (k *keeper) run() {
	defer close(k.ended)
	pause := shortestPause
	for {
		started := time.Now()
		outcome := k.runOnce()
		select {
		case <-k.stopping:
			return
		default:
		}
		if time.Since(started) > healthy {
			pause = shortestPause
		}
		fmt.Printf("%s ended (%v); starting it again in %s\n", k.name, outcome, pause)
		select {
		case <-k.stopping:
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, longestPause)
	}
}

// runOnce returns how the process ended.
func (k *keeper) runOnce() error {
	log, err := os.OpenFile(k.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return k.died(err)
	}
	defer func() { _ = log.Close() }()

	command := k.command()
	command.Stdout, command.Stderr = log, log
	if err := k.thread.Start(command, k.death); err != nil {
		return k.died(err)
	}
	k.alive(command.Process.Pid)

	exited := make(chan error, 1)
	go func() { exited <- command.Wait() }()
	select {
	case err := <-exited:
		// Helpers of the dead process must not keep its port or its files.
		_ = launch.Signal(command.Process.Pid, syscall.SIGKILL)
		return k.died(err)
	case <-k.stopping:
	}
	// The process alone, not its group: Postgres ends its own children in order.
	_ = command.Process.Signal(k.stop)
	killed := time.AfterFunc(k.grace, func() { _ = launch.Signal(command.Process.Pid, syscall.SIGKILL) })
	<-exited
	killed.Stop()
	_ = launch.Signal(command.Process.Pid, syscall.SIGKILL) // What it left behind in its group.
	k.gone()
	return nil
}

func (k *keeper) alive(pid int) {
	k.mu.Lock()
	k.pid = pid
	k.mu.Unlock()
	k.changed()
}

func (k *keeper) died(outcome error) error {
	k.mu.Lock()
	k.pid = 0
	k.deaths++
	k.mu.Unlock()
	if outcome == nil {
		return fmt.Errorf("exit status 0")
	}
	return outcome
}

func (k *keeper) gone() {
	k.mu.Lock()
	k.pid = 0
	k.mu.Unlock()
}
