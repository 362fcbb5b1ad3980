package sim

import "time"

// setting is what is drawn before the first step. Its fates and doubles come true whatever the steps say.
type setting struct {
	agent  *agent
	script script
	// first is the tool that the model likes most.
	first int
	// people says that somebody looks at requests, once they have been open for so long. opinion is what they tend to say.
	people  bool
	slow    time.Duration
	opinion int
	// fates are what becomes of the first calls that must not be repeated. deaf is how many questions to a probe have no answer.
	fates []fate
	deaf  int
	// doubles is how many Jobs make two pods, as one may.
	doubles int
	// hunt is where processes are hit.
	hunt hunt
	// defined says that the definition is there from the start, policy which of policies is. The run goes so long after its end.
	defined bool
	policy  int
	ttl     time.Duration
}

// delays are how long requests are open before somebody looks: the last is longer than a rule of policies has people wait.
var delays = []time.Duration{0, 0, 0, 20 * time.Second, 100 * time.Second, 290 * time.Second, 310 * time.Second}

// hunt is where processes are hit, and how many of a hundred are stopped and wake up. The rest is killed.
type hunt struct {
	sore    []string
	freezes int
}

var hunts = []hunt{
	{[]string{"intent", "sends", "waits", "settle"}, 50},
	{[]string{"intent", "sends", "waits", "settle", "asks"}, 50},
	{[]string{"sends"}, 100},
	{[]string{"sends", "waits"}, 0},
}

// draw draws a setting. From zero comes one in which all goes well.
func draw(number uint64) setting {
	d := &draws{number}
	s := setting{
		agent: &agents[d.n(len(agents))], script: scripts[d.n(len(scripts))], first: d.n(len(tools)),
		people: !d.once(5), slow: delays[d.n(len(delays))], opinion: d.n(len(words)),
		hunt: hunts[d.n(len(hunts))], defined: !d.once(16), policy: 1, // under which much is done
	}
	if d.once(6) {
		s.doubles = 1 + d.n(2)
	}
	if d.once(2) {
		s.deaf = d.n(3)
		for range 1 + d.n(5) {
			s.fates = append(s.fates, fates[d.n(len(fates))])
		}
	}
	if d.once(3) {
		s.ttl = time.Minute
	}
	if d.once(2) {
		s.policy = d.n(len(policies))
	}
	return s
}
