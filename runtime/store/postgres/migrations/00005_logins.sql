-- +goose Up
-- A table that somebody reads is waited for only briefly, because everybody else queues behind this. The manager tries again.
SELECT set_config('lock_timeout', '5s', true);

-- A namespace has logins in turn: ekiden_ and its UID, that with _a, that with _b. One is in its Secret. Those before it stay for
-- as long as a pod may live that was started with them.
ALTER TABLE ekiden.tenants
  ADD COLUMN slot       text NOT NULL DEFAULT '' CHECK (slot IN ('', 'a', 'b')),
  -- since when the login of this slot is the one in the Secret
  ADD COLUMN slot_since timestamptz NOT NULL DEFAULT now(),
  -- whether there may be logins of other slots
  ADD COLUMN retiring   boolean NOT NULL DEFAULT false;
