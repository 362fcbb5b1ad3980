package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// reply is the first story: an answer in several turns, and a process that is killed in the middle of one.
func (d *demo) reply(ctx context.Context) error {
	v := d.victim()
	f, err := d.following(ctx, theRun, v)
	if err != nil {
		return err
	}
	if err := f.until(ctx, finished); err != nil {
		return err
	}
	if err := d.judge(ctx, f.run, v); err != nil {
		return err
	}
	return d.lookAround(ctx, f.run)
}

// judge tells how the run came out, and is an error unless all is well.
func (d *demo) judge(ctx context.Context, run *v1alpha1.AgentRun, victim *victim) error {
	if err := d.cheer(run); err != nil {
		return err
	}
	if d.model.scripted == nil {
		if !victim.killed {
			d.screen.Say("kill", "the model was done before the demo could kill its segment")
		}
		return nil
	}
	return d.compare(ctx, run, victim)
}

// cheer tells what a run that succeeded has cost. It is an error for any other.
func (d *demo) cheer(run *v1alpha1.AgentRun) error {
	status := run.Status
	if status.Phase != v1alpha1.RunSucceeded {
		return fmt.Errorf("run %s ended %s: %s: %s", run.Name, status.Phase, status.Error.Code, status.Error.Message)
	}
	u := status.Usage
	parts := []string{count(int(u.Turns), "turn"), count(int(*status.Segment)+1, "segment")}
	if u.ToolCalls > 0 {
		parts = append(parts, count(int(u.ToolCalls), "tool call"))
	}
	cost := "price unknown"
	if d.model.scripted != nil {
		cost = u.Cost + " USD"
	}
	d.screen.Cheer("succeeded", fmt.Sprintf("%s, %d tokens in, %d tokens out, %s", strings.Join(parts, ", "), u.InputTokens, u.OutputTokens, cost))
	return nil
}

// compare holds the answer of the scripted model against the script.
func (d *demo) compare(ctx context.Context, run *v1alpha1.AgentRun, victim *victim) error {
	script, err := readScript(d.place)
	if err != nil {
		return err
	}
	want := script.answer("reply")
	asked, err := d.model.asked(ctx, theTask)
	if err != nil {
		return err
	}
	turns := int(run.Status.Usage.Turns)
	switch {
	case !victim.killed:
		return errors.New("the run succeeded, but nothing was killed on the way")
	case run.Status.Result.Text != want:
		return fmt.Errorf("the result is not what the model said:\n%s\nwanted:\n%s", run.Status.Result.Text, want)
	}
	d.screen.Say("proof", fmt.Sprintf("the result is what the model said, byte for byte: %s...\n"+
		"The model was asked %s for %s: the kill cost %s.",
		strings.TrimPrefix(run.Status.Result.Digest, "sha256:")[:12], count(asked, "time"), count(turns, "turn"), count(asked-turns, "model call")))
	return nil
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
