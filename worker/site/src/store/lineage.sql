-- Lineages: which datasets share accounts, and by which fingerprints their data are recognized. Kept for life.

-- Datasets that joined a lineage which another dataset began; those that began one are in `lineage`.
CREATE TABLE lineage_join (
    name TEXT PRIMARY KEY,
    lineage TEXT NOT NULL,
    -- The dataset that it continues, as the steward named it; empty where the folder itself named the lineage.
    continues TEXT NOT NULL,
    at TEXT NOT NULL
) STRICT;

-- Lineages of the organization's other workers, as a steward imported them.
CREATE TABLE lineage_elsewhere (
    lineage TEXT NOT NULL,
    name TEXT NOT NULL,
    worker TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (lineage, name)
) STRICT;

-- Secrets under which fingerprints are taken: the organization's, made by its first worker and imported by the others.
CREATE TABLE organization_key (
    id TEXT PRIMARY KEY,
    secret BLOB NOT NULL,
    at TEXT NOT NULL
) STRICT;

-- Fingerprints of a lineage's data, of all versions that it ever had: 16 bytes each, ascending. They change only by merging more in.
CREATE TABLE fingerprint (
    lineage TEXT NOT NULL,
    key TEXT NOT NULL,
    kind TEXT NOT NULL,
    items BLOB NOT NULL,
    PRIMARY KEY (lineage, key, kind)
) STRICT;

-- Versions of datasets whose fingerprints are among these, by name and digest; `sources`: 1 when those of their sources are.
CREATE TABLE fingerprinted (
    name TEXT NOT NULL,
    digest TEXT NOT NULL,
    sources INTEGER NOT NULL,
    PRIMARY KEY (name, digest)
) STRICT;

-- The server's id of each dataset. Several may be of one lineage, so `registered`, which had them by lineage, is no more.
CREATE TABLE registered_dataset (name TEXT PRIMARY KEY, dataset TEXT NOT NULL UNIQUE) STRICT;
INSERT INTO registered_dataset (name, dataset)
    SELECT lineage.name, registered.dataset FROM registered JOIN lineage ON lineage.lineage = registered.lineage;
DROP TABLE registered;

CREATE TRIGGER lineage_join_no_update BEFORE UPDATE ON lineage_join BEGIN SELECT RAISE(ABORT, 'lineage_join is a table of record'); END;
CREATE TRIGGER lineage_join_no_delete BEFORE DELETE ON lineage_join BEGIN SELECT RAISE(ABORT, 'lineage_join is a table of record'); END;
CREATE TRIGGER lineage_elsewhere_no_update BEFORE UPDATE ON lineage_elsewhere BEGIN SELECT RAISE(ABORT, 'lineage_elsewhere is a table of record'); END;
CREATE TRIGGER lineage_elsewhere_no_delete BEFORE DELETE ON lineage_elsewhere BEGIN SELECT RAISE(ABORT, 'lineage_elsewhere is a table of record'); END;
CREATE TRIGGER organization_key_no_update BEFORE UPDATE ON organization_key BEGIN SELECT RAISE(ABORT, 'organization_key is a table of record'); END;
CREATE TRIGGER organization_key_no_delete BEFORE DELETE ON organization_key BEGIN SELECT RAISE(ABORT, 'organization_key is a table of record'); END;
CREATE TRIGGER fingerprint_no_delete BEFORE DELETE ON fingerprint BEGIN SELECT RAISE(ABORT, 'fingerprints are kept for life'); END;
