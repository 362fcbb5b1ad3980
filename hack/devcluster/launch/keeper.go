package launch

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Service is a process that is to run all the time.
type Service struct {
	Name    string
	Command func() *exec.Cmd // A new one for each start.
	Log     string
	Stop    syscall.Signal
	Grace   time.Duration  // From stop to SIGKILL.
	Death   syscall.Signal // What it receives when the one who keeps it dies.
}

// Between the death of a process and its next start. The port of a killed server
// may be taken for some seconds more, so a keeper never gives up.
const (
	shortestPause = 100 * time.Millisecond
	longestPause  = 2 * time.Second
	// A process that lived this long had started; its death is a new matter.
	healthy = 10 * time.Second
)

// Keeper keeps one service running until it is told to stop.
type Keeper struct {
	Service
	thread  *Thread
	changed func() // Called after every start, with a new process id.

	stopping chan struct{} // Closed by the one call of End or Kill that is first.
	once     sync.Once
	killing  atomic.Bool
	ended    chan struct{} // Closed when no process is left and none will come.

	mu     sync.Mutex
	pid    int
	deaths int
}

// Keep starts the service. It calls changed after every start, with a new process id.
func Keep(s Service, thread *Thread, changed func()) *Keeper {
	k := &Keeper{
		Service: s, thread: thread, changed: changed,
		stopping: make(chan struct{}), ended: make(chan struct{}),
	}
	go k.run()
	return k
}

// PID is that of the living process, or 0.
func (k *Keeper) PID() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.pid
}

// Deaths counts the processes that ended without having been told to.
func (k *Keeper) Deaths() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.deaths
}

// End ends the service and waits until it is gone.
func (k *Keeper) End() {
	k.once.Do(func() { close(k.stopping) })
	<-k.ended
}

// Kill is End without a warning.
func (k *Keeper) Kill() {
	k.killing.Store(true)
	k.End()
}

func (k *Keeper) run() {
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
		fmt.Printf("%s ended (%v); starting it again in %s\n", k.Name, outcome, pause)
		select {
		case <-k.stopping:
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, longestPause)
	}
}

// runOnce returns how the process ended.
func (k *Keeper) runOnce() error {
	log, err := os.OpenFile(k.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return k.died(err)
	}
	defer func() { _ = log.Close() }()

	command := k.Command()
	command.Stdout, command.Stderr = log, log
	if err := k.thread.Start(command, k.Death); err != nil {
		return k.died(err)
	}
	k.alive(command.Process.Pid)

	exited := make(chan error, 1)
	go func() { exited <- command.Wait() }()
	select {
	case err := <-exited:
		// Helpers of the dead process must not keep its port or its files.
		_ = Signal(command.Process.Pid, syscall.SIGKILL)
		return k.died(err)
	case <-k.stopping:
	}
	// The process alone, not its group: Postgres ends its own children in order.
	signal := k.Stop
	if k.killing.Load() {
		signal = syscall.SIGKILL
	}
	_ = command.Process.Signal(signal)
	killed := time.AfterFunc(k.Grace, func() { _ = Signal(command.Process.Pid, syscall.SIGKILL) })
	<-exited
	killed.Stop()
	_ = Signal(command.Process.Pid, syscall.SIGKILL) // What it left behind in its group.
	k.gone()
	return nil
}

func (k *Keeper) alive(pid int) {
	k.mu.Lock()
	k.pid = pid
	k.mu.Unlock()
	k.changed()
}

func (k *Keeper) died(outcome error) error {
	k.mu.Lock()
	k.pid = 0
	k.deaths++
	k.mu.Unlock()
	if outcome == nil {
		return fmt.Errorf("exit status 0")
	}
	return outcome
}

func (k *Keeper) gone() {
	k.mu.Lock()
	k.pid = 0
	k.mu.Unlock()
}
