-- Pruning: how far back history may have gaps, and the ledger by age.

-- Runs and ledger entries that ended before this instant may be gone. Raised in the transactions that remove them; what lies before it
-- is not missed by `ql3 verify`. That nothing is admitted again is proved by trigger_schedules, which is never pruned.
CREATE TABLE history_retention (
    one              INTEGER NOT NULL PRIMARY KEY CONSTRAINT history_retention_one CHECK (one = 1),
    pruned_before_ms INTEGER NOT NULL
        CONSTRAINT history_retention_pruned_before CHECK (pruned_before_ms BETWEEN 0 AND 9007199254740991)
) STRICT;

CREATE INDEX schedule_ledger_age ON schedule_ledger (to_ms, id);
