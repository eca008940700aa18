-- Definitions: immutable revisions (canonical text and its digest; a tombstone repeats what it buried), heads that point at the
-- current ones, and where each trigger stands.

CREATE TABLE task_revisions (
    project_id    TEXT NOT NULL,
    task_id       TEXT NOT NULL,
    revision      INTEGER NOT NULL CONSTRAINT task_revisions_revision CHECK (revision BETWEEN 1 AND 4294967295),
    digest        TEXT NOT NULL CONSTRAINT task_revisions_digest CHECK (length(digest) = 64),
    canonical     TEXT NOT NULL CONSTRAINT task_revisions_canonical CHECK (json_type(canonical) = 'object'),
    archived      INTEGER NOT NULL CONSTRAINT task_revisions_archived CHECK (archived IN (0, 1)),
    created_at_ms INTEGER NOT NULL CONSTRAINT task_revisions_created_at CHECK (created_at_ms BETWEEN 0 AND 9007199254740991),
    PRIMARY KEY (project_id, task_id, revision)
) STRICT;

CREATE TABLE task_definitions (
    project_id TEXT NOT NULL CONSTRAINT task_definitions_project_id CHECK (length(project_id) BETWEEN 1 AND 128),
    task_id    TEXT NOT NULL CONSTRAINT task_definitions_task_id CHECK (length(task_id) BETWEEN 1 AND 128),
    revision   INTEGER NOT NULL,
    archived   INTEGER NOT NULL CONSTRAINT task_definitions_archived CHECK (archived IN (0, 1)),
    PRIMARY KEY (project_id, task_id),
    CONSTRAINT task_definitions_revision_fk FOREIGN KEY (project_id, task_id, revision)
        REFERENCES task_revisions (project_id, task_id, revision)
) STRICT, WITHOUT ROWID;

CREATE TABLE trigger_revisions (
    project_id    TEXT NOT NULL,
    trigger_id    TEXT NOT NULL,
    revision      INTEGER NOT NULL CONSTRAINT trigger_revisions_revision CHECK (revision BETWEEN 1 AND 4294967295),
    digest        TEXT NOT NULL CONSTRAINT trigger_revisions_digest CHECK (length(digest) = 64),
    canonical     TEXT NOT NULL CONSTRAINT trigger_revisions_canonical CHECK (json_type(canonical) = 'object'),
    archived      INTEGER NOT NULL CONSTRAINT trigger_revisions_archived CHECK (archived IN (0, 1)),
    created_at_ms INTEGER NOT NULL CONSTRAINT trigger_revisions_created_at CHECK (created_at_ms BETWEEN 0 AND 9007199254740991),
    PRIMARY KEY (project_id, trigger_id, revision)
) STRICT;

CREATE TABLE trigger_definitions (
    project_id TEXT NOT NULL CONSTRAINT trigger_definitions_project_id CHECK (length(project_id) BETWEEN 1 AND 128),
    trigger_id TEXT NOT NULL CONSTRAINT trigger_definitions_trigger_id CHECK (length(trigger_id) BETWEEN 1 AND 128),
    revision   INTEGER NOT NULL,
    task_id    TEXT NOT NULL,
    archived   INTEGER NOT NULL CONSTRAINT trigger_definitions_archived CHECK (archived IN (0, 1)),
    PRIMARY KEY (project_id, trigger_id),
    CONSTRAINT trigger_definitions_revision_fk FOREIGN KEY (project_id, trigger_id, revision)
        REFERENCES trigger_revisions (project_id, trigger_id, revision),
    CONSTRAINT trigger_definitions_task_fk FOREIGN KEY (project_id, task_id) REFERENCES task_definitions (project_id, task_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX trigger_definitions_task ON trigger_definitions (project_id, task_id);

-- One row a trigger, kept for ever: the cursor and the latest admitted occurrence are the proof of admission.
-- Claims are not here: a claim need not outlive the process that holds <db>.lock.
CREATE TABLE trigger_schedules (
    project_id           TEXT NOT NULL,
    trigger_id           TEXT NOT NULL,
    trigger_revision     INTEGER NOT NULL,
    activated_at_ms      INTEGER NOT NULL CONSTRAINT trigger_schedules_activated_at CHECK (activated_at_ms BETWEEN 0 AND 9007199254740991),
    next_fire_at_ms      INTEGER CONSTRAINT trigger_schedules_next_fire_at CHECK (next_fire_at_ms BETWEEN 0 AND 9007199254740991),
    last_scheduled_at_ms INTEGER CONSTRAINT trigger_schedules_last_scheduled_at CHECK (last_scheduled_at_ms BETWEEN 0 AND 9007199254740991),
    paused_at_ms         INTEGER CONSTRAINT trigger_schedules_paused_at CHECK (paused_at_ms BETWEEN 0 AND 9007199254740991),
    paused_by            TEXT,
    paused_reason        TEXT,
    set_aside_at_ms      INTEGER CONSTRAINT trigger_schedules_set_aside_at CHECK (set_aside_at_ms BETWEEN 0 AND 9007199254740991),
    set_aside_reason     TEXT,
    -- Kept by whoever writes what it depends on: trigger and task current and enabled, not paused, not set aside.
    schedulable          INTEGER NOT NULL CONSTRAINT trigger_schedules_schedulable CHECK (schedulable IN (0, 1)),
    state_version        INTEGER NOT NULL CONSTRAINT trigger_schedules_state_version CHECK (state_version BETWEEN 1 AND 9007199254740991),
    claim_version        INTEGER NOT NULL CONSTRAINT trigger_schedules_claim_version CHECK (claim_version BETWEEN 0 AND 9007199254740991),
    zone_data_version    TEXT NOT NULL,
    updated_at_ms        INTEGER NOT NULL CONSTRAINT trigger_schedules_updated_at CHECK (updated_at_ms BETWEEN 0 AND 9007199254740991),
    PRIMARY KEY (project_id, trigger_id),
    CONSTRAINT trigger_schedules_revision_fk FOREIGN KEY (project_id, trigger_id, trigger_revision)
        REFERENCES trigger_revisions (project_id, trigger_id, revision),
    CONSTRAINT trigger_schedules_pause CHECK ((paused_at_ms IS NULL) = (paused_by IS NULL)
        AND (paused_reason IS NULL OR paused_at_ms IS NOT NULL)),
    CONSTRAINT trigger_schedules_set_aside CHECK ((set_aside_at_ms IS NULL) = (set_aside_reason IS NULL)),
    CONSTRAINT trigger_schedules_resting CHECK (schedulable = 0 OR (paused_at_ms IS NULL AND set_aside_at_ms IS NULL))
) STRICT, WITHOUT ROWID;

-- Only rows that can fire, by due time, project, trigger; rows without a cursor stand before all others.
CREATE INDEX trigger_schedules_due ON trigger_schedules (next_fire_at_ms, project_id, trigger_id) WHERE schedulable = 1;
-- Rows to look at again after new zone data.
CREATE INDEX trigger_schedules_zone_data ON trigger_schedules (zone_data_version, project_id, trigger_id);

-- Why occurrences did not run. run_id is no foreign key: the reason outlives a Run that was pruned.
CREATE TABLE schedule_ledger (
    id               INTEGER NOT NULL PRIMARY KEY,
    project_id       TEXT NOT NULL,
    trigger_id       TEXT NOT NULL,
    trigger_revision INTEGER NOT NULL CONSTRAINT schedule_ledger_revision CHECK (trigger_revision BETWEEN 1 AND 4294967295),
    from_ms          INTEGER NOT NULL CONSTRAINT schedule_ledger_from CHECK (from_ms BETWEEN 0 AND 9007199254740991),
    to_ms            INTEGER NOT NULL CONSTRAINT schedule_ledger_to CHECK (to_ms BETWEEN from_ms AND 9007199254740991),
    count            INTEGER NOT NULL CONSTRAINT schedule_ledger_count CHECK (count BETWEEN 1 AND 1000),
    capped           INTEGER NOT NULL CONSTRAINT schedule_ledger_capped CHECK (capped IN (0, 1)),
    reason           TEXT NOT NULL CONSTRAINT schedule_ledger_reason CHECK (reason IN (
        'collapsed', 'misfired', 'overlap', 'superseded', 'paused', 'archived')),
    run_id           TEXT CONSTRAINT schedule_ledger_run_id CHECK (length(run_id) = 36),
    recorded_at_ms   INTEGER NOT NULL CONSTRAINT schedule_ledger_recorded_at CHECK (recorded_at_ms BETWEEN 0 AND 9007199254740991),
    CONSTRAINT schedule_ledger_schedule_fk FOREIGN KEY (project_id, trigger_id) REFERENCES trigger_schedules (project_id, trigger_id)
) STRICT;

CREATE INDEX schedule_ledger_trigger ON schedule_ledger (project_id, trigger_id, to_ms, id);
