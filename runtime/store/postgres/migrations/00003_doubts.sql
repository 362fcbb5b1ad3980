-- +goose Up
-- What is needed to ask what came of a call. As in 00001 the line above each table says who writes it.
-- A table that somebody reads is waited for only briefly, because everybody else queues behind this. The manager tries again.
SELECT set_config('lock_timeout', '5s', true);

-- manager: the generation under which the attempt's process worked, once the manager saw that process end; set once. NULL says that
-- it may still be at work although the attempt has ended: of a node that is lost nobody sees it. What that process began and did
-- not settle, nobody sends any more.
ALTER TABLE ekiden.attempts ADD COLUMN terminated_generation bigint;

-- manager: what people said came of a call, beside what they approved.
ALTER TABLE ekiden.inbox DROP CONSTRAINT inbox_kind_check;
ALTER TABLE ekiden.inbox DROP CONSTRAINT inbox_phase_check;
ALTER TABLE ekiden.inbox ADD CONSTRAINT inbox_kind_check CHECK (kind IN ('approval', 'indeterminate'));
ALTER TABLE ekiden.inbox ADD CONSTRAINT inbox_phase_check CHECK (phase = 'Expired'
  OR kind = 'approval' AND phase IN ('Approved', 'Denied')
  OR kind = 'indeterminate' AND phase IN ('Happened', 'NotHappened', 'Retry'));

-- A namespace's login reads which of its processes are gone, and of its attempts nothing else. Which rows are its own the
-- policy of 00001 says.
GRANT SELECT (run_uid, terminated_generation) ON ekiden.attempts TO ekiden_tenant;
