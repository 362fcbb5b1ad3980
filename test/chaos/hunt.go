package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ekiden-dev/ekiden/test/chaos/judge"
	"github.com/ekiden-dev/ekiden/test/toolserver"
)

// hunt finds the processes of segments and gives each its fate.
//
//	/proc ───────────► prey ──► follow: its log, what the tool server tells of its run ──► fate
//	tool server's book ───────────┘
type hunt struct {
	*load
	mu   sync.Mutex
	prey map[int]*prey
	// quiet spares everybody from now on.
	quiet  atomic.Bool
	kills  atomic.Int64
	wg     sync.WaitGroup
	faults []judge.Fault
	// ahead and behind are by how much clocks were off.
	ahead, behind time.Duration
	ghosts        *ghosts
}

// prey is one process of a segment.
type prey struct {
	pid              int
	run, pod, podUID string
	segment, attempt int
	log              string
	// tool is told what the tool server writes down of the run.
	tool chan string
	seen map[string]int
	fate fate
}

func (l *load) hunt() *hunt {
	h := &hunt{load: l, prey: map[int]*prey{}}
	h.ghosts = &ghosts{hunt: h}
	return h
}

// Every how long it is looked for processes, and at their logs.
const (
	lookout = 20 * time.Millisecond
	glance  = 3 * time.Millisecond
)

// chase looks for processes until the context ends. Before it becomes a program a process looks like the one that it comes from:
// each is looked at a few times.
func (h *hunt) chase(ctx context.Context) {
	const looks = 5
	looked := map[int]int{}
	for ctx.Err() == nil {
		now := map[int]int{}
		for _, pid := range processes() {
			if now[pid] = looked[pid] + 1; now[pid] > looks {
				now[pid] = looks + 1
				continue
			}
			if p := h.read(pid); p != nil {
				now[pid] = looks + 1
				h.begin(ctx, p)
			}
		}
		looked = now
		time.Sleep(lookout) //nolint:forbidigo // nothing tells of processes that begin
	}
}

func processes() (pids []int) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer d.Close() //nolint:errcheck // only read
	names, _ := d.Readdirnames(-1)
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// read is the segment of ours that a process is, or nil.
func (h *hunt) read(pid int) *prey {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || !strings.Contains(string(line), h.Dir) || !strings.Contains(string(line), "--run=") {
		return nil
	}
	args := strings.Split(string(line), "\x00")
	if filepath.Base(args[0]) != "segment" {
		return nil
	}
	p := &prey{pid: pid, tool: make(chan string, 64), seen: map[string]int{}}
	for _, a := range args {
		name, value, _ := strings.Cut(a, "=")
		switch name {
		case "--run":
			p.run = value
		case "--segment":
			p.segment, _ = strconv.Atoi(value)
		case "--attempt":
			p.attempt, _ = strconv.Atoi(value)
		}
	}
	environment, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	for _, e := range strings.Split(string(environment), "\x00") {
		name, value, _ := strings.Cut(e, "=")
		switch name {
		case "POD_NAME":
			p.pod = value
		case "POD_UID":
			p.podUID = value
		}
	}
	p.log = filepath.Join(h.Dir, "logs", "pods", namespace+"_"+p.pod+"_"+p.podUID, "segment", "0.log")
	return p
}

func (h *hunt) begin(ctx context.Context, p *prey) {
	h.load.mu.Lock()
	name := p.run
	if r := h.runs[p.run]; r != nil {
		name = r.Name
	}
	h.load.mu.Unlock()
	p.fate = h.options.fateOf(name, p.segment, p.attempt)
	h.mu.Lock()
	h.prey[p.pid] = p
	h.mu.Unlock()
	h.wg.Go(func() {
		h.follow(ctx, p)
		h.mu.Lock()
		delete(h.prey, p.pid)
		h.mu.Unlock()
	})
}

// follow waits for the point of the fate and carries it out.
func (h *hunt) follow(ctx context.Context, p *prey) {
	events := tail{name: p.log}
	defer events.close()
	told := func(point string) bool {
		p.seen[point]++
		return p.fate.point == point && p.seen[point] == p.fate.nth
	}
	hit := p.fate.kind != spared && (told(started) || p.fate.point == instant)
	for n := 0; !hit; n++ {
		for _, line := range events.lines() {
			var e struct {
				At    time.Time
				Event string
			}
			if json.Unmarshal(line, &e) != nil || e.Event == "" {
				continue
			}
			h.compare(e.At)
			hit = told(e.Event) || hit
		}
		for more := true; more; {
			select {
			case point := <-p.tool:
				hit = told(point) || hit
			default:
				more = false
			}
		}
		if n%10 == 9 && !alive(p.pid) || ctx.Err() != nil {
			return
		}
		if !hit {
			time.Sleep(glance) //nolint:forbidigo // a log tells nobody that it grows
		}
	}
	if p.fate.kind == spared {
		return
	}
	time.Sleep(p.fate.delay) //nolint:forbidigo // it is part of the fate
	if h.quiet.Load() || !alive(p.pid) {
		return
	}
	switch p.fate.kind {
	case killed:
		h.kill(p)
		if p.fate.haunted {
			h.ghosts.haunt(ctx, p)
		}
	case halting:
		h.pause(p)
	case zombie:
		h.outlive(ctx, p)
	case spared:
	}
}

func (h *hunt) fault(p *prey) judge.Fault {
	return judge.Fault{At: time.Now(), Kind: string(p.fate.kind), Point: p.fate.point, Run: p.run, Segment: p.segment, Attempt: p.attempt, Pid: p.pid}
}

// compare remembers by how much a segment's clock is off, which has told of something just now.
func (h *hunt) compare(its time.Time) {
	off := time.Until(its)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ahead, h.behind = max(h.ahead, off), max(h.behind, -off)
}

func (h *hunt) tell(f judge.Fault) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults = append(h.faults, f)
}

func (h *hunt) kill(p *prey) {
	f := h.fault(p)
	if syscall.Kill(p.pid, syscall.SIGKILL) == nil {
		h.kills.Add(1)
		h.tell(f)
	}
}

// pause stops a process for less than its lease. It goes on as if nothing had been.
func (h *hunt) pause(p *prey) {
	f := h.fault(p)
	if syscall.Kill(p.pid, syscall.SIGSTOP) != nil {
		return
	}
	time.Sleep(p.fate.stopped) //nolint:forbidigo // it is part of the fate
	_ = syscall.Kill(p.pid, syscall.SIGCONT)
	h.tell(f)
}

// outlive stops a process until another one has taken over, or the run has ended, and lets it go on. One that is ended before that
// shows nothing.
func (h *hunt) outlive(ctx context.Context, p *prey) {
	f := h.fault(p)
	if syscall.Kill(p.pid, syscall.SIGSTOP) != nil {
		return
	}
	taken := h.succeeded(ctx, p.run, 0, 2*time.Minute, func() bool { return alive(p.pid) })
	woken := time.Now()
	if syscall.Kill(p.pid, syscall.SIGCONT) != nil || !taken || !alive(p.pid) {
		return
	}
	for alive(p.pid) && ctx.Err() == nil && time.Since(woken) < time.Minute {
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // it is not our child
	}
	words, _ := os.ReadFile(p.log)
	f.Woken, f.Fenced = woken, bytes.Contains(words, []byte("fenced: another claim is newer"))
	h.tell(f)
}

// alive reports whether a process has not ended. One that nobody has waited for has.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(b), ") ")
	return err == nil && !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

// listen passes on what the tool server writes down to the processes of the run.
func (h *hunt) listen(ctx context.Context) {
	book := tail{name: h.book}
	defer book.close()
	for ctx.Err() == nil {
		for _, line := range book.lines() {
			var l toolserver.Line
			if json.Unmarshal(line, &l) == nil {
				h.pass(l)
			}
		}
		time.Sleep(glance) //nolint:forbidigo // a file tells nobody that it grows
	}
}

func (h *hunt) pass(l toolserver.Line) {
	h.load.mu.Lock()
	run := h.keys[l.Key]
	h.load.mu.Unlock()
	points := []string{arrived, working}
	if l.What == toolserver.Ended {
		points = []string{answered}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.prey {
		if p.run != run {
			continue
		}
		for _, point := range points {
			select {
			case p.tool <- point:
			default: // it has its fate
			}
		}
	}
}

// tail reads the lines that are added to a file.
type tail struct {
	name string
	file *os.File
	half []byte
}

func (t *tail) lines() (lines [][]byte) {
	if t.file == nil {
		f, err := os.Open(t.name)
		if err != nil {
			return nil // not yet
		}
		t.file = f
	}
	b, err := io.ReadAll(t.file)
	if err != nil {
		return nil
	}
	t.half = append(t.half, b...)
	for {
		line, rest, found := bytes.Cut(t.half, []byte("\n"))
		if !found {
			return lines
		}
		lines = append(lines, line)
		t.half = append([]byte(nil), rest...)
	}
}

func (t *tail) close() {
	if t.file != nil {
		_ = t.file.Close()
	}
}
