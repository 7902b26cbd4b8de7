-- The newest position of each peer's ledger that the peer has signed. It is handed back to the peer as a sighting.
CREATE TABLE peer_position (
    worker TEXT PRIMARY KEY,
    receipts INTEGER NOT NULL,
    payload TEXT NOT NULL,
    signature TEXT NOT NULL
) STRICT;

-- The newest sighting of this site's ledger by each peer: number of receipts, and the peer's clock.
CREATE TABLE peer_sighting (worker TEXT PRIMARY KEY, receipts INTEGER NOT NULL, observed_at TEXT NOT NULL) STRICT;

-- Positions that this site once signed and that its ledger did not have when a peer showed them.
CREATE TABLE own_position (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    receipts INTEGER NOT NULL,
    digest TEXT NOT NULL,
    -- The peer's worker, and its signed sighting.
    peer TEXT NOT NULL,
    payload TEXT NOT NULL,
    signature TEXT NOT NULL,
    at TEXT NOT NULL,
    UNIQUE (receipts, digest)
) STRICT;

-- Positions that hold nothing back any more, by the word of the site's operator: all up to this id.
CREATE TABLE position_overruled (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    position INTEGER NOT NULL,
    reason TEXT NOT NULL,
    at TEXT NOT NULL
) STRICT;

CREATE TRIGGER own_position_no_update BEFORE UPDATE ON own_position BEGIN SELECT RAISE(ABORT, 'own_position is a table of record'); END;
CREATE TRIGGER own_position_no_delete BEFORE DELETE ON own_position BEGIN SELECT RAISE(ABORT, 'own_position is a table of record'); END;
CREATE TRIGGER position_overruled_no_update BEFORE UPDATE ON position_overruled BEGIN SELECT RAISE(ABORT, 'position_overruled is a table of record'); END;
CREATE TRIGGER position_overruled_no_delete BEFORE DELETE ON position_overruled BEGIN SELECT RAISE(ABORT, 'position_overruled is a table of record'); END;
