package pgtest

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
)

// Stepper stands between a client and the server and stops a transaction between two of its statements. The client sends its
// batch whole, as always; the server gets as much of it as the test says, and carries that out.
type Stepper struct {
	// DSN leads through the stepper.
	DSN string

	*relay
	// next is guarded by the relay's lock.
	next *Stop
}

// Stop is where one transaction stops.
type Stop struct {
	// Reached is closed when the transaction stands there, or when it has ended before.
	Reached chan struct{}
	skip    int
	after   int
	goOn    chan struct{}
	reached sync.Once
	let     sync.Once
	total   int
}

// NewStepper makes a stepper to where the DSN leads. The DSN must be one of this package, without TLS.
func NewStepper(t testing.TB, dsn string) *Stepper {
	t.Helper()
	r, through := newRelay(t, dsn)
	s := &Stepper{DSN: through, relay: r}
	go s.serve(func() bool { return true }, func(client, server net.Conn, end func()) {
		done := make(chan bool, 64)
		go func() { answers(client, server, done); close(done); end() }()
		go func() { s.statements(server, client, done); end() }()
	})
	return s
}

// StopAfter stops a transaction after so many of its statements: before the first, if that is 0, and before the commit, if it
// is all of them. It is the one that begins after so many others, whoever begins it.
func (s *Stepper) StopAfter(statements, others int) *Stop {
	stop := &Stop{Reached: make(chan struct{}), goOn: make(chan struct{}), skip: others, after: statements}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = stop
	return stop
}

// GoOn lets the transaction go on.
func (p *Stop) GoOn() { p.let.Do(func() { close(p.goOn) }) }

// Statements is how many the transaction had. It is known when the transaction has ended.
func (p *Stop) Statements() int { return p.total }

// Disarm lets everything pass again.
func (s *Stepper) Disarm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = nil
}

// stop takes the stop that is meant for a transaction that begins now.
func (s *Stepper) stop() *Stop {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.next
	if p == nil {
		return nil
	}
	if p.skip > 0 {
		p.skip--
		return nil
	}
	s.next = nil
	return p
}

const flush = "H\x00\x00\x00\x04"

// statements passes on what the client says: up to each Execute at once, as far as the transaction may go.
func (s *Stepper) statements(server io.Writer, client io.Reader, done <-chan bool) {
	first, err := message(client, 0)
	if err != nil {
		return
	}
	if _, err := server.Write(first); err != nil {
		return
	}
	var held []byte
	var at *Stop
	inside, failed := false, false
	for {
		m, err := message(client, 1)
		if err != nil {
			return
		}
		held = append(held, m...)
		switch kind := m[0]; {
		case kind == 'P' || kind == 'B' || kind == 'D':
			if !inside {
				drain(done)
				inside, failed, at = true, false, s.stop()
				at.wait(0)
			}
			continue
		case kind == 'E' && at != nil && !failed:
			if _, err := server.Write(append(held, flush...)); err != nil {
				return
			}
			held = held[:0]
			ok, open := <-done
			if !open {
				at.arrive()
				return
			}
			failed = !ok
			at.total++
			if !failed {
				at.wait(at.total)
			}
			continue
		case kind == 'E':
			continue
		case kind == 'S':
			at.arrive()
			inside, at = false, nil
		}
		if _, err := server.Write(held); err != nil {
			return
		}
		held = held[:0]
	}
}

// drain forgets what was told of statements that nobody waited for. The client has seen the end of them.
func drain(done <-chan bool) {
	for {
		select {
		case <-done:
		default:
			return
		}
	}
}

func (p *Stop) arrive() {
	if p != nil {
		p.reached.Do(func() { close(p.Reached) })
	}
}

func (p *Stop) wait(statements int) {
	if p != nil && p.after == statements {
		p.arrive()
		<-p.goOn
	}
}

// answers passes on what the server says, and tells of each statement whether it was carried out.
func answers(client io.Writer, server io.Reader, done chan<- bool) {
	for {
		m, err := message(server, 1)
		if err != nil {
			return
		}
		if _, err := client.Write(m); err != nil {
			return
		}
		switch m[0] {
		case 'C', 'I', 's', 'E':
			select {
			case done <- m[0] != 'E':
			default:
			}
		}
	}
}

// message reads one message of the protocol; its type, but of the first one, takes a byte.
func message(from io.Reader, kind int) ([]byte, error) {
	head := make([]byte, kind+4)
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, err
	}
	m := make([]byte, kind+int(binary.BigEndian.Uint32(head[kind:])))
	copy(m, head)
	_, err := io.ReadFull(from, m[len(head):])
	return m, err
}
