-- Peers whose cosigned heads of the server's log this site has compared with its own, by worker.
CREATE TABLE peer (
    worker TEXT PRIMARY KEY,
    worker_name TEXT NOT NULL,
    organization_name TEXT NOT NULL,
    -- The Ed25519 public key under which the site knows the peer, hex: the first one relayed, or the one that followed it.
    public_key TEXT NOT NULL,
    -- When a steward compared the key's fingerprint with the peer's operator; NULL before.
    confirmed_at TEXT,
    first_seen_at TEXT NOT NULL,
    -- The newest observation that agreed with this site's log: size of the head, and the peer's clock.
    size INTEGER NOT NULL,
    observed_at TEXT NOT NULL,
    -- A key that the server relays instead, to which no signed change leads, hex; NULL when there is none.
    conflicting_key TEXT
) STRICT;
