-- +goose Up
-- The tables of a run. The names are the contract between manager, segments and people; the line above each table
-- says who writes it. Rows are keyed by the UIDs of namespace and run: an object that is deleted and created again
-- under the same name inherits nothing.
--
-- Foreign keys carry namespace_uid along. Row-level security only checks that a new row says it is the writer's own;
-- the foreign key makes it belong to a run of that namespace.

-- +goose StatementBegin
DO $$
BEGIN
  -- Members of this role are the logins of namespaces. It owns nothing and cannot log in.
  CREATE ROLE ekiden_tenant NOLOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
  NULL; -- another database of this server has made it
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$
BEGIN
  -- What is the default since Postgres 15, for older ones: tenants make no objects of their own.
  REVOKE CREATE ON SCHEMA public FROM PUBLIC;
EXCEPTION WHEN insufficient_privilege OR invalid_schema_name THEN
  NULL;
END $$;
-- +goose StatementEnd

-- Tenants make no temporary objects either: those would come before everybody's in their own statements.
-- +goose StatementBegin
DO $$
BEGIN
  EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
EXCEPTION WHEN insufficient_privilege THEN
  NULL; -- the database belongs to somebody else; the pinned search path below does not depend on this
END $$;
-- +goose StatementEnd

-- Usually there already, made for the tables of the migrations themselves.
CREATE SCHEMA IF NOT EXISTS ekiden;

-- The namespace of the login that asks, or NULL for any other: ekiden_ and the 32 hex digits of its UID, then _a or _b
-- where a namespace has two logins in turn.
--
-- The search path is pinned: otherwise the names in it would be looked up where the caller says, and a login could bring
-- a type or a function of its own that makes it somebody else.
CREATE FUNCTION ekiden.tenant() RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS
$$ SELECT CASE WHEN current_user ~ '^ekiden_[0-9a-f]{32}(_[ab])?$' THEN substr(current_user, 8, 32)::uuid END $$;

-- manager
CREATE TABLE ekiden.tenants (
  namespace_uid uuid PRIMARY KEY,
  namespace     text NOT NULL,
  -- SHA-256 of the password, to see without asking whether the login has it
  password_sum  text NOT NULL,
  since         timestamptz NOT NULL DEFAULT now()
);

-- manager
CREATE TABLE ekiden.runs (
  run_uid         uuid PRIMARY KEY,
  namespace_uid   uuid NOT NULL,
  namespace       text NOT NULL,
  name            text NOT NULL,
  root_uid        uuid NOT NULL,
  idempotency_key text,
  terms           jsonb NOT NULL,
  admitted_at     timestamptz NOT NULL DEFAULT now(),
  -- set once, together
  ended_at        timestamptz,
  end_phase       text CHECK (end_phase IN ('Succeeded', 'Failed', 'Cancelled')),
  end_code        text,
  end_message     text,
  UNIQUE (run_uid, namespace_uid),
  UNIQUE (namespace_uid, idempotency_key),
  CHECK ((ended_at IS NULL) = (end_phase IS NULL)),
  CHECK ((ended_at IS NULL) = (end_code IS NULL)),
  CHECK ((ended_at IS NULL) = (end_message IS NULL))
);
CREATE INDEX runs_unfinished ON ekiden.runs (admitted_at) WHERE ended_at IS NULL;

-- manager
CREATE TABLE ekiden.snapshots (
  run_uid       uuid PRIMARY KEY,
  namespace_uid uuid NOT NULL,
  digest        text NOT NULL,
  -- text, not jsonb: the digest is that of these very bytes
  body          text NOT NULL,
  FOREIGN KEY (run_uid, namespace_uid) REFERENCES ekiden.runs (run_uid, namespace_uid)
);

-- manager
CREATE TABLE ekiden.attempts (
  run_uid       uuid NOT NULL,
  namespace_uid uuid NOT NULL,
  segment       int NOT NULL CHECK (segment >= 0),
  attempt       int NOT NULL CHECK (attempt >= 0),
  begun_at      timestamptz NOT NULL DEFAULT now(),
  -- NULL until the Job was created; set once
  job_uid       uuid,
  -- set once, together
  ended_at      timestamptz,
  class         text CHECK (class IN ('yielded', 'faulted', 'crashed', 'disrupted', 'lost', 'stopped')),
  code          text,
  message       text,
  not_before    timestamptz,
  PRIMARY KEY (run_uid, segment, attempt),
  FOREIGN KEY (run_uid, namespace_uid) REFERENCES ekiden.runs (run_uid, namespace_uid),
  CHECK ((ended_at IS NULL) = (class IS NULL))
);

-- manager: the row itself, cancelled_at, final_at. Segment: everything else, by claiming and beating.
-- The fence: each transaction of a segment begins by updating its row here under its generation.
CREATE TABLE ekiden.claims (
  run_uid       uuid NOT NULL,
  -- empty for an agent run; later the node of a workflow
  lane          text NOT NULL DEFAULT '',
  namespace_uid uuid NOT NULL,
  -- only ever rises: with each claim, and with the end
  generation    bigint NOT NULL DEFAULT 0 CHECK (generation >= 0),
  -- NULL while nobody holds the run
  holder        text,
  -- of the newest claim
  segment       int CHECK (segment >= 0),
  attempt       int CHECK (attempt >= 0),
  lease_until   timestamptz,
  beat          timestamptz,
  -- active time so far, added up at each beat
  active_ms     bigint NOT NULL DEFAULT 0 CHECK (active_ms >= 0),
  -- set once each
  cancelled_at  timestamptz,
  final_at      timestamptz,
  PRIMARY KEY (run_uid, lane),
  UNIQUE (run_uid, lane, namespace_uid),
  FOREIGN KEY (run_uid, namespace_uid) REFERENCES ekiden.runs (run_uid, namespace_uid),
  CHECK ((holder IS NULL) = (lease_until IS NULL)),
  CHECK (final_at IS NULL OR holder IS NULL)
) WITH (fillfactor = 50); -- a beat finds room on its own page and touches no index

-- segment
CREATE TABLE ekiden.transcript (
  run_uid       uuid NOT NULL,
  lane          text NOT NULL DEFAULT '',
  seq           int NOT NULL CHECK (seq >= 0),
  namespace_uid uuid NOT NULL,
  generation    bigint NOT NULL,
  segment       int NOT NULL CHECK (segment >= 0),
  at            timestamptz NOT NULL DEFAULT now(),
  kind          text NOT NULL CHECK (kind <> ''),
  schema        int NOT NULL CHECK (schema >= 1),
  -- text, not jsonb: jsonb refuses \u0000 and loses the order of keys
  body          text NOT NULL,
  PRIMARY KEY (run_uid, lane, seq),
  FOREIGN KEY (run_uid, lane, namespace_uid) REFERENCES ekiden.claims (run_uid, lane, namespace_uid)
);

-- segment
CREATE TABLE ekiden.usage (
  run_uid       uuid NOT NULL,
  lane          text NOT NULL DEFAULT '',
  turn          int NOT NULL CHECK (turn >= 0),
  try           int NOT NULL CHECK (try >= 1),
  -- in the key, because a try that was cut leaves no entry: a later claim makes it again under the same number, and it costs again
  generation    bigint NOT NULL,
  namespace_uid uuid NOT NULL,
  at            timestamptz NOT NULL DEFAULT now(),
  input         bigint NOT NULL CHECK (input BETWEEN 0 AND 1000000000000),
  cache_read    bigint NOT NULL CHECK (cache_read BETWEEN 0 AND 1000000000000),
  output        bigint NOT NULL CHECK (output BETWEEN 0 AND 1000000000000),
  estimated     boolean NOT NULL,
  -- bounded so that no sum of rows that a login may insert overflows
  cost_micros   bigint NOT NULL CHECK (cost_micros BETWEEN 0 AND 1000000000000),
  PRIMARY KEY (run_uid, lane, turn, try, generation),
  FOREIGN KEY (run_uid, lane, namespace_uid) REFERENCES ekiden.claims (run_uid, lane, namespace_uid)
);

-- segment
CREATE TABLE ekiden.outcomes (
  run_uid       uuid NOT NULL,
  lane          text NOT NULL DEFAULT '',
  segment       int NOT NULL CHECK (segment >= 0),
  namespace_uid uuid NOT NULL,
  generation    bigint NOT NULL,
  at            timestamptz NOT NULL DEFAULT now(),
  yield         text NOT NULL CHECK (yield IN ('completed', 'ceiling', 'checkpoint', 'cancelled', 'failed')),
  code          text NOT NULL DEFAULT '',
  message       text NOT NULL DEFAULT '',
  result        text NOT NULL DEFAULT '',
  PRIMARY KEY (run_uid, lane, segment),
  FOREIGN KEY (run_uid, lane, namespace_uid) REFERENCES ekiden.claims (run_uid, lane, namespace_uid)
);

-- What a namespace's login may do: read the rows of its own namespace, add to its own sessions, move its own claims.
-- UPDATE is granted by column, never on a table: that would also allow LOCK TABLE against everybody else.
GRANT USAGE ON SCHEMA ekiden TO ekiden_tenant;
GRANT SELECT ON ekiden.runs, ekiden.snapshots, ekiden.claims, ekiden.transcript, ekiden.usage, ekiden.outcomes TO ekiden_tenant;
GRANT INSERT ON ekiden.transcript, ekiden.usage, ekiden.outcomes TO ekiden_tenant;
GRANT UPDATE (generation, holder, segment, attempt, lease_until, beat, active_ms) ON ekiden.claims TO ekiden_tenant;

-- +goose StatementBegin
DO $$
DECLARE t text;
BEGIN
  FOREACH t IN ARRAY ARRAY['tenants', 'runs', 'snapshots', 'attempts', 'claims', 'transcript', 'usage', 'outcomes'] LOOP
    EXECUTE format('ALTER TABLE ekiden.%I ENABLE ROW LEVEL SECURITY', t);
    EXECUTE format('CREATE POLICY own_namespace ON ekiden.%I TO ekiden_tenant USING (namespace_uid = (SELECT ekiden.tenant())) WITH CHECK (namespace_uid = (SELECT ekiden.tenant()))', t);
  END LOOP;
END $$;
-- +goose StatementEnd
