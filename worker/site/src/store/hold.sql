-- Which jobs this site holds, and since when it does not any more: a row for each word, the last one counts.
CREATE TABLE hold (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job TEXT NOT NULL,
    dataset TEXT NOT NULL,
    manifest TEXT NOT NULL,
    -- 1: nothing goes on; 0: it may.
    hold INTEGER NOT NULL,
    -- Who said so: `terminal`, or `worker`, which waits for an answer at the terminal.
    by TEXT NOT NULL,
    reason TEXT NOT NULL,
    at TEXT NOT NULL
) STRICT;
CREATE INDEX hold_of ON hold (job, dataset);

-- Words that the server knows.
CREATE TABLE hold_told (hold INTEGER PRIMARY KEY) STRICT;

CREATE TRIGGER hold_no_update BEFORE UPDATE ON hold BEGIN SELECT RAISE(ABORT, 'hold is a table of record'); END;
CREATE TRIGGER hold_no_delete BEFORE DELETE ON hold BEGIN SELECT RAISE(ABORT, 'hold is a table of record'); END;
