-- What the server has answered for, in its own hand. All of it is record: evidence is worth nothing when it can be changed.

-- Contradictions of the server. While one is not cleared, nothing leaves the site.
CREATE TABLE alarm (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    problem TEXT NOT NULL,
    -- The documents that contradict each other, as JSON.
    evidence TEXT NOT NULL,
    at TEXT NOT NULL
) STRICT;

-- Alarms that a steward has cleared. Each clearing begins a new epoch: what the server showed before binds it no more, and
-- every receipt has to be proved to be in its log again.
CREATE TABLE cleared (
    alarm INTEGER PRIMARY KEY,
    reason TEXT NOT NULL,
    -- Receipts written until then: the server may have lost those.
    receipts INTEGER NOT NULL,
    at TEXT NOT NULL
) STRICT;

-- Signed heads of the server's log, each with the proof that it continues the one before it in its epoch.
CREATE TABLE head (
    epoch INTEGER NOT NULL,
    size INTEGER NOT NULL,
    payload TEXT NOT NULL,
    signature TEXT NOT NULL,
    -- Hashes, hex, one after another.
    consistency TEXT NOT NULL,
    seen_at TEXT NOT NULL,
    PRIMARY KEY (epoch, size)
) STRICT;

-- The server's countersignature of each receipt, as it first came.
CREATE TABLE countersignature (
    epoch INTEGER NOT NULL,
    receipt INTEGER NOT NULL,
    payload TEXT NOT NULL,
    signature TEXT NOT NULL,
    seen_at TEXT NOT NULL,
    PRIMARY KEY (epoch, receipt)
) STRICT;

-- The proof that a receipt is charged in the log: the leaf, and its way to the root of a head that is stored.
CREATE TABLE proof (
    epoch INTEGER NOT NULL,
    receipt INTEGER NOT NULL,
    head INTEGER NOT NULL,
    position INTEGER NOT NULL,
    leaf TEXT NOT NULL,
    inclusion TEXT NOT NULL,
    PRIMARY KEY (epoch, receipt)
) STRICT;

-- Receipts of earlier epochs that the server, asked in this one, does not have any more: they are sent again.
CREATE TABLE lacking (
    epoch INTEGER NOT NULL,
    receipt INTEGER NOT NULL,
    PRIMARY KEY (epoch, receipt)
) STRICT;

CREATE TRIGGER alarm_no_update BEFORE UPDATE ON alarm BEGIN SELECT RAISE(ABORT, 'alarm is a table of record'); END;
CREATE TRIGGER alarm_no_delete BEFORE DELETE ON alarm BEGIN SELECT RAISE(ABORT, 'alarm is a table of record'); END;
CREATE TRIGGER cleared_no_update BEFORE UPDATE ON cleared BEGIN SELECT RAISE(ABORT, 'cleared is a table of record'); END;
CREATE TRIGGER cleared_no_delete BEFORE DELETE ON cleared BEGIN SELECT RAISE(ABORT, 'cleared is a table of record'); END;
CREATE TRIGGER head_no_update BEFORE UPDATE ON head BEGIN SELECT RAISE(ABORT, 'head is a table of record'); END;
CREATE TRIGGER head_no_delete BEFORE DELETE ON head BEGIN SELECT RAISE(ABORT, 'head is a table of record'); END;
CREATE TRIGGER countersignature_no_update BEFORE UPDATE ON countersignature BEGIN SELECT RAISE(ABORT, 'countersignature is a table of record'); END;
CREATE TRIGGER countersignature_no_delete BEFORE DELETE ON countersignature BEGIN SELECT RAISE(ABORT, 'countersignature is a table of record'); END;
CREATE TRIGGER proof_no_update BEFORE UPDATE ON proof BEGIN SELECT RAISE(ABORT, 'proof is a table of record'); END;
CREATE TRIGGER proof_no_delete BEFORE DELETE ON proof BEGIN SELECT RAISE(ABORT, 'proof is a table of record'); END;
CREATE TRIGGER lacking_no_update BEFORE UPDATE ON lacking BEGIN SELECT RAISE(ABORT, 'lacking is a table of record'); END;
CREATE TRIGGER lacking_no_delete BEFORE DELETE ON lacking BEGIN SELECT RAISE(ABORT, 'lacking is a table of record'); END;
