package chaos

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/ekiden-dev/ekiden/test/chaos/judge"
)

// witness is a table in a schema of its own that triggers write to, in the transaction of what they saw. It knows nothing of the
// code under test: of each write it keeps whose it was and which generation the run was in at that moment. The writer holds the
// lock of the run's row in claims, if it has gone through the fence, and so what the trigger reads there is what holds.
const witness = `
CREATE SCHEMA chaos;
CREATE TABLE chaos.seen (
  n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp(), what text NOT NULL, run_uid uuid NOT NULL,
  generation bigint NOT NULL DEFAULT 0, current bigint NOT NULL DEFAULT 0, over boolean NOT NULL DEFAULT false,
  turn int NOT NULL DEFAULT 0, idx int NOT NULL DEFAULT 0, segment int NOT NULL DEFAULT 0, kind text NOT NULL DEFAULT '', holder text NOT NULL DEFAULT ''
);

CREATE FUNCTION chaos.write(uuid, text, bigint, int, int, int, text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  INSERT INTO chaos.seen (what, run_uid, generation, current, over, turn, idx, segment, kind)
  SELECT $2, $1, $3, c.generation, c.final_at IS NOT NULL, $4, $5, $6, $7 FROM ekiden.claims c WHERE c.run_uid = $1 AND c.lane = ''
$$;

CREATE FUNCTION chaos.claim() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$ BEGIN
  INSERT INTO chaos.seen (what, run_uid, generation, current, segment, holder)
  VALUES (CASE WHEN NEW.final_at IS NULL THEN 'claim' ELSE 'final' END, NEW.run_uid, NEW.generation, NEW.generation, coalesce(NEW.segment, 0), coalesce(NEW.holder, ''));
  RETURN NULL;
END $$;
CREATE TRIGGER seen AFTER UPDATE ON ekiden.claims FOR EACH ROW
  WHEN (OLD.generation <> NEW.generation OR OLD.final_at IS DISTINCT FROM NEW.final_at) EXECUTE FUNCTION chaos.claim();

CREATE FUNCTION chaos.entry() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$ BEGIN
  PERFORM chaos.write(NEW.run_uid, 'entry', NEW.generation, NEW.seq, 0, NEW.segment, NEW.kind);
  RETURN NULL;
END $$;
CREATE TRIGGER seen AFTER INSERT OR UPDATE ON ekiden.transcript FOR EACH ROW EXECUTE FUNCTION chaos.entry();

CREATE FUNCTION chaos.outcome() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$ BEGIN
  PERFORM chaos.write(NEW.run_uid, 'outcome', NEW.generation, 0, 0, NEW.segment, NEW.yield);
  RETURN NULL;
END $$;
CREATE TRIGGER seen AFTER INSERT OR UPDATE ON ekiden.outcomes FOR EACH ROW EXECUTE FUNCTION chaos.outcome();

CREATE FUNCTION chaos.call() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$ BEGIN
  IF TG_OP = 'UPDATE' AND OLD.settled_at IS NOT NULL THEN
    PERFORM chaos.write(NEW.run_uid, 'altered', NEW.generation, NEW.turn, NEW.idx, NEW.segment, coalesce(NEW.kind, ''));
  ELSIF NEW.settled_at IS NOT NULL THEN
    PERFORM chaos.write(NEW.run_uid, 'settled', NEW.generation, NEW.turn, NEW.idx, NEW.segment, NEW.kind);
  ELSIF TG_OP = 'INSERT' OR OLD.generation <> NEW.generation THEN -- who writes the same intent again was not told that it is written
    PERFORM chaos.write(NEW.run_uid, 'begun', NEW.generation, NEW.turn, NEW.idx, NEW.segment, '');
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER seen AFTER INSERT OR UPDATE ON ekiden.calls FOR EACH ROW EXECUTE FUNCTION chaos.call();

CREATE FUNCTION chaos.ending() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$ BEGIN
  PERFORM chaos.write(NEW.run_uid, 'end', 0, 0, 0, 0, coalesce(NEW.end_phase, ''));
  RETURN NULL;
END $$;
CREATE TRIGGER seen AFTER UPDATE ON ekiden.runs FOR EACH ROW
  WHEN (OLD.end_phase IS DISTINCT FROM NEW.end_phase OR OLD.ended_at IS DISTINCT FROM NEW.ended_at) EXECUTE FUNCTION chaos.ending();

CREATE FUNCTION chaos.told() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$ BEGIN
  PERFORM chaos.write(NEW.run_uid, TG_ARGV[0], 0, 0, 0, 0, '');
  RETURN NULL;
END $$;
CREATE TRIGGER seen AFTER INSERT ON ekiden.inbox FOR EACH ROW EXECUTE FUNCTION chaos.told('inbox');
CREATE TRIGGER seen AFTER INSERT OR UPDATE ON ekiden.attempts FOR EACH ROW EXECUTE FUNCTION chaos.told('attempt');
`

// testify has the witness look from now on.
func (w *world) testify(ctx context.Context) error {
	return w.query(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, witness)
		return err
	})
}

// marks are what the witness has seen.
func (w *world) marks(ctx context.Context) (marks []judge.Mark, err error) {
	return marks, w.query(ctx, func(conn *pgx.Conn) error {
		marks, err = seen(ctx, conn)
		return err
	})
}

func seen(ctx context.Context, conn *pgx.Conn) ([]judge.Mark, error) {
	rows, err := conn.Query(ctx, `SELECT at, what, run_uid::text, generation, current, over, turn, idx, segment, kind, holder FROM chaos.seen ORDER BY n`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (m judge.Mark, err error) {
		return m, row.Scan(&m.At, &m.What, &m.Run, &m.Generation, &m.Current, &m.Over, &m.Turn, &m.Index, &m.Segment, &m.Kind, &m.Holder)
	})
}
