-- The answer to the open terms of a proposal, as JSON; empty without one.
ALTER TABLE decision ADD COLUMN terms TEXT NOT NULL DEFAULT '';

-- The final manifest of each job whose proposal left terms to the parties: the first one that this site saw.
CREATE TABLE settled_manifest (
    job TEXT PRIMARY KEY,
    digest TEXT NOT NULL,
    payload TEXT NOT NULL,
    signature TEXT NOT NULL,
    seen_at TEXT NOT NULL
) STRICT;

CREATE TRIGGER settled_manifest_no_update BEFORE UPDATE ON settled_manifest BEGIN SELECT RAISE(ABORT, 'settled_manifest is a table of record'); END;
CREATE TRIGGER settled_manifest_no_delete BEFORE DELETE ON settled_manifest BEGIN SELECT RAISE(ABORT, 'settled_manifest is a table of record'); END;
