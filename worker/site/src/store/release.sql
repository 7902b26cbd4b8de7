-- One receipt, one set of bytes.

-- 1: a receipt pays for this release that came from elsewhere than this ledger, or from a worker that paid before it stored the
-- bytes. Its bytes can never be sent again.
ALTER TABLE vector ADD COLUMN lost INTEGER NOT NULL DEFAULT 0;

-- What was paid before this version and has no reference.
INSERT INTO vector (job, dataset, series, round, digest, length, receipt, accepted, lost)
SELECT job, dataset, series, round, '', 0, MAX(sequence), 1, 1 FROM receipt
WHERE NOT EXISTS (SELECT 1 FROM vector
    WHERE vector.job = receipt.job AND vector.dataset = receipt.dataset
        AND vector.series = receipt.series AND vector.round = receipt.round)
GROUP BY job, dataset, series, round;

-- Reservations of jobs that were open in a copy of this ledger that was put back: releases may have been paid from them of which
-- nobody told this ledger, so nothing of them is ever given back.
CREATE TABLE withheld (
    job TEXT NOT NULL,
    dataset TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (job, dataset)
) STRICT;

CREATE TRIGGER withheld_no_update BEFORE UPDATE ON withheld BEGIN SELECT RAISE(ABORT, 'withheld is a table of record'); END;
CREATE TRIGGER withheld_no_delete BEFORE DELETE ON withheld BEGIN SELECT RAISE(ABORT, 'withheld is a table of record'); END;
