-- Changes of stewards' credentials, as the server announced them.
CREATE TABLE credential_notice (
    id TEXT PRIMARY KEY,
    text TEXT NOT NULL,
    at TEXT NOT NULL,
    seen_at TEXT NOT NULL
) STRICT;

CREATE TRIGGER credential_notice_no_update BEFORE UPDATE ON credential_notice BEGIN SELECT RAISE(ABORT, 'credential_notice is a table of record'); END;
CREATE TRIGGER credential_notice_no_delete BEFORE DELETE ON credential_notice BEGIN SELECT RAISE(ABORT, 'credential_notice is a table of record'); END;
