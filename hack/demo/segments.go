package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
)

// queue holds the pods of the run whose segment has begun, each once, in the order in which they were seen.
type queue struct {
	pods chan *corev1.Pod
	mu   sync.Mutex
	// seen are the UIDs of the pods that were in this queue or in one before it.
	seen map[string]bool
}

// mostPods is more than a run of examples/ can have.
const mostPods = 256

func newQueue(seen map[string]bool) *queue {
	return &queue{pods: make(chan *corev1.Pod, mostPods), seen: seen}
}

func (q *queue) add(pod *corev1.Pod) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.seen[string(pod.UID)] || !begun(pod) || len(q.seen) == mostPods {
		return
	}
	q.seen[string(pod.UID)] = true
	q.pods <- pod
}

func (q *queue) close() { close(q.pods) }

func begun(pod *corev1.Pod) bool {
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name == contract.SegmentContainer && (c.State.Running != nil || c.State.Terminated != nil) {
			return true
		}
	}
	return false
}

// victim is the segment that the demo kills: the first one that has said some words of a turn that is late enough.
type victim struct {
	turn, pieces int

	heard  int
	killed bool
	err    error
}

// victim of a scripted run dies where the script falls silent; another one's may have no later turn than the first.
func (d *demo) victim() *victim {
	if d.model.scripted != nil {
		return &victim{turn: 3, pieces: 10}
	}
	return &victim{turn: 0, pieces: 10}
}

// trouble is why a victim could not be killed, or nil.
func (v *victim) trouble() error {
	if v == nil {
		return nil
	}
	return v.err
}

// condemned reports whether this event is the one at which the segment is to die.
func (v *victim) condemned(e segment.Event) bool {
	if v == nil || v.killed || v.err != nil || e.Name != "Delta" || e.Turn == nil || *e.Turn < v.turn {
		return false
	}
	v.heard++
	return v.heard >= v.pieces
}

// readLogs reads the logs of the segments one after another, each to its end, and kills the victim among them.
func (d *demo) readLogs(ctx context.Context, q *queue, v *victim) {
	for pod := range q.pods {
		d.screen.Say(about(pod), fmt.Sprintf("attempt %s, pod %s", pod.Labels[v1alpha1.LabelAttempt], pod.Name))
		if err := d.readLog(ctx, pod, v); err != nil && ctx.Err() == nil {
			d.screen.Say(about(pod), "its log cannot be read: "+err.Error())
		}
	}
}

func about(pod *corev1.Pod) string { return "segment " + pod.Labels[v1alpha1.LabelSegment] }

// readLog is kubectl logs -f: events are JSON lines; what else a pod prints is not for people who look on.
func (d *demo) readLog(ctx context.Context, pod *corev1.Pod, v *victim) error {
	log, err := d.pods.GetLogs(pod.Name, &corev1.PodLogOptions{Follow: true}).Stream(ctx)
	if err != nil {
		return err
	}
	defer log.Close()
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e segment.Event
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Name == "" {
			continue
		}
		d.print(about(pod), e)
		if v.condemned(e) {
			d.kill(pod, v)
		}
	}
	d.screen.Pause()
	return lines.Err()
}

// print prints an event of a segment.
func (d *demo) print(subject string, e segment.Event) {
	turn := ""
	if e.Turn != nil {
		turn = fmt.Sprintf("turn %d: ", *e.Turn)
	}
	switch e.Name {
	case "Delta":
		d.screen.Stream(e.Text)
	case "ModelCalled":
		d.screen.Say(subject, turn+"asking the model")
	case "ModelAnswered":
		d.screen.Say(subject, turn+finish(segment.Finish(e.Code))+"; saved"+d.used(e.Usage))
	case "CallStarted":
		d.screen.Say(subject, turn+"calling "+e.Tool+"; its intent is saved")
	case "CallSettled":
		d.screen.Say(subject, turn+settled(e)+"; saved")
	case "ApprovalRequired":
		d.screen.Say(subject, turn+e.Tool+" needs an approval; nothing was sent")
	case "Yielded":
		d.screen.Say(subject, "ends: "+e.Code)
	default:
		d.screen.Say(subject, strings.Join(strings.Fields(turn+strings.Join([]string{e.Name, e.Tool, e.Code, e.Message}, " ")), " "))
	}
}

func settled(e segment.Event) string {
	if e.Code != "" {
		return e.Tool + " gave no result: " + e.Code
	}
	return e.Tool + " answered"
}

func finish(f segment.Finish) string {
	switch f {
	case segment.FinishStop:
		return "the model is done"
	case segment.FinishLength:
		return "cut at its length, to be continued"
	case segment.FinishCalls:
		return "the model wants to act"
	default:
		return string(f)
	}
}

func (d *demo) used(u *segment.Usage) string {
	switch {
	case u == nil:
		return ""
	case d.model.scripted == nil:
		return fmt.Sprintf(" (%d tokens out)", u.Tokens.Output)
	default:
		return fmt.Sprintf(" (%d tokens out, %s USD)", u.Tokens.Output, u.Cost)
	}
}

// kill kills the segment's process, as a lack of memory or a node that fails would.
func (d *demo) kill(pod *corev1.Pod, v *victim) {
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name != contract.SegmentContainer || c.State.Running == nil {
			continue
		}
		pid, err := killContainer(c.ContainerID, string(pod.UID))
		if err != nil {
			v.err = fmt.Errorf("killing the segment: %w", err)
			return
		}
		v.killed = true
		d.screen.Alarm("kill -9", fmt.Sprintf("process %d of %s, in the middle of a turn", pid, about(pod)))
	}
}
