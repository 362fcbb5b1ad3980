-- +goose Up
-- The tables of tool calls: what was begun and what came of it, what people decided, the policy that counts, and what tools
-- are told to be. As in 00001 the line above each table says who writes it, and foreign keys carry namespace_uid along.
--
-- What a namespace's login may write is bounded in size, because the manager reads it for everybody. Segments keep to the bounds
-- by themselves: runtime/store/record has them.
-- A table that somebody reads is waited for only briefly, because everybody else queues behind this. The manager tries again.
SELECT set_config('lock_timeout', '5s', true);

-- segment: the journal. A row is the intent of a call, committed before anything of it is sent, and later how it ended. A
-- call that was refused is settled without an intent.
CREATE TABLE ekiden.calls (
  run_uid        uuid NOT NULL,
  lane           text NOT NULL DEFAULT '',
  turn           int NOT NULL CHECK (turn >= 0),
  idx            int NOT NULL CHECK (idx >= 0),
  namespace_uid  uuid NOT NULL,
  -- of the claim that last began or settled the call, which may be a later one than that which began it first
  generation     bigint NOT NULL,
  segment        int NOT NULL CHECK (segment >= 0),
  tool           text NOT NULL CHECK (octet_length(tool) <= 512),
  effect         text NOT NULL CHECK (octet_length(effect) <= 64),
  -- empty, like key, for a call that was never begun
  idempotency    text NOT NULL DEFAULT '' CHECK (octet_length(idempotency) <= 64),
  key            text NOT NULL DEFAULT '' CHECK (octet_length(key) <= 128),
  -- of the canonical arguments
  digest         text NOT NULL CHECK (octet_length(digest) <= 128),
  -- what let the call through
  rule           text NOT NULL DEFAULT '' CHECK (octet_length(rule) <= 512),
  policy_version bigint NOT NULL DEFAULT 0 CHECK (policy_version >= 0),
  approvals      uuid[] NOT NULL DEFAULT '{}' CHECK (cardinality(approvals) <= 64),
  approved_by    text[] NOT NULL DEFAULT '{}' CHECK (cardinality(approved_by) <= 64 AND octet_length(array_to_string(approved_by, '')) <= 65536),
  -- set with the row; NULL says that nothing of the call was sent
  begun_at       timestamptz,
  -- set once, together
  settled_at     timestamptz,
  kind           text CHECK (kind IN ('answered', 'failed', 'refused', 'indeterminate')),
  code           text CHECK (octet_length(code) <= 64),
  text           text CHECK (octet_length(text) <= 2097152),
  bytes          bigint CHECK (bytes >= 0),
  PRIMARY KEY (run_uid, lane, turn, idx),
  FOREIGN KEY (run_uid, lane, namespace_uid) REFERENCES ekiden.claims (run_uid, lane, namespace_uid),
  CHECK (begun_at IS NOT NULL OR settled_at IS NOT NULL),
  CHECK ((settled_at IS NULL) = (kind IS NULL)),
  CHECK ((settled_at IS NULL) = (code IS NULL)),
  CHECK ((settled_at IS NULL) = (text IS NULL)),
  CHECK ((settled_at IS NULL) = (bytes IS NULL))
);

-- manager
CREATE TABLE ekiden.inbox (
  -- A segment that parks remembers the newest number it has seen. So that none that is lower appears later, the manager
  -- locks the row in claims before it adds one here: numbers of a run rise in the order in which they are committed.
  seq           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  run_uid       uuid NOT NULL,
  lane          text NOT NULL DEFAULT '',
  namespace_uid uuid NOT NULL,
  kind          text NOT NULL CHECK (kind IN ('approval')),
  -- the UID of the ApprovalRequest: it is answered once
  request_uid   uuid NOT NULL UNIQUE,
  turn          int NOT NULL CHECK (turn >= 0),
  idx           int NOT NULL CHECK (idx >= 0),
  -- of the arguments that were decided on
  digest        text NOT NULL,
  seat          int NOT NULL CHECK (seat BETWEEN 1 AND seats),
  seats         int NOT NULL,
  phase         text NOT NULL CHECK (phase IN ('Approved', 'Denied', 'Expired')),
  decided_by    text NOT NULL DEFAULT '',
  reason        text NOT NULL DEFAULT '',
  at            timestamptz NOT NULL DEFAULT now(),
  FOREIGN KEY (run_uid, lane, namespace_uid) REFERENCES ekiden.claims (run_uid, lane, namespace_uid)
);
CREATE INDEX inbox_of_run ON ekiden.inbox (run_uid, lane, seq);

-- manager: the policy of a namespace, a row for each version. The newest counts.
-- A call begins only under the newest version, read after its run's row in claims is locked. When the manager has committed
-- a version and then locked each held row of the namespace once, no call begins under an older version any more.
CREATE TABLE ekiden.policies (
  namespace_uid uuid NOT NULL,
  version       bigint NOT NULL CHECK (version >= 1),
  body          text NOT NULL,
  -- of the policies that the body holds, by their UIDs: no version is followed by one with an older state of the same policy
  generations   jsonb NOT NULL DEFAULT '{}',
  at            timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (namespace_uid, version)
);

-- discovery Jobs, and for HTTP servers the manager: what the tools of a server are told to be, all those of one generation
-- of the server's spec in one transaction.
CREATE TABLE ekiden.contracts (
  namespace_uid uuid NOT NULL,
  server_uid    uuid NOT NULL,
  generation    bigint NOT NULL CHECK (generation >= 0),
  name          text NOT NULL CHECK (octet_length(name) <= 128),
  digest        text NOT NULL,
  -- text, not jsonb: the digest is that of these very bytes
  body          text NOT NULL CHECK (octet_length(body) <= 65536),
  at            timestamptz NOT NULL DEFAULT now(),
  -- nobody can put something else in the place of what a revision has pinned
  CHECK (digest = 'sha256:' || encode(sha256(convert_to(body, 'UTF8')), 'hex')),
  -- with the namespace, though UIDs of servers are unique: nobody can take the place of another namespace's server
  PRIMARY KEY (namespace_uid, server_uid, generation, name)
);
CREATE INDEX contracts_by_digest ON ekiden.contracts (namespace_uid, server_uid, digest);

-- What a run waits for, as JSON. Text, because what is asked about may hold what jsonb refuses.
ALTER TABLE ekiden.outcomes ADD COLUMN wait text;
ALTER TABLE ekiden.outcomes DROP CONSTRAINT outcomes_yield_check;
ALTER TABLE ekiden.outcomes ADD CONSTRAINT outcomes_yield_check
  CHECK (yield IN ('completed', 'ceiling', 'waiting', 'checkpoint', 'cancelled', 'failed'));
ALTER TABLE ekiden.outcomes ADD CONSTRAINT outcomes_wait_check CHECK ((yield = 'waiting') = (wait IS NOT NULL));

-- Bounds for the tables of 00001. They are for new rows: what is there already is not looked at, so that no row of a tenant can
-- keep this migration from being carried out.
ALTER TABLE ekiden.claims ADD CONSTRAINT claims_bounds CHECK (octet_length(holder) <= 1024) NOT VALID;
ALTER TABLE ekiden.transcript ADD CONSTRAINT transcript_bounds CHECK (octet_length(kind) <= 64 AND octet_length(body) <= 268435456) NOT VALID;
ALTER TABLE ekiden.outcomes ADD CONSTRAINT outcomes_bounds
  CHECK (octet_length(code) <= 64 AND octet_length(message) <= 4096 AND octet_length(result) <= 67108864 AND octet_length(wait) <= 1048576) NOT VALID;

-- What a namespace's login may do with them. Policies and the inbox it only reads. Of a call it changes who holds it and how
-- it ended, not what it is or that it was begun.
GRANT SELECT ON ekiden.calls, ekiden.inbox, ekiden.policies, ekiden.contracts TO ekiden_tenant;
GRANT INSERT ON ekiden.calls, ekiden.contracts TO ekiden_tenant;
GRANT UPDATE (generation, segment, rule, policy_version, approvals, approved_by, settled_at, kind, code, text, bytes) ON ekiden.calls TO ekiden_tenant;

-- +goose StatementBegin
DO $$
DECLARE t text;
BEGIN
  FOREACH t IN ARRAY ARRAY['calls', 'inbox', 'policies', 'contracts'] LOOP
    EXECUTE format('ALTER TABLE ekiden.%I ENABLE ROW LEVEL SECURITY', t);
    EXECUTE format('CREATE POLICY own_namespace ON ekiden.%I TO ekiden_tenant USING (namespace_uid = (SELECT ekiden.tenant())) WITH CHECK (namespace_uid = (SELECT ekiden.tenant()))', t);
  END LOOP;
END $$;
-- +goose StatementEnd

-- A call that is settled is settled for good: its row cannot be updated. WITH CHECK is said because it would otherwise be the
-- same condition, and no call could be settled.
CREATE POLICY settled_for_good ON ekiden.calls AS RESTRICTIVE FOR UPDATE TO ekiden_tenant USING (settled_at IS NULL) WITH CHECK (true);
