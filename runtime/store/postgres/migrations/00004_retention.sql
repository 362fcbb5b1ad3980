-- +goose Up
-- What tells a Postgres that was restored to an earlier moment, and what the sweep of old rows needs.
-- A table that somebody reads is waited for only briefly, because everybody else queues behind this. The manager tries again.
SELECT set_config('lock_timeout', '5s', true);

-- manager: one row, counted up while a manager works. The API server remembers the count: one that is lower here was restored.
CREATE TABLE ekiden.pulse (
  one   boolean PRIMARY KEY DEFAULT true CHECK (one),
  count bigint NOT NULL CHECK (count >= 0),
  at    timestamptz NOT NULL DEFAULT now()
);
INSERT INTO ekiden.pulse (count) VALUES (0);
ALTER TABLE ekiden.pulse ENABLE ROW LEVEL SECURITY;

-- set once, of a run that was at work at the moment to which Postgres was restored: what it did since is not known
ALTER TABLE ekiden.runs ADD COLUMN set_back_at timestamptz;

-- set once, when nothing of the session is left: the row itself is kept for longer
ALTER TABLE ekiden.runs ADD COLUMN swept_at timestamptz;
-- trees, oldest first, and their runs
CREATE INDEX runs_ended ON ekiden.runs (ended_at, run_uid) WHERE ended_at IS NOT NULL AND run_uid = root_uid;
CREATE INDEX runs_of_root ON ekiden.runs (root_uid);
