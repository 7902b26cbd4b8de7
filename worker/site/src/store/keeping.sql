-- What happened to the ledger itself: changes of the site's key, restored backups, and receipts that came back from the server.

-- Changes of the site's key, as the old and the new key have signed them.
CREATE TABLE key_change (
    number INTEGER PRIMARY KEY,
    payload TEXT NOT NULL,
    by_old TEXT NOT NULL,
    by_new TEXT NOT NULL
) STRICT;

-- This database came out of a backup. Until it is compared with what the server has, nothing leaves.
CREATE TABLE restored (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    -- When the backup was made.
    backup_at TEXT NOT NULL,
    -- Receipts in it.
    receipts INTEGER NOT NULL,
    at TEXT NOT NULL
) STRICT;

-- The ledger was compared with the receipts that the server has, and what it lacked was taken in as spent.
CREATE TABLE reconciled (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    -- The last restored backup that this covers; 0 without one.
    restored INTEGER NOT NULL,
    -- Receipts before, and receipts that were taken in.
    receipts INTEGER NOT NULL,
    imported INTEGER NOT NULL,
    at TEXT NOT NULL
) STRICT;

CREATE TRIGGER key_change_no_update BEFORE UPDATE ON key_change BEGIN SELECT RAISE(ABORT, 'key_change is a table of record'); END;
CREATE TRIGGER key_change_no_delete BEFORE DELETE ON key_change BEGIN SELECT RAISE(ABORT, 'key_change is a table of record'); END;
CREATE TRIGGER restored_no_update BEFORE UPDATE ON restored BEGIN SELECT RAISE(ABORT, 'restored is a table of record'); END;
CREATE TRIGGER restored_no_delete BEFORE DELETE ON restored BEGIN SELECT RAISE(ABORT, 'restored is a table of record'); END;
CREATE TRIGGER reconciled_no_update BEFORE UPDATE ON reconciled BEGIN SELECT RAISE(ABORT, 'reconciled is a table of record'); END;
CREATE TRIGGER reconciled_no_delete BEFORE DELETE ON reconciled BEGIN SELECT RAISE(ABORT, 'reconciled is a table of record'); END;
