-- Restorations of the server that this site has accepted, by the server's signed statements. Each begins a new epoch: the log goes
-- on from the leaves that the statement names, and every receipt has to be proved to be in it again.
CREATE TABLE server_restoration (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    -- The epoch that it begins.
    epoch INTEGER NOT NULL,
    -- Digest of the statement.
    digest TEXT NOT NULL UNIQUE,
    payload TEXT NOT NULL,
    signature TEXT NOT NULL,
    -- Leaves of the restored log.
    size INTEGER NOT NULL,
    -- Receipts up to this number are in the restored log.
    kept INTEGER NOT NULL,
    -- Receipts written until then: the server may have lost those after `kept`.
    receipts INTEGER NOT NULL,
    at TEXT NOT NULL
) STRICT;

-- Restorations after which the server has every receipt of this site again.
CREATE TABLE server_reconciled (restoration INTEGER PRIMARY KEY, at TEXT NOT NULL) STRICT;

-- The epoch in force, and the last receipt that the server may have lost.
CREATE VIEW witness_epoch AS SELECT
    (SELECT COUNT(*) FROM cleared) + (SELECT COUNT(*) FROM server_restoration) AS epoch,
    MAX(COALESCE((SELECT MAX(receipts) FROM cleared), 0), COALESCE((SELECT MAX(receipts) FROM server_restoration), 0)) AS lost;

CREATE TRIGGER server_restoration_no_update BEFORE UPDATE ON server_restoration BEGIN SELECT RAISE(ABORT, 'server_restoration is a table of record'); END;
CREATE TRIGGER server_restoration_no_delete BEFORE DELETE ON server_restoration BEGIN SELECT RAISE(ABORT, 'server_restoration is a table of record'); END;
CREATE TRIGGER server_reconciled_no_update BEFORE UPDATE ON server_reconciled BEGIN SELECT RAISE(ABORT, 'server_reconciled is a table of record'); END;
CREATE TRIGGER server_reconciled_no_delete BEFORE DELETE ON server_reconciled BEGIN SELECT RAISE(ABORT, 'server_reconciled is a table of record'); END;
