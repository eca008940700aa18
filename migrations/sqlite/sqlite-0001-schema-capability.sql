-- History and capability of the stream sqlite-main.
--
-- Conventions of every file of this stream: ids are the 36 characters of a UUID, so that the shell shows what `ql3` shows and
-- text order is the order of the other profile; instants are UTC milliseconds, 0 ..= 2^53 - 1, in columns named *_at_ms, *_for_ms
-- or *_ms; every CHECK has a name, which is what SQLite reports.

CREATE TABLE schema_migrations (
    position      INTEGER NOT NULL PRIMARY KEY CONSTRAINT schema_migrations_position CHECK (position >= 1),
    id            TEXT NOT NULL CONSTRAINT schema_migrations_id_key UNIQUE,
    dialect       TEXT NOT NULL CONSTRAINT schema_migrations_dialect CHECK (dialect = 'sqlite-main'),
    checksum      TEXT NOT NULL CONSTRAINT schema_migrations_checksum CHECK (length(checksum) = 64 AND checksum NOT GLOB '*[^0-9a-f]*'),
    applied_at_ms INTEGER NOT NULL CONSTRAINT schema_migrations_applied_at CHECK (applied_at_ms BETWEEN 0 AND 9007199254740991)
) STRICT;

-- What the schema can do, raised in the transaction of the migration that adds it.
CREATE TABLE schema_capabilities (
    contract_name    TEXT NOT NULL PRIMARY KEY,
    contract_version INTEGER NOT NULL CONSTRAINT schema_capabilities_version CHECK (contract_version >= 0),
    migration_id     TEXT NOT NULL
        CONSTRAINT schema_capabilities_migration_fk REFERENCES schema_migrations (id) DEFERRABLE INITIALLY DEFERRED,
    capabilities     TEXT NOT NULL CONSTRAINT schema_capabilities_object CHECK (json_type(capabilities) = 'object'),
    updated_at_ms    INTEGER NOT NULL CONSTRAINT schema_capabilities_updated_at CHECK (updated_at_ms BETWEEN 0 AND 9007199254740991)
) STRICT, WITHOUT ROWID;
