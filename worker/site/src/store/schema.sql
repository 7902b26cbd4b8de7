-- The site's database. Tables of record are append-only: their rows are what the site vouches for.

-- The ledger: reserve, commit, settle, one row each, in order; the hash covers this row and all before it.
CREATE TABLE entry (
    sequence INTEGER PRIMARY KEY,
    payload TEXT NOT NULL,
    hash TEXT NOT NULL,
    kind TEXT GENERATED ALWAYS AS (json_extract(payload, '$.kind')) VIRTUAL,
    job TEXT GENERATED ALWAYS AS (json_extract(payload, '$.job')) VIRTUAL
) STRICT;

-- Signed receipts, the site's chain: one for every release that was paid or published.
CREATE TABLE receipt (
    sequence INTEGER PRIMARY KEY,
    payload TEXT NOT NULL,
    signature TEXT NOT NULL,
    digest TEXT NOT NULL UNIQUE,
    job TEXT GENERATED ALWAYS AS (json_extract(payload, '$.job')) VIRTUAL,
    dataset TEXT GENERATED ALWAYS AS (json_extract(payload, '$.dataset')) VIRTUAL,
    series TEXT GENERATED ALWAYS AS (json_extract(payload, '$.series')) VIRTUAL,
    round INTEGER GENERATED ALWAYS AS (json_extract(payload, '$.round')) VIRTUAL
) STRICT;
CREATE INDEX receipt_of_round ON receipt (job, dataset, series, round);

-- What was released in the clear, of data that the policy marks as open: no budget can admit it, none is charged.
CREATE TABLE published (
    sequence INTEGER PRIMARY KEY,
    payload TEXT NOT NULL,
    hash TEXT NOT NULL
) STRICT;

-- Receipts that the server has.
CREATE TABLE acknowledged (receipt INTEGER PRIMARY KEY) STRICT;

-- Each dataset's line of versions: made once, kept for life.
CREATE TABLE lineage (name TEXT PRIMARY KEY, lineage TEXT NOT NULL UNIQUE) STRICT;

-- The first manifest seen under a job's id; another one is refused.
CREATE TABLE manifest (
    job TEXT NOT NULL,
    dataset TEXT NOT NULL,
    digest TEXT NOT NULL,
    payload TEXT NOT NULL,
    signature TEXT NOT NULL,
    seen_at TEXT NOT NULL,
    PRIMARY KEY (job, dataset)
) STRICT;

-- What was decided here, by the policy or at the terminal.
CREATE TABLE decision (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job TEXT NOT NULL,
    dataset TEXT NOT NULL,
    manifest TEXT NOT NULL,
    approve INTEGER NOT NULL,
    by TEXT NOT NULL,
    reason TEXT NOT NULL,
    at TEXT NOT NULL
) STRICT;
CREATE INDEX decision_of_job ON decision (job, dataset);

-- Below: the present state, which changes.

-- The server's id of each line.
CREATE TABLE registered (lineage TEXT PRIMARY KEY, dataset TEXT NOT NULL UNIQUE) STRICT;

-- Decisions that the server has been told.
CREATE TABLE told (decision INTEGER PRIMARY KEY) STRICT;

-- Runs: the last lease of each, and how it ended here.
CREATE TABLE run (
    job TEXT NOT NULL,
    dataset TEXT NOT NULL,
    lease TEXT NOT NULL,
    ended TEXT,
    told INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (job, dataset)
) STRICT;

-- Finished vectors, in files beside: kept until the server has them and the job is over.
CREATE TABLE vector (
    job TEXT NOT NULL,
    dataset TEXT NOT NULL,
    series TEXT NOT NULL,
    round INTEGER NOT NULL,
    digest TEXT NOT NULL,
    length INTEGER NOT NULL,
    receipt INTEGER,
    accepted INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (job, dataset, series, round)
) STRICT;

CREATE TRIGGER entry_no_update BEFORE UPDATE ON entry BEGIN SELECT RAISE(ABORT, 'entry is a table of record'); END;
CREATE TRIGGER entry_no_delete BEFORE DELETE ON entry BEGIN SELECT RAISE(ABORT, 'entry is a table of record'); END;
CREATE TRIGGER receipt_no_update BEFORE UPDATE ON receipt BEGIN SELECT RAISE(ABORT, 'receipt is a table of record'); END;
CREATE TRIGGER receipt_no_delete BEFORE DELETE ON receipt BEGIN SELECT RAISE(ABORT, 'receipt is a table of record'); END;
CREATE TRIGGER published_no_update BEFORE UPDATE ON published BEGIN SELECT RAISE(ABORT, 'published is a table of record'); END;
CREATE TRIGGER published_no_delete BEFORE DELETE ON published BEGIN SELECT RAISE(ABORT, 'published is a table of record'); END;
CREATE TRIGGER acknowledged_no_update BEFORE UPDATE ON acknowledged BEGIN SELECT RAISE(ABORT, 'acknowledged is a table of record'); END;
CREATE TRIGGER acknowledged_no_delete BEFORE DELETE ON acknowledged BEGIN SELECT RAISE(ABORT, 'acknowledged is a table of record'); END;
CREATE TRIGGER lineage_no_update BEFORE UPDATE ON lineage BEGIN SELECT RAISE(ABORT, 'lineage is a table of record'); END;
CREATE TRIGGER lineage_no_delete BEFORE DELETE ON lineage BEGIN SELECT RAISE(ABORT, 'lineage is a table of record'); END;
CREATE TRIGGER manifest_no_update BEFORE UPDATE ON manifest BEGIN SELECT RAISE(ABORT, 'manifest is a table of record'); END;
CREATE TRIGGER manifest_no_delete BEFORE DELETE ON manifest BEGIN SELECT RAISE(ABORT, 'manifest is a table of record'); END;
CREATE TRIGGER decision_no_update BEFORE UPDATE ON decision BEGIN SELECT RAISE(ABORT, 'decision is a table of record'); END;
CREATE TRIGGER decision_no_delete BEFORE DELETE ON decision BEGIN SELECT RAISE(ABORT, 'decision is a table of record'); END;
