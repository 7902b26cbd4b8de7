-- Keys with which stewards approve jobs, pinned at this site's terminal: a row for each change, the last one of a key counts.
CREATE TABLE approval_key (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    fingerprint TEXT NOT NULL,
    -- 1: pinned; 0: not any more.
    pinned INTEGER NOT NULL,
    key TEXT NOT NULL,
    label TEXT NOT NULL,
    at TEXT NOT NULL
) STRICT;
CREATE INDEX approval_key_of ON approval_key (fingerprint);

-- Approvals whose signature this site verified, as they came.
CREATE TABLE steward_approval (
    job TEXT NOT NULL,
    dataset TEXT NOT NULL,
    manifest TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    approval TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (job, dataset, manifest, fingerprint)
) STRICT;

CREATE TRIGGER approval_key_no_update BEFORE UPDATE ON approval_key BEGIN SELECT RAISE(ABORT, 'approval_key is a table of record'); END;
CREATE TRIGGER approval_key_no_delete BEFORE DELETE ON approval_key BEGIN SELECT RAISE(ABORT, 'approval_key is a table of record'); END;
CREATE TRIGGER steward_approval_no_update BEFORE UPDATE ON steward_approval BEGIN SELECT RAISE(ABORT, 'steward_approval is a table of record'); END;
CREATE TRIGGER steward_approval_no_delete BEFORE DELETE ON steward_approval BEGIN SELECT RAISE(ABORT, 'steward_approval is a table of record'); END;
