-- What audits found, signed with the site's key: one statement for each audited part of a job.
CREATE TABLE statement (
    job TEXT NOT NULL,
    dataset TEXT NOT NULL,
    payload TEXT NOT NULL,
    signature TEXT NOT NULL,
    PRIMARY KEY (job, dataset)
) STRICT;

-- Lines of versions that an audit has stopped, and who let them go on. The last row of a line says how it stands.
CREATE TABLE freeze (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    lineage TEXT NOT NULL,
    frozen INTEGER NOT NULL,
    job TEXT NOT NULL,
    reason TEXT NOT NULL,
    by TEXT NOT NULL,
    at TEXT NOT NULL
) STRICT;
CREATE INDEX freeze_of_lineage ON freeze (lineage, id);

CREATE TRIGGER statement_no_update BEFORE UPDATE ON statement BEGIN SELECT RAISE(ABORT, 'statement is a table of record'); END;
CREATE TRIGGER statement_no_delete BEFORE DELETE ON statement BEGIN SELECT RAISE(ABORT, 'statement is a table of record'); END;
CREATE TRIGGER freeze_no_update BEFORE UPDATE ON freeze BEGIN SELECT RAISE(ABORT, 'freeze is a table of record'); END;
CREATE TRIGGER freeze_no_delete BEFORE DELETE ON freeze BEGIN SELECT RAISE(ABORT, 'freeze is a table of record'); END;
