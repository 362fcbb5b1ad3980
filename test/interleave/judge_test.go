package interleave

import (
	"encoding/json"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// audit makes triggers that write down every change of a run's rows, and the transaction that made it.
const audit = `
CREATE TABLE audit (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, what text NOT NULL, run_uid uuid, live boolean, old jsonb, row jsonb,
  xid xid8 NOT NULL DEFAULT pg_current_xact_id());
CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  INSERT INTO public.audit (what, run_uid, live, old, row) VALUES (TG_TABLE_NAME, coalesce(NEW.run_uid, OLD.run_uid),
    coalesce((to_jsonb(OLD) ->> 'lease_until')::timestamptz >= now(), false), to_jsonb(OLD), to_jsonb(NEW));
  RETURN NULL;
END $$;
DO $$
DECLARE t text;
BEGIN
  FOREACH t IN ARRAY ARRAY['claims', 'transcript', 'usage', 'calls', 'outcomes'] LOOP
    EXECUTE format('CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON ekiden.%I FOR EACH ROW EXECUTE FUNCTION public.audit()', t);
  END LOOP;
END $$`

// row is what the laws look at in a row of any table.
type row struct {
	Generation    int64   `json:"generation"`
	Holder        *string `json:"holder"`
	CancelledAt   *string `json:"cancelled_at"`
	FinalAt       *string `json:"final_at"`
	Segment       int     `json:"segment"`
	Begun         *string `json:"begun_at"`
	Settled       *string `json:"settled_at"`
	Text          *string `json:"text"`
	PolicyVersion int64   `json:"policy_version"`
	// Version is that of a policy of which the manager was told that it is in force.
	Version int64 `json:"version"`
}

// change is one row of the audit. Old is nil for a row that is new, New for one that is gone.
type change struct {
	What string
	// Live says of a claim that its lease stood when it was changed.
	Live     bool
	Old, New *row
}

// judge tells which laws a history breaks that begins with the given claim.
func judge(claim row, history []change) (broken []string) {
	say := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	var inForce int64
	outcomes := map[int]bool{}
	for _, c := range history {
		switch {
		case c.What == "in force":
			inForce = max(inForce, c.New.Version)
			continue
		case c.New == nil:
			say("a row of %s is gone", c.What)
			continue
		case claim.FinalAt != nil:
			say("a row of %s was written after the end", c.What)
		case c.What == "claims":
			for _, b := range judgeClaim(claim, c) {
				say("%s", b)
			}
			if c.New.Generation > claim.Generation && c.New.FinalAt == nil && outcomes[c.New.Segment] {
				say("segment %d was claimed again after its outcome", c.New.Segment)
			}
			claim = *c.New
			continue
		case c.New.Generation != claim.Generation:
			say("a row of %s was written by generation %d under generation %d", c.What, c.New.Generation, claim.Generation)
		case claim.Holder == nil && c.What != "usage": // a claim that is given back says what it has used
			say("a row of %s was written while nobody held the claim", c.What)
		}
		switch {
		case c.What == "outcomes" && outcomes[c.New.Segment]:
			say("segment %d has two outcomes", c.New.Segment)
		case c.What == "outcomes":
			outcomes[c.New.Segment] = true
		case c.What == "calls" && c.Old != nil && c.Old.Settled != nil:
			say("a settled call was changed")
		case c.What == "calls" && c.New.Begun != nil && c.New.Settled == nil && claim.CancelledAt != nil:
			say("a call began after the cancel")
		case c.What == "calls" && c.New.Begun != nil && c.New.Settled == nil && c.New.PolicyVersion < inForce:
			say("a call began under policy %d while %d was in force", c.New.PolicyVersion, inForce)
		}
	}
	return broken
}

// judgeClaim looks at a change of the claim itself.
func judgeClaim(was row, c change) (broken []string) {
	raised := c.New.Generation > was.Generation
	switch {
	case c.New.Generation < was.Generation:
		broken = append(broken, "the generation fell")
	case raised && c.New.FinalAt != nil: // the end
	case c.New.FinalAt != nil:
		broken = append(broken, "the end left the generation as it was")
	case raised && was.Holder != nil && c.Live:
		broken = append(broken, "a claim was taken over whose lease stood")
	case raised && was.CancelledAt != nil:
		broken = append(broken, "a cancelled run was claimed")
	case !raised && was.Holder == nil && c.New.Holder != nil:
		broken = append(broken, "a claim that was given back has a holder again")
	}
	if was.CancelledAt != nil && (c.New.CancelledAt == nil || *c.New.CancelledAt != *was.CancelledAt) {
		broken = append(broken, "the cancel was changed")
	}
	return broken
}

// TestTheJudge breaks each law once.
func TestTheJudge(t *testing.T) {
	t.Parallel()
	at, me := "now", "me"
	held := row{Generation: 3, Holder: &me}
	with := func(r row, f func(*row)) *row { f(&r); return &r }
	intent := row{Generation: 3, Begun: &at}
	settled := row{Generation: 3, Begun: &at, Settled: &at}
	cancelled := *with(held, func(r *row) { r.CancelledAt = &at })
	end := change{What: "claims", Old: &held, New: &row{Generation: 4, FinalAt: &at}}
	for want, c := range map[string]struct {
		claim   row
		history []change
	}{
		"": {held, []change{
			{What: "in force", New: &row{Version: 1}},
			{What: "claims", Old: &held, New: &held, Live: true},
			{What: "calls", New: with(intent, func(r *row) { r.PolicyVersion = 1 })},
			{What: "calls", Old: &intent, New: &settled},
			{What: "claims", Old: &held, New: &row{Generation: 4, Holder: &me}},
			{What: "transcript", New: &row{Generation: 4}},
			{What: "claims", New: &row{Generation: 4}},
			{What: "usage", New: &row{Generation: 4}},
			{What: "claims", New: &row{Generation: 5, FinalAt: &at}},
		}},
		"a row of transcript is gone":                                        {held, []change{{What: "transcript", Old: &row{}}}},
		"a row of usage was written after the end":                           {held, []change{end, {What: "usage", New: &row{Generation: 4}}}},
		"a row of claims was written after the end":                          {held, []change{end, end}},
		"a row of transcript was written by generation 2 under generation 3": {held, []change{{What: "transcript", New: &row{Generation: 2}}}},
		"a row of calls was written while nobody held the claim":             {row{Generation: 3}, []change{{What: "calls", New: &settled}}},
		"segment 7 has two outcomes": {held, []change{
			{What: "outcomes", New: &row{Generation: 3, Segment: 7}}, {What: "outcomes", New: &row{Generation: 3, Segment: 7}},
		}},
		"segment 7 was claimed again after its outcome": {held, []change{
			{What: "outcomes", New: &row{Generation: 3, Segment: 7}}, {What: "claims", New: &row{Generation: 4, Holder: &me, Segment: 7}},
		}},
		"a settled call was changed":                       {held, []change{{What: "calls", Old: &settled, New: &settled}}},
		"a call began after the cancel":                    {cancelled, []change{{What: "calls", New: &intent}}},
		"a call began under policy 0 while 1 was in force": {held, []change{{What: "in force", New: &row{Version: 1}}, {What: "calls", New: &intent}}},
		"the end left the generation as it was":            {held, []change{{What: "claims", New: &row{Generation: 3, FinalAt: &at}}}},
		"the generation fell":                              {held, []change{{What: "claims", New: &row{Generation: 2}}}},
		"a claim was taken over whose lease stood":         {held, []change{{What: "claims", Live: true, New: &row{Generation: 4, Holder: &me}}}},
		"a cancelled run was claimed":                      {cancelled, []change{{What: "claims", New: &row{Generation: 4, Holder: &me, CancelledAt: &at}}}},
		"a claim that was given back has a holder again":   {row{Generation: 3}, []change{{What: "claims", New: &held}}},
		"the cancel was changed":                           {cancelled, []change{{What: "claims", New: &held}}},
	} {
		got := judge(c.claim, c.history)
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || got[0] != want) {
			t.Errorf("want %q, got %q", want, got)
		}
	}
}

// claimOf reads the run's claim.
func (w *world) claimOf(t *testing.T, run types.UID) (r row) {
	t.Helper()
	var body string
	ok(t, w.super.QueryRow(t.Context(), `SELECT to_jsonb(c)::text FROM ekiden.claims c WHERE run_uid = $1`, run).Scan(&body))
	ok(t, json.Unmarshal([]byte(body), &r))
	return r
}

// audited reads what was written since a scene was set, in the order in which it was committed: what one transaction had written
// before it was stopped comes after all of another that ended meanwhile.
func (w *world) audited(t *testing.T, c *scene) []change {
	t.Helper()
	return w.changes(t, `seq > $1::bigint ORDER BY $2::text <> '' AND NOT pg_visible_in_snapshot(xid, nullif($2::text, '')::pg_snapshot), seq`, c.since, c.meanwhile)
}

// auditedOf reads what was ever written of a run after it was admitted. Who writes holds the lock of the run's claim.
func (w *world) auditedOf(t *testing.T, run types.UID) []change {
	t.Helper()
	return w.changes(t, `run_uid = $1 AND NOT (what = 'claims' AND old IS NULL) ORDER BY seq`, run)
}

func (w *world) changes(t *testing.T, where string, args ...any) (history []change) {
	t.Helper()
	rows, err := w.super.Query(t.Context(), `SELECT what, coalesce(live, false), old::text, row::text FROM audit WHERE `+where, args...)
	ok(t, err)
	defer rows.Close()
	for rows.Next() {
		var c change
		var before, after *string
		ok(t, rows.Scan(&c.What, &c.Live, &before, &after))
		for _, of := range []struct {
			text *string
			into **row
		}{{before, &c.Old}, {after, &c.New}} {
			if of.text != nil {
				*of.into = &row{}
				ok(t, json.Unmarshal([]byte(*of.text), *of.into))
			}
		}
		history = append(history, c)
	}
	ok(t, rows.Err())
	return history
}
