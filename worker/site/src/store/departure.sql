-- The jobs that this site left, a row for each dataset. A departure is final.
CREATE TABLE departure (
    job TEXT NOT NULL,
    dataset TEXT NOT NULL,
    manifest TEXT NOT NULL,
    reason TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (job, dataset)
) STRICT;

-- Departures that the server knows, or will never accept.
CREATE TABLE departure_told (
    job TEXT NOT NULL,
    dataset TEXT NOT NULL,
    PRIMARY KEY (job, dataset)
) STRICT;

CREATE TRIGGER departure_no_update BEFORE UPDATE ON departure BEGIN SELECT RAISE(ABORT, 'departure is a table of record'); END;
CREATE TRIGGER departure_no_delete BEFORE DELETE ON departure BEGIN SELECT RAISE(ABORT, 'departure is a table of record'); END;
