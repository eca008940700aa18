-- Who executes what until when, what operators did, and the highest time that was ever committed.

-- One row a worker: its latest start.
CREATE TABLE worker_sessions (
    worker_id       TEXT NOT NULL PRIMARY KEY CONSTRAINT worker_sessions_worker_id CHECK (length(worker_id) BETWEEN 1 AND 128),
    session_id      TEXT NOT NULL CONSTRAINT worker_sessions_session_id CHECK (length(session_id) = 36),
    generation      INTEGER NOT NULL CONSTRAINT worker_sessions_generation CHECK (generation BETWEEN 1 AND 9007199254740991),
    state           TEXT NOT NULL CONSTRAINT worker_sessions_state CHECK (state IN ('online', 'draining', 'offline')),
    capacity        INTEGER NOT NULL CONSTRAINT worker_sessions_capacity CHECK (capacity BETWEEN 0 AND 4294967295),
    heartbeat_at_ms INTEGER NOT NULL CONSTRAINT worker_sessions_heartbeat_at CHECK (heartbeat_at_ms BETWEEN 0 AND 9007199254740991)
) STRICT, WITHOUT ROWID;

-- One row an attempt that was ever leased. It is the authority; the attempt's own lease columns are a projection.
CREATE TABLE run_dispatch_leases (
    attempt_id        TEXT NOT NULL PRIMARY KEY CONSTRAINT run_dispatch_leases_attempt_fk REFERENCES run_attempts (id),
    run_id            TEXT NOT NULL CONSTRAINT run_dispatch_leases_run_fk REFERENCES runs (id),
    project_id        TEXT NOT NULL,
    task_id           TEXT NOT NULL,
    worker_id         TEXT NOT NULL,
    session_id        TEXT NOT NULL CONSTRAINT run_dispatch_leases_session_id CHECK (length(session_id) = 36),
    worker_generation INTEGER NOT NULL
        CONSTRAINT run_dispatch_leases_worker_generation CHECK (worker_generation BETWEEN 1 AND 9007199254740991),
    lease_generation  INTEGER NOT NULL CONSTRAINT run_dispatch_leases_generation CHECK (lease_generation BETWEEN 1 AND 9007199254740991),
    version           INTEGER NOT NULL CONSTRAINT run_dispatch_leases_version CHECK (version BETWEEN 1 AND 9007199254740991),
    -- SHA-256 of the token and of the request, never either of them: a token follows from its request.
    token_hash        TEXT NOT NULL CONSTRAINT run_dispatch_leases_token CHECK (length(token_hash) = 64),
    request_hash      TEXT NOT NULL CONSTRAINT run_dispatch_leases_request CHECK (length(request_hash) = 64),
    -- leased; released unstarted; completed by its holder; taken from it by expiry, recovery or a cancellation.
    state             TEXT NOT NULL CONSTRAINT run_dispatch_leases_state CHECK (state IN ('leased', 'released', 'completed', 'taken')),
    reason            TEXT,
    acquired_at_ms    INTEGER NOT NULL CONSTRAINT run_dispatch_leases_acquired_at CHECK (acquired_at_ms BETWEEN 0 AND 9007199254740991),
    renewed_at_ms     INTEGER NOT NULL CONSTRAINT run_dispatch_leases_renewed_at CHECK (renewed_at_ms BETWEEN 0 AND 9007199254740991),
    expires_at_ms     INTEGER NOT NULL CONSTRAINT run_dispatch_leases_expires_at CHECK (expires_at_ms BETWEEN 0 AND 9007199254740991)
) STRICT, WITHOUT ROWID;

CREATE INDEX run_dispatch_leases_expiry ON run_dispatch_leases (expires_at_ms, attempt_id) WHERE state = 'leased';
CREATE INDEX run_dispatch_leases_worker ON run_dispatch_leases (worker_id, acquired_at_ms, attempt_id) WHERE state = 'leased';
CREATE INDEX run_dispatch_leases_task ON run_dispatch_leases (project_id, task_id) WHERE state = 'leased';
CREATE INDEX run_dispatch_leases_request ON run_dispatch_leases (request_hash);
CREATE INDEX run_dispatch_leases_run ON run_dispatch_leases (run_id);

CREATE TABLE operator_acts (
    id         INTEGER NOT NULL PRIMARY KEY,
    at_ms      INTEGER NOT NULL CONSTRAINT operator_acts_at CHECK (at_ms BETWEEN 0 AND 9007199254740991),
    operator   TEXT NOT NULL CONSTRAINT operator_acts_operator CHECK (length(operator) >= 1),
    reason     TEXT,
    act        TEXT NOT NULL CONSTRAINT operator_acts_act CHECK (act IN (
        'apply', 'archive', 'pause', 'resume', 'start', 'cancel', 'retry', 'prune', 'clock_accept')),
    project_id TEXT,
    object     TEXT NOT NULL,
    detail     TEXT NOT NULL
) STRICT;

-- Written in the transactions of others, never on its own.
CREATE TABLE clock_mark (
    one   INTEGER NOT NULL PRIMARY KEY CONSTRAINT clock_mark_one CHECK (one = 1),
    at_ms INTEGER NOT NULL CONSTRAINT clock_mark_at CHECK (at_ms BETWEEN 0 AND 9007199254740991)
) STRICT;
