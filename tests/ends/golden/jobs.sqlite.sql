-- Written by: AFTERRUN_WRITE_GOLDEN=1 pytest tests/ends/test_end_rows_sql.py

-- page by events.at, first
SELECT raw.ended, raw.tie, p."id" IS NOT NULL AS child, u."id" AS "key", u."parent" AS parent, u."status" AS
status, (SELECT CASE WHEN (min(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer',
'real') AND t0."at" >= 946684800000) THEN CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1
END) = -1) THEN -1 ELSE max(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real')
AND t0."at" >= 946684800000) THEN CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) END AS
newest FROM "events" AS t0 WHERE t0."job" = u."id" AND (t0."kind" IS NULL OR t0."kind" != 'planned')) AS
ended, u."name" AS group0 FROM (SELECT timed.ended AS ended, timed.tie AS tie FROM (SELECT (SELECT CASE WHEN
(min(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >=
946684800000) THEN CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) = -1) THEN -1 ELSE
max(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >=
946684800000) THEN CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) END AS newest FROM
"events" AS t0 WHERE t0."job" = k."id" AND (t0."kind" IS NULL OR t0."kind" != 'planned')) AS ended, k.rowid AS
tie FROM "jobs" AS k WHERE k."status" IN ('done', 'failed') LIMIT ? OFFSET 0) AS timed WHERE timed.ended IS
NOT NULL AND timed.ended < ? ORDER BY timed.ended, timed.tie LIMIT ? OFFSET ?) AS raw JOIN "jobs" AS u ON
u.rowid = raw.tie LEFT OUTER JOIN "jobs" AS p ON p."id" = u."parent" ORDER BY raw.ended, raw.tie;

-- page by events.at, tied
SELECT raw.ended, raw.tie, p."id" IS NOT NULL AS child, u."id" AS "key", u."parent" AS parent, u."status" AS
status, (SELECT CASE WHEN (min(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer',
'real') AND t0."at" >= 946684800000) THEN CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1
END) = -1) THEN -1 ELSE max(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real')
AND t0."at" >= 946684800000) THEN CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) END AS
newest FROM "events" AS t0 WHERE t0."job" = u."id" AND (t0."kind" IS NULL OR t0."kind" != 'planned')) AS
ended, u."name" AS group0 FROM (SELECT timed.ended AS ended, timed.tie AS tie FROM (SELECT (SELECT CASE WHEN
(min(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >=
946684800000) THEN CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) = -1) THEN -1 ELSE
max(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >=
946684800000) THEN CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) END AS newest FROM
"events" AS t0 WHERE t0."job" = k."id" AND (t0."kind" IS NULL OR t0."kind" != 'planned')) AS ended, k.rowid AS
tie FROM "jobs" AS k WHERE k."status" IN ('done', 'failed') LIMIT ? OFFSET 0) AS timed WHERE timed.ended IS
NOT NULL AND timed.ended < ? AND timed.ended = ? AND timed.tie > ? ORDER BY timed.ended, timed.tie LIMIT ?
OFFSET ?) AS raw JOIN "jobs" AS u ON u.rowid = raw.tie LEFT OUTER JOIN "jobs" AS p ON p."id" = u."parent"
ORDER BY raw.ended, raw.tie;

-- page by events.at, later
SELECT raw.ended, raw.tie, p."id" IS NOT NULL AS child, u."id" AS "key", u."parent" AS parent, u."status" AS
status, (SELECT CASE WHEN (min(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer',
'real') AND t0."at" >= 946684800000) THEN CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1
END) = -1) THEN -1 ELSE max(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real')
AND t0."at" >= 946684800000) THEN CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) END AS
newest FROM "events" AS t0 WHERE t0."job" = u."id" AND (t0."kind" IS NULL OR t0."kind" != 'planned')) AS
ended, u."name" AS group0 FROM (SELECT timed.ended AS ended, timed.tie AS tie FROM (SELECT (SELECT CASE WHEN
(min(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >=
946684800000) THEN CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) = -1) THEN -1 ELSE
max(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >=
946684800000) THEN CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) END AS newest FROM
"events" AS t0 WHERE t0."job" = k."id" AND (t0."kind" IS NULL OR t0."kind" != 'planned')) AS ended, k.rowid AS
tie FROM "jobs" AS k WHERE k."status" IN ('done', 'failed') LIMIT ? OFFSET 0) AS timed WHERE timed.ended IS
NOT NULL AND timed.ended < ? AND timed.ended > ? ORDER BY timed.ended, timed.tie LIMIT ? OFFSET ?) AS raw JOIN
"jobs" AS u ON u.rowid = raw.tie LEFT OUTER JOIN "jobs" AS p ON p."id" = u."parent" ORDER BY raw.ended,
raw.tie;

-- remaining by events.at
SELECT count(*) AS count_1 FROM "jobs" AS u LEFT OUTER JOIN "jobs" AS p ON p."id" = u."parent" WHERE p."id" IS
NULL AND (u."status" COLLATE "BINARY") IN ('done', 'failed') AND (SELECT CASE WHEN (min(CASE WHEN (t0."at" IS
NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >= 946684800000) THEN
CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) = -1) THEN -1 ELSE max(CASE WHEN
(t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >= 946684800000) THEN
CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) END AS newest FROM "events" AS t0 WHERE
t0."job" = u."id" AND (t0."kind" IS NULL OR t0."kind" != 'planned')) IS NOT NULL AND (SELECT CASE WHEN
(min(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >=
946684800000) THEN CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) = -1) THEN -1 ELSE
max(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >=
946684800000) THEN CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) END AS newest FROM
"events" AS t0 WHERE t0."job" = u."id" AND (t0."kind" IS NULL OR t0."kind" != 'planned')) < ? AND (SELECT CASE
WHEN (min(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >=
946684800000) THEN CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) = -1) THEN -1 ELSE
max(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >=
946684800000) THEN CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) END AS newest FROM
"events" AS t0 WHERE t0."job" = u."id" AND (t0."kind" IS NULL OR t0."kind" != 'planned')) >= ?;

-- facts by key
SELECT u."id" AS "key", u."parent" AS parent, u."status" AS status, (SELECT CASE WHEN (min(CASE WHEN (t0."at"
IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >= 946684800000) THEN
CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) = -1) THEN -1 ELSE max(CASE WHEN
(t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >= 946684800000) THEN
CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) END AS newest FROM "events" AS t0 WHERE
t0."job" = u."id" AND (t0."kind" IS NULL OR t0."kind" != 'planned')) AS ended, u."name" AS group0 FROM "jobs"
AS u WHERE u."id" IN (SELECT anon_1.value FROM json_each(?) AS anon_1);

-- facts by parent 0
SELECT u."id" AS "key", u."parent" AS parent, u."status" AS status, (SELECT CASE WHEN (min(CASE WHEN (t0."at"
IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >= 946684800000) THEN
CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) = -1) THEN -1 ELSE max(CASE WHEN
(t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >= 946684800000) THEN
CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) END AS newest FROM "events" AS t0 WHERE
t0."job" = u."id" AND (t0."kind" IS NULL OR t0."kind" != 'planned')) AS ended, u."name" AS group0 FROM "jobs"
AS u INDEXED BY "jobs_parent" WHERE u."parent" IN (SELECT anon_1.value FROM json_each(?) AS anon_1);

-- links 0
SELECT u."parent" FROM "jobs" AS u INDEXED BY "jobs_parent" WHERE u."parent" IS NOT NULL ORDER BY u."parent"
DESC LIMIT ? OFFSET ?;

-- attached
SELECT u."id", p."id" IS NOT NULL AS child FROM "jobs" AS u LEFT OUTER JOIN "jobs" AS p ON p."id" = u."parent"
WHERE u."id" IN (SELECT anon_1.value FROM json_each(?) AS anon_1);

-- weigh
SELECT u."id", 1 + (SELECT count(*) AS count_1 FROM "events" AS t WHERE u."id" = t."job") AS anon_1 FROM
"jobs" AS u WHERE u."id" IN (SELECT anon_2.value FROM json_each(?) AS anon_2);

-- count events
SELECT count(*) AS count_1 FROM "events" WHERE "events"."job" IN (SELECT anon_1.value FROM json_each(?) AS
anon_1);

-- count jobs
SELECT count(*) AS count_1 FROM "jobs" WHERE "jobs"."id" IN (SELECT anon_1.value FROM json_each(?) AS anon_1);

-- delete events
DELETE FROM "events" WHERE "events"."job" IN (SELECT anon_1.value FROM json_each(?) AS anon_1);

-- delete jobs
DELETE FROM "jobs" WHERE "jobs"."id" IN (SELECT anon_1.value FROM json_each(?) AS anon_1);

-- census
SELECT rows.status, count(*) AS count_1, max(rows.tie) AS max_1 FROM (SELECT u."status" COLLATE "BINARY" AS
status, u.rowid AS tie FROM "jobs" AS u ORDER BY u.rowid LIMIT ? OFFSET ?) AS rows GROUP BY rows.status;

-- newest
SELECT CASE WHEN (t."at" IS NULL) THEN NULL WHEN (typeof(t."at") IN ('integer', 'real') AND t."at" >=
946684800000) THEN CAST(min(t."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END AS anon_1 FROM "events"
AS t WHERE t."at" IS NOT NULL AND CASE WHEN (t."at" IS NULL) THEN NULL WHEN (typeof(t."at") IN ('integer',
'real') AND t."at" >= 946684800000) THEN CAST(min(t."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END
>= ? AND CASE WHEN (t."at" IS NULL) THEN NULL WHEN (typeof(t."at") IN ('integer', 'real') AND t."at" >=
946684800000) THEN CAST(min(t."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END <= ? ORDER BY t."at"
DESC LIMIT ? OFFSET ?;

-- newest kept
SELECT ranked.ended, ranked."key", ranked.group0 FROM (SELECT (SELECT CASE WHEN (min(CASE WHEN (t0."at" IS
NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >= 946684800000) THEN
CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) = -1) THEN -1 ELSE max(CASE WHEN
(t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >= 946684800000) THEN
CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) END AS newest FROM "events" AS t0 WHERE
t0."job" = u."id" AND (t0."kind" IS NULL OR t0."kind" != 'planned')) AS ended, u."id" AS "key", row_number()
OVER (PARTITION BY u."name" COLLATE "BINARY" ORDER BY (SELECT CASE WHEN (min(CASE WHEN (t0."at" IS NULL) THEN
NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >= 946684800000) THEN CAST(min(t0."at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END) = -1) THEN -1 ELSE max(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN
(typeof(t0."at") IN ('integer', 'real') AND t0."at" >= 946684800000) THEN CAST(min(t0."at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END) END AS newest FROM "events" AS t0 WHERE t0."job" = u."id" AND
(t0."kind" IS NULL OR t0."kind" != 'planned')) DESC, u."id" COLLATE "BINARY" DESC) AS position, u."name"
COLLATE "BINARY" AS group0 FROM "jobs" AS u LEFT OUTER JOIN "jobs" AS p ON p."id" = u."parent" WHERE p."id" IS
NULL AND (u."status" COLLATE "BINARY") = 'done' AND (SELECT CASE WHEN (min(CASE WHEN (t0."at" IS NULL) THEN
NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >= 946684800000) THEN CAST(min(t0."at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END) = -1) THEN -1 ELSE max(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN
(typeof(t0."at") IN ('integer', 'real') AND t0."at" >= 946684800000) THEN CAST(min(t0."at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END) END AS newest FROM "events" AS t0 WHERE t0."job" = u."id" AND
(t0."kind" IS NULL OR t0."kind" != 'planned')) > 0 AND (SELECT CASE WHEN (min(CASE WHEN (t0."at" IS NULL) THEN
NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >= 946684800000) THEN CAST(min(t0."at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END) = -1) THEN -1 ELSE max(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN
(typeof(t0."at") IN ('integer', 'real') AND t0."at" >= 946684800000) THEN CAST(min(t0."at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END) END AS newest FROM "events" AS t0 WHERE t0."job" = u."id" AND
(t0."kind" IS NULL OR t0."kind" != 'planned')) <= ?) AS ranked WHERE ranked.position = ?;

-- newest in slots
SELECT ranked.ended, ranked."key", ranked.group0 FROM (SELECT (SELECT CASE WHEN (min(CASE WHEN (t0."at" IS
NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >= 946684800000) THEN
CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) = -1) THEN -1 ELSE max(CASE WHEN
(t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >= 946684800000) THEN
CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) END AS newest FROM "events" AS t0 WHERE
t0."job" = u."id" AND (t0."kind" IS NULL OR t0."kind" != 'planned')) AS ended, u."id" AS "key", row_number()
OVER (PARTITION BY u."name" COLLATE "BINARY", CAST((SELECT CASE WHEN (min(CASE WHEN (t0."at" IS NULL) THEN
NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >= 946684800000) THEN CAST(min(t0."at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END) = -1) THEN -1 ELSE max(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN
(typeof(t0."at") IN ('integer', 'real') AND t0."at" >= 946684800000) THEN CAST(min(t0."at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END) END AS newest FROM "events" AS t0 WHERE t0."job" = u."id" AND
(t0."kind" IS NULL OR t0."kind" != 'planned')) / 86400000000 AS INTEGER) ORDER BY (SELECT CASE WHEN (min(CASE
WHEN (t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >= 946684800000)
THEN CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) = -1) THEN -1 ELSE max(CASE WHEN
(t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >= 946684800000) THEN
CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) END AS newest FROM "events" AS t0 WHERE
t0."job" = u."id" AND (t0."kind" IS NULL OR t0."kind" != 'planned')) DESC, u."id" COLLATE "BINARY" DESC) AS
position, u."name" COLLATE "BINARY" AS group0 FROM "jobs" AS u LEFT OUTER JOIN "jobs" AS p ON p."id" =
u."parent" WHERE p."id" IS NULL AND (u."status" COLLATE "BINARY") IN ('done', 'failed') AND (SELECT CASE WHEN
(min(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >=
946684800000) THEN CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) = -1) THEN -1 ELSE
max(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >=
946684800000) THEN CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) END AS newest FROM
"events" AS t0 WHERE t0."job" = u."id" AND (t0."kind" IS NULL OR t0."kind" != 'planned')) > 0 AND (SELECT CASE
WHEN (min(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >=
946684800000) THEN CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) = -1) THEN -1 ELSE
max(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >=
946684800000) THEN CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) END AS newest FROM
"events" AS t0 WHERE t0."job" = u."id" AND (t0."kind" IS NULL OR t0."kind" != 'planned')) <= ?) AS ranked
WHERE ranked.position = ?;

-- newest of all
SELECT (SELECT CASE WHEN (min(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer',
'real') AND t0."at" >= 946684800000) THEN CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1
END) = -1) THEN -1 ELSE max(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real')
AND t0."at" >= 946684800000) THEN CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) END AS
newest FROM "events" AS t0 WHERE t0."job" = u."id" AND (t0."kind" IS NULL OR t0."kind" != 'planned')) AS
ended, u."id" AS "key" FROM "jobs" AS u LEFT OUTER JOIN "jobs" AS p ON p."id" = u."parent" WHERE p."id" IS
NULL AND (u."status" COLLATE "BINARY") IN ('done', 'failed') AND (SELECT CASE WHEN (min(CASE WHEN (t0."at" IS
NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >= 946684800000) THEN
CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) = -1) THEN -1 ELSE max(CASE WHEN
(t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >= 946684800000) THEN
CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) END AS newest FROM "events" AS t0 WHERE
t0."job" = u."id" AND (t0."kind" IS NULL OR t0."kind" != 'planned')) > 0 AND (SELECT CASE WHEN (min(CASE WHEN
(t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >= 946684800000) THEN
CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) = -1) THEN -1 ELSE max(CASE WHEN
(t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >= 946684800000) THEN
CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) END AS newest FROM "events" AS t0 WHERE
t0."job" = u."id" AND (t0."kind" IS NULL OR t0."kind" != 'planned')) <= ? ORDER BY (SELECT CASE WHEN (min(CASE
WHEN (t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >= 946684800000)
THEN CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) = -1) THEN -1 ELSE max(CASE WHEN
(t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >= 946684800000) THEN
CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) END AS newest FROM "events" AS t0 WHERE
t0."job" = u."id" AND (t0."kind" IS NULL OR t0."kind" != 'planned')) DESC, u."id" COLLATE "BINARY" DESC LIMIT
? OFFSET ? - 1;

-- groups
SELECT count(*) AS count_1 FROM (SELECT DISTINCT u."name" COLLATE "BINARY" AS anon_2 FROM "jobs" AS u LEFT
OUTER JOIN "jobs" AS p ON p."id" = u."parent" WHERE p."id" IS NULL) AS anon_1;

-- roots
SELECT count(*) AS count_1 FROM "jobs" AS u LEFT OUTER JOIN "jobs" AS p ON p."id" = u."parent" WHERE p."id" IS
NULL;

-- outside 0
SELECT u."status" COLLATE "BINARY" AS status, CASE WHEN ((SELECT CASE WHEN (min(CASE WHEN (t0."at" IS NULL)
THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >= 946684800000) THEN CAST(min(t0."at" *
1000, 253402300799000000) AS INTEGER) ELSE -1 END) = -1) THEN -1 ELSE max(CASE WHEN (t0."at" IS NULL) THEN
NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >= 946684800000) THEN CAST(min(t0."at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END) END AS newest FROM "events" AS t0 WHERE t0."job" = u."id" AND
(t0."kind" IS NULL OR t0."kind" != 'planned')) IS NULL) THEN 'unknown-end-time' WHEN ((SELECT CASE WHEN
(min(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >=
946684800000) THEN CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) = -1) THEN -1 ELSE
max(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >=
946684800000) THEN CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) END AS newest FROM
"events" AS t0 WHERE t0."job" = u."id" AND (t0."kind" IS NULL OR t0."kind" != 'planned')) = -1) THEN
'unreadable-end-time' WHEN ((SELECT CASE WHEN (min(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at")
IN ('integer', 'real') AND t0."at" >= 946684800000) THEN CAST(min(t0."at" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END) = -1) THEN -1 ELSE max(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN
('integer', 'real') AND t0."at" >= 946684800000) THEN CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER)
ELSE -1 END) END AS newest FROM "events" AS t0 WHERE t0."job" = u."id" AND (t0."kind" IS NULL OR t0."kind" !=
'planned')) > ?) THEN 'future-end-time' ELSE 'known' END AS known, count(*) AS count_1 FROM "jobs" AS u LEFT
OUTER JOIN "jobs" AS p ON p."id" = u."parent" WHERE p."id" IS NULL AND CASE WHEN ((u."status" COLLATE
"BINARY") IN ('done', 'failed') AND (SELECT CASE WHEN (min(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN
(typeof(t0."at") IN ('integer', 'real') AND t0."at" >= 946684800000) THEN CAST(min(t0."at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END) = -1) THEN -1 ELSE max(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN
(typeof(t0."at") IN ('integer', 'real') AND t0."at" >= 946684800000) THEN CAST(min(t0."at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END) END AS newest FROM "events" AS t0 WHERE t0."job" = u."id" AND
(t0."kind" IS NULL OR t0."kind" != 'planned')) IS NOT NULL AND (SELECT CASE WHEN (min(CASE WHEN (t0."at" IS
NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >= 946684800000) THEN
CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) = -1) THEN -1 ELSE max(CASE WHEN
(t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer', 'real') AND t0."at" >= 946684800000) THEN
CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) END AS newest FROM "events" AS t0 WHERE
t0."job" = u."id" AND (t0."kind" IS NULL OR t0."kind" != 'planned')) < ?) THEN 0 ELSE 1 END = 1 GROUP BY 1, 2;

-- outside 1
WITH RECURSIVE reached("key", beyond) AS (SELECT u."id" AS "key", CASE WHEN ((u."status" COLLATE "BINARY") IN
('done', 'failed') AND (SELECT CASE WHEN (min(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN
('integer', 'real') AND t0."at" >= 946684800000) THEN CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER)
ELSE -1 END) = -1) THEN -1 ELSE max(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN ('integer',
'real') AND t0."at" >= 946684800000) THEN CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1
END) END AS newest FROM "events" AS t0 WHERE t0."job" = u."id" AND (t0."kind" IS NULL OR t0."kind" !=
'planned')) IS NOT NULL AND (SELECT CASE WHEN (min(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at")
IN ('integer', 'real') AND t0."at" >= 946684800000) THEN CAST(min(t0."at" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END) = -1) THEN -1 ELSE max(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (typeof(t0."at") IN
('integer', 'real') AND t0."at" >= 946684800000) THEN CAST(min(t0."at" * 1000, 253402300799000000) AS INTEGER)
ELSE -1 END) END AS newest FROM "events" AS t0 WHERE t0."job" = u."id" AND (t0."kind" IS NULL OR t0."kind" !=
'planned')) < ?) THEN 0 ELSE 1 END = 1 AS beyond FROM "jobs" AS u LEFT OUTER JOIN "jobs" AS p ON p."id" =
u."parent" WHERE p."id" IS NULL UNION ALL SELECT u."id" AS "id", reached.beyond AS beyond FROM reached JOIN
"jobs" AS u INDEXED BY "jobs_parent" ON u."parent" = reached."key") SELECT coalesce(sum(CASE WHEN
reached.beyond THEN ? ELSE ? END), ?) AS coalesce_1, count(*) AS count_1, (SELECT count(*) AS count_2 FROM
"jobs" AS u) AS anon_1 FROM reached;

-- has rows
SELECT 1 FROM "jobs" AS u WHERE u."status" IN ('done', 'failed') LIMIT ? OFFSET ?;

-- orphans
SELECT count(*) AS count_1 FROM "events" AS t LEFT OUTER JOIN "jobs" AS h ON h."id" = t."job" WHERE h."id" IS
NULL AND t."job" IS NOT NULL;
