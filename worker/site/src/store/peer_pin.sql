-- Fingerprints of other sites' identity keys, pinned at this site's terminal: a row for each change, the last one of a fingerprint counts.
CREATE TABLE peer_pin (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    -- SHA-256 of the Ed25519 public key, hex.
    fingerprint TEXT NOT NULL,
    -- 1: pinned; 0: not any more.
    pinned INTEGER NOT NULL,
    label TEXT NOT NULL,
    at TEXT NOT NULL
) STRICT;
CREATE INDEX peer_pin_of ON peer_pin (fingerprint);

CREATE TRIGGER peer_pin_no_update BEFORE UPDATE ON peer_pin BEGIN SELECT RAISE(ABORT, 'peer_pin is a table of record'); END;
CREATE TRIGGER peer_pin_no_delete BEFORE DELETE ON peer_pin BEGIN SELECT RAISE(ABORT, 'peer_pin is a table of record'); END;
