-- Runs, their attempts, their events and their retry policy.

CREATE TABLE runs (
    id                     TEXT NOT NULL PRIMARY KEY CONSTRAINT runs_id CHECK (length(id) = 36),
    project_id             TEXT NOT NULL CONSTRAINT runs_project_id CHECK (length(project_id) BETWEEN 1 AND 128),
    task_id                TEXT NOT NULL CONSTRAINT runs_task_id CHECK (length(task_id) BETWEEN 1 AND 128),
    task_revision          INTEGER NOT NULL CONSTRAINT runs_task_revision CHECK (task_revision BETWEEN 1 AND 4294967295),
    task_digest            TEXT NOT NULL CONSTRAINT runs_task_digest CHECK (length(task_digest) = 64),
    task_name              TEXT NOT NULL,
    task_snapshot_ref      TEXT,
    parent_run_id          TEXT CONSTRAINT runs_parent_fk REFERENCES runs (id),
    retry_of_run_id        TEXT CONSTRAINT runs_retry_of_fk REFERENCES runs (id),
    trigger_id             TEXT,
    trigger_revision       INTEGER CONSTRAINT runs_trigger_revision CHECK (trigger_revision BETWEEN 1 AND 4294967295),
    trigger_digest         TEXT CONSTRAINT runs_trigger_digest CHECK (length(trigger_digest) = 64),
    trigger_type           TEXT NOT NULL CONSTRAINT runs_trigger_type CHECK (trigger_type IN ('cron', 'manual', 'api', 'retry')),
    execution_origin       TEXT NOT NULL
        CONSTRAINT runs_execution_origin CHECK (execution_origin IN ('scheduled_system', 'manual', 'api')),
    execution_owner        TEXT NOT NULL CONSTRAINT runs_execution_owner CHECK (length(execution_owner) BETWEEN 1 AND 128),
    triggered_by           TEXT,
    request_id             TEXT,
    scheduled_for_ms       INTEGER CONSTRAINT runs_scheduled_for CHECK (scheduled_for_ms BETWEEN 0 AND 9007199254740991),
    status                 TEXT NOT NULL CONSTRAINT runs_status CHECK (status IN (
        'created', 'queued', 'dispatching', 'running', 'waiting_approval', 'retry_wait', 'lost',
        'succeeded', 'failed', 'cancelled', 'timed_out')),
    version                INTEGER NOT NULL CONSTRAINT runs_version CHECK (version BETWEEN 1 AND 9007199254740991),
    event_sequence         INTEGER NOT NULL CONSTRAINT runs_event_sequence CHECK (event_sequence BETWEEN 0 AND 9007199254740991),
    priority               INTEGER NOT NULL CONSTRAINT runs_priority CHECK (priority BETWEEN -2147483648 AND 2147483647),
    idempotency_key        TEXT,
    input_ref              TEXT,
    output_ref             TEXT,
    created_at_ms          INTEGER NOT NULL CONSTRAINT runs_created_at CHECK (created_at_ms BETWEEN 0 AND 9007199254740991),
    queued_at_ms           INTEGER CONSTRAINT runs_queued_at CHECK (queued_at_ms BETWEEN 0 AND 9007199254740991),
    started_at_ms          INTEGER CONSTRAINT runs_started_at CHECK (started_at_ms BETWEEN 0 AND 9007199254740991),
    finished_at_ms         INTEGER CONSTRAINT runs_finished_at CHECK (finished_at_ms BETWEEN 0 AND 9007199254740991),
    cancel_requested_at_ms INTEGER CONSTRAINT runs_cancel_requested_at CHECK (cancel_requested_at_ms BETWEEN 0 AND 9007199254740991),
    cancel_reason          TEXT
        CONSTRAINT runs_cancel_reason CHECK (cancel_reason IN ('user', 'policy', 'shutdown', 'reconcile', 'timeout')),
    error_code             TEXT,
    error_summary          TEXT,
    legacy_cron_id         INTEGER CONSTRAINT runs_legacy_cron_id CHECK (legacy_cron_id BETWEEN 1 AND 9007199254740991)
) STRICT;

CREATE UNIQUE INDEX runs_idempotency_key ON runs (project_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
-- Lists, newest first: everything, a project's, a task's, a trigger's, those in a state.
CREATE INDEX runs_created ON runs (created_at_ms, id);
CREATE INDEX runs_project ON runs (project_id, created_at_ms, id);
CREATE INDEX runs_task ON runs (project_id, task_id, created_at_ms, id);
CREATE INDEX runs_trigger ON runs (project_id, trigger_id, created_at_ms, id) WHERE trigger_id IS NOT NULL;
CREATE INDEX runs_status ON runs (status, created_at_ms, id);
CREATE INDEX runs_occurrence ON runs (project_id, trigger_id, scheduled_for_ms, id) WHERE trigger_id IS NOT NULL;
-- Overlap: a trigger's Runs that have not ended.
CREATE INDEX runs_unfinished ON runs (project_id, trigger_id, id)
    WHERE trigger_id IS NOT NULL AND status NOT IN ('succeeded', 'failed', 'cancelled', 'timed_out');
-- What workers may take. Project and task stand at its end so that a limited task is passed over without reading its Runs.
CREATE INDEX runs_dispatch ON runs (execution_owner, priority DESC, queued_at_ms, id, project_id, task_id)
    WHERE status = 'queued' AND cancel_requested_at_ms IS NULL;
-- Recovery of cancellations.
CREATE INDEX runs_cancellation ON runs (cancel_requested_at_ms, id)
    WHERE cancel_requested_at_ms IS NOT NULL AND status NOT IN ('succeeded', 'failed', 'cancelled', 'timed_out');
-- Children of foreign keys, for pruning.
CREATE INDEX runs_parent ON runs (parent_run_id) WHERE parent_run_id IS NOT NULL;
CREATE INDEX runs_retry_of ON runs (retry_of_run_id) WHERE retry_of_run_id IS NOT NULL;

CREATE TABLE run_attempts (
    id                  TEXT NOT NULL PRIMARY KEY CONSTRAINT run_attempts_id CHECK (length(id) = 36),
    run_id              TEXT NOT NULL CONSTRAINT run_attempts_run_fk REFERENCES runs (id),
    step_run_id         TEXT,
    attempt             INTEGER NOT NULL CONSTRAINT run_attempts_attempt CHECK (attempt BETWEEN 1 AND 4294967295),
    status              TEXT NOT NULL CONSTRAINT run_attempts_status CHECK (status IN (
        'claimed', 'starting', 'running', 'succeeded', 'failed', 'cancelled', 'timed_out', 'lost')),
    executor_type       TEXT NOT NULL CONSTRAINT run_attempts_executor_type CHECK (executor_type IN ('local_process', 'remote_worker')),
    worker_id           TEXT,
    executor_handle     TEXT,
    pid                 INTEGER CONSTRAINT run_attempts_pid CHECK (pid BETWEEN 0 AND 4294967295),
    log_artifact_id     TEXT,
    lease_token         TEXT CONSTRAINT run_attempts_lease_token CHECK (length(lease_token) = 64),
    lease_expires_at_ms INTEGER CONSTRAINT run_attempts_lease_expires_at CHECK (lease_expires_at_ms BETWEEN 0 AND 9007199254740991),
    deadline_at_ms      INTEGER CONSTRAINT run_attempts_deadline_at CHECK (deadline_at_ms BETWEEN 0 AND 9007199254740991),
    callback_token_hash TEXT CONSTRAINT run_attempts_callback_token CHECK (length(callback_token_hash) = 64),
    callback_sequence   INTEGER NOT NULL
        CONSTRAINT run_attempts_callback_sequence CHECK (callback_sequence BETWEEN 0 AND 9007199254740991),
    created_at_ms       INTEGER NOT NULL CONSTRAINT run_attempts_created_at CHECK (created_at_ms BETWEEN 0 AND 9007199254740991),
    started_at_ms       INTEGER CONSTRAINT run_attempts_started_at CHECK (started_at_ms BETWEEN 0 AND 9007199254740991),
    finished_at_ms      INTEGER CONSTRAINT run_attempts_finished_at CHECK (finished_at_ms BETWEEN 0 AND 9007199254740991),
    exit_code           INTEGER CONSTRAINT run_attempts_exit_code CHECK (exit_code BETWEEN -2147483648 AND 2147483647),
    error_code          TEXT,
    error_summary       TEXT
) STRICT;

CREATE UNIQUE INDEX run_attempts_number ON run_attempts (run_id, attempt);

CREATE TABLE run_events (
    id            TEXT NOT NULL PRIMARY KEY CONSTRAINT run_events_id CHECK (length(id) = 36),
    run_id        TEXT NOT NULL CONSTRAINT run_events_run_fk REFERENCES runs (id),
    sequence      INTEGER NOT NULL CONSTRAINT run_events_sequence CHECK (sequence BETWEEN 1 AND 9007199254740991),
    type          TEXT NOT NULL CONSTRAINT run_events_type CHECK (length(type) BETWEEN 1 AND 64),
    dedupe_key    TEXT,
    actor_type    TEXT NOT NULL CONSTRAINT run_events_actor_type CHECK (actor_type IN (
        'user', 'api_app', 'trigger', 'agent', 'mcp_client', 'worker', 'executor', 'system', 'legacy_shell', 'scheduler',
        'reconciler', 'compatibility')),
    actor_id      TEXT,
    attempt_id    TEXT CONSTRAINT run_events_attempt_fk REFERENCES run_attempts (id),
    step_run_id   TEXT,
    payload       TEXT NOT NULL CONSTRAINT run_events_payload CHECK (json_type(payload) = 'object'),
    created_at_ms INTEGER NOT NULL CONSTRAINT run_events_created_at CHECK (created_at_ms BETWEEN 0 AND 9007199254740991)
) STRICT;

CREATE UNIQUE INDEX run_events_number ON run_events (run_id, sequence);
CREATE UNIQUE INDEX run_events_dedupe ON run_events (run_id, dedupe_key) WHERE dedupe_key IS NOT NULL;
CREATE INDEX run_events_attempt ON run_events (attempt_id) WHERE attempt_id IS NOT NULL;

CREATE TABLE run_retry_policies (
    run_id             TEXT NOT NULL PRIMARY KEY CONSTRAINT run_retry_policies_run_fk REFERENCES runs (id) ON DELETE CASCADE,
    max_attempts       INTEGER NOT NULL CONSTRAINT run_retry_policies_max_attempts CHECK (max_attempts BETWEEN 1 AND 16),
    retry_on_lost      INTEGER NOT NULL CONSTRAINT run_retry_policies_on_lost CHECK (retry_on_lost IN (0, 1)),
    safety             TEXT NOT NULL
        CONSTRAINT run_retry_policies_safety CHECK (safety IN ('unknown', 'idempotent', 'deduplicated')),
    backoff_base_ms    INTEGER NOT NULL CONSTRAINT run_retry_policies_backoff_base CHECK (backoff_base_ms BETWEEN 0 AND 86400000),
    backoff_max_ms     INTEGER NOT NULL
        CONSTRAINT run_retry_policies_backoff_max CHECK (backoff_max_ms BETWEEN backoff_base_ms AND 86400000),
    next_attempt_at_ms INTEGER
        CONSTRAINT run_retry_policies_next_attempt_at CHECK (next_attempt_at_ms BETWEEN 0 AND 9007199254740991),
    version            INTEGER NOT NULL CONSTRAINT run_retry_policies_version CHECK (version BETWEEN 1 AND 9007199254740991),
    created_at_ms      INTEGER NOT NULL
        CONSTRAINT run_retry_policies_created_at CHECK (created_at_ms BETWEEN 0 AND 9007199254740991),
    updated_at_ms      INTEGER NOT NULL
        CONSTRAINT run_retry_policies_updated_at CHECK (updated_at_ms BETWEEN 0 AND 9007199254740991)
) STRICT, WITHOUT ROWID;

CREATE INDEX run_retry_policies_due ON run_retry_policies (next_attempt_at_ms, run_id) WHERE next_attempt_at_ms IS NOT NULL;
