-- Written by: AFTERRUN_WRITE_GOLDEN=1 pytest tests/ends/test_end_rows_sql.py

-- page by events.at, first
SELECT raw.ended, raw.tie, p."id" IS NOT NULL AS child, u."id" AS key, u."parent" AS parent, u."status" AS
status, newest0.newest AS ended, u."name" AS group0 FROM (SELECT timed.ended AS ended, timed.tie AS tie FROM
(SELECT newest0.newest AS ended, k."id" AS tie FROM "public"."jobs" AS k LEFT OUTER JOIN LATERAL (SELECT CASE
WHEN (min(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (t0."at" >= 946684800000) THEN CAST(least(t0."at",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END) = -1) THEN CAST(-1 AS BIGINT)
ELSE max(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (t0."at" >= 946684800000) THEN CAST(least(t0."at",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END) END AS newest FROM
"public"."events" AS t0 WHERE t0."job" = k."id" AND (t0."kind" IS NULL OR t0."kind" != 'planned')) AS newest0
ON true WHERE k."status" IN ('done', 'failed') LIMIT ALL OFFSET 0) AS timed WHERE timed.ended IS NOT NULL AND
timed.ended < %(bound)s::BIGINT ORDER BY timed.ended, timed.tie LIMIT %(param_1)s::INTEGER) AS raw JOIN
"public"."jobs" AS u ON u."id" = raw.tie LEFT OUTER JOIN LATERAL (SELECT CASE WHEN (min(CASE WHEN (t0."at" IS
NULL) THEN NULL WHEN (t0."at" >= 946684800000) THEN CAST(least(t0."at", 253402300799000) * CAST(1000 AS
BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END) = -1) THEN CAST(-1 AS BIGINT) ELSE max(CASE WHEN (t0."at" IS
NULL) THEN NULL WHEN (t0."at" >= 946684800000) THEN CAST(least(t0."at", 253402300799000) * CAST(1000 AS
BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END) END AS newest FROM "public"."events" AS t0 WHERE t0."job" =
u."id" AND (t0."kind" IS NULL OR t0."kind" != 'planned')) AS newest0 ON true LEFT OUTER JOIN "public"."jobs"
AS p ON p."id" = u."parent" ORDER BY raw.ended, raw.tie;

-- page by events.at, tied
SELECT raw.ended, raw.tie, p."id" IS NOT NULL AS child, u."id" AS key, u."parent" AS parent, u."status" AS
status, newest0.newest AS ended, u."name" AS group0 FROM (SELECT timed.ended AS ended, timed.tie AS tie FROM
(SELECT newest0.newest AS ended, k."id" AS tie FROM "public"."jobs" AS k LEFT OUTER JOIN LATERAL (SELECT CASE
WHEN (min(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (t0."at" >= 946684800000) THEN CAST(least(t0."at",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END) = -1) THEN CAST(-1 AS BIGINT)
ELSE max(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (t0."at" >= 946684800000) THEN CAST(least(t0."at",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END) END AS newest FROM
"public"."events" AS t0 WHERE t0."job" = k."id" AND (t0."kind" IS NULL OR t0."kind" != 'planned')) AS newest0
ON true WHERE k."status" IN ('done', 'failed') LIMIT ALL OFFSET 0) AS timed WHERE timed.ended IS NOT NULL AND
timed.ended < %(bound)s::BIGINT AND timed.ended = %(ended)s::BIGINT AND timed.tie > %(tie)s ORDER BY
timed.ended, timed.tie LIMIT %(param_1)s::INTEGER) AS raw JOIN "public"."jobs" AS u ON u."id" = raw.tie LEFT
OUTER JOIN LATERAL (SELECT CASE WHEN (min(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (t0."at" >= 946684800000)
THEN CAST(least(t0."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END) = -1)
THEN CAST(-1 AS BIGINT) ELSE max(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (t0."at" >= 946684800000) THEN
CAST(least(t0."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END) END AS
newest FROM "public"."events" AS t0 WHERE t0."job" = u."id" AND (t0."kind" IS NULL OR t0."kind" != 'planned'))
AS newest0 ON true LEFT OUTER JOIN "public"."jobs" AS p ON p."id" = u."parent" ORDER BY raw.ended, raw.tie;

-- page by events.at, later
SELECT raw.ended, raw.tie, p."id" IS NOT NULL AS child, u."id" AS key, u."parent" AS parent, u."status" AS
status, newest0.newest AS ended, u."name" AS group0 FROM (SELECT timed.ended AS ended, timed.tie AS tie FROM
(SELECT newest0.newest AS ended, k."id" AS tie FROM "public"."jobs" AS k LEFT OUTER JOIN LATERAL (SELECT CASE
WHEN (min(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (t0."at" >= 946684800000) THEN CAST(least(t0."at",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END) = -1) THEN CAST(-1 AS BIGINT)
ELSE max(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (t0."at" >= 946684800000) THEN CAST(least(t0."at",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END) END AS newest FROM
"public"."events" AS t0 WHERE t0."job" = k."id" AND (t0."kind" IS NULL OR t0."kind" != 'planned')) AS newest0
ON true WHERE k."status" IN ('done', 'failed') LIMIT ALL OFFSET 0) AS timed WHERE timed.ended IS NOT NULL AND
timed.ended < %(bound)s::BIGINT AND timed.ended > %(ended)s::BIGINT ORDER BY timed.ended, timed.tie LIMIT
%(param_1)s::INTEGER) AS raw JOIN "public"."jobs" AS u ON u."id" = raw.tie LEFT OUTER JOIN LATERAL (SELECT
CASE WHEN (min(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (t0."at" >= 946684800000) THEN CAST(least(t0."at",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END) = -1) THEN CAST(-1 AS BIGINT)
ELSE max(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (t0."at" >= 946684800000) THEN CAST(least(t0."at",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END) END AS newest FROM
"public"."events" AS t0 WHERE t0."job" = u."id" AND (t0."kind" IS NULL OR t0."kind" != 'planned')) AS newest0
ON true LEFT OUTER JOIN "public"."jobs" AS p ON p."id" = u."parent" ORDER BY raw.ended, raw.tie;

-- remaining by events.at
SELECT count(*) AS count_1 FROM "public"."jobs" AS u LEFT OUTER JOIN LATERAL (SELECT CASE WHEN (min(CASE WHEN
(t0."at" IS NULL) THEN NULL WHEN (t0."at" >= 946684800000) THEN CAST(least(t0."at", 253402300799000) *
CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END) = -1) THEN CAST(-1 AS BIGINT) ELSE max(CASE WHEN
(t0."at" IS NULL) THEN NULL WHEN (t0."at" >= 946684800000) THEN CAST(least(t0."at", 253402300799000) *
CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END) END AS newest FROM "public"."events" AS t0 WHERE
t0."job" = u."id" AND (t0."kind" IS NULL OR t0."kind" != 'planned')) AS newest0 ON true LEFT OUTER JOIN
"public"."jobs" AS p ON p."id" = u."parent" WHERE p."id" IS NULL AND (CAST(u."status" AS TEXT) COLLATE "C") IN
('done', 'failed') AND newest0.newest IS NOT NULL AND newest0.newest < %(bound0)s::BIGINT AND newest0.newest
>= %(ended)s::BIGINT;

-- facts by key
SELECT u."id" AS key, u."parent" AS parent, u."status" AS status, newest0.newest AS ended, u."name" AS group0
FROM "public"."jobs" AS u LEFT OUTER JOIN LATERAL (SELECT CASE WHEN (min(CASE WHEN (t0."at" IS NULL) THEN NULL
WHEN (t0."at" >= 946684800000) THEN CAST(least(t0."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT)
ELSE CAST(-1 AS BIGINT) END) = -1) THEN CAST(-1 AS BIGINT) ELSE max(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN
(t0."at" >= 946684800000) THEN CAST(least(t0."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END) END AS newest FROM "public"."events" AS t0 WHERE t0."job" = u."id" AND (t0."kind" IS
NULL OR t0."kind" != 'planned')) AS newest0 ON true WHERE u."id" = any(CAST((SELECT CASE WHEN (CAST(given.keys
AS TEXT) ~ '^{(-?[0-9]{1,18}[,}])+$') THEN CAST(given.keys AS BIGINT[]) ELSE array((SELECT CASE WHEN
(anon_3.each ~ '^-?[0-9]{1,19}$') THEN CASE WHEN (CAST(anon_3.each AS numeric) BETWEEN -9223372036854775808
AND 9223372036854775807) THEN CAST(anon_3.each AS BIGINT) END END AS anon_2 FROM unnest(given.keys) AS
anon_3(each))) END AS anon_1 FROM (SELECT CAST(%(keys)s AS TEXT[]) AS keys LIMIT ALL OFFSET 0) AS given) AS
BIGINT[]));

-- facts by parent 0
SELECT u."id" AS key, u."parent" AS parent, u."status" AS status, newest0.newest AS ended, u."name" AS group0
FROM "public"."jobs" AS u LEFT OUTER JOIN LATERAL (SELECT CASE WHEN (min(CASE WHEN (t0."at" IS NULL) THEN NULL
WHEN (t0."at" >= 946684800000) THEN CAST(least(t0."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT)
ELSE CAST(-1 AS BIGINT) END) = -1) THEN CAST(-1 AS BIGINT) ELSE max(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN
(t0."at" >= 946684800000) THEN CAST(least(t0."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END) END AS newest FROM "public"."events" AS t0 WHERE t0."job" = u."id" AND (t0."kind" IS
NULL OR t0."kind" != 'planned')) AS newest0 ON true WHERE u."parent" = any(CAST((SELECT CASE WHEN
(CAST(given.keys AS TEXT) ~ '^{(-?[0-9]{1,18}[,}])+$') THEN CAST(given.keys AS BIGINT[]) ELSE array((SELECT
CASE WHEN (anon_3.each ~ '^-?[0-9]{1,19}$') THEN CASE WHEN (CAST(anon_3.each AS numeric) BETWEEN
-9223372036854775808 AND 9223372036854775807) THEN CAST(anon_3.each AS BIGINT) END END AS anon_2 FROM
unnest(given.keys) AS anon_3(each))) END AS anon_1 FROM (SELECT CAST(%(keys)s AS TEXT[]) AS keys LIMIT ALL
OFFSET 0) AS given) AS BIGINT[]));

-- links 0
SELECT u."parent" FROM "public"."jobs" AS u WHERE u."parent" IS NOT NULL ORDER BY u."parent" DESC LIMIT
%(one)s::INTEGER;

-- attached
SELECT u."id", p."id" IS NOT NULL AS child FROM "public"."jobs" AS u LEFT OUTER JOIN LATERAL (SELECT CASE WHEN
(min(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (t0."at" >= 946684800000) THEN CAST(least(t0."at",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END) = -1) THEN CAST(-1 AS BIGINT)
ELSE max(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (t0."at" >= 946684800000) THEN CAST(least(t0."at",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END) END AS newest FROM
"public"."events" AS t0 WHERE t0."job" = u."id" AND (t0."kind" IS NULL OR t0."kind" != 'planned')) AS newest0
ON true LEFT OUTER JOIN "public"."jobs" AS p ON p."id" = u."parent" WHERE u."id" = any(CAST((SELECT CASE WHEN
(CAST(given.keys AS TEXT) ~ '^{(-?[0-9]{1,18}[,}])+$') THEN CAST(given.keys AS BIGINT[]) ELSE array((SELECT
CASE WHEN (anon_3.each ~ '^-?[0-9]{1,19}$') THEN CASE WHEN (CAST(anon_3.each AS numeric) BETWEEN
-9223372036854775808 AND 9223372036854775807) THEN CAST(anon_3.each AS BIGINT) END END AS anon_2 FROM
unnest(given.keys) AS anon_3(each))) END AS anon_1 FROM (SELECT CAST(%(keys)s AS TEXT[]) AS keys LIMIT ALL
OFFSET 0) AS given) AS BIGINT[]));

-- lock
SELECT u."id" FROM "public"."jobs" AS u WHERE u."id" = any(CAST((SELECT CASE WHEN (CAST(given.keys AS TEXT) ~
'^{(-?[0-9]{1,18}[,}])+$') THEN CAST(given.keys AS BIGINT[]) ELSE array((SELECT CASE WHEN (anon_3.each ~
'^-?[0-9]{1,19}$') THEN CASE WHEN (CAST(anon_3.each AS numeric) BETWEEN -9223372036854775808 AND
9223372036854775807) THEN CAST(anon_3.each AS BIGINT) END END AS anon_2 FROM unnest(given.keys) AS
anon_3(each))) END AS anon_1 FROM (SELECT CAST(%(keys)s AS TEXT[]) AS keys LIMIT ALL OFFSET 0) AS given) AS
BIGINT[])) ORDER BY u."id" FOR UPDATE OF u SKIP LOCKED;

-- weigh
SELECT u."id", 1 + (SELECT count(*) AS count_1 FROM "public"."events" AS t WHERE u."id" = t."job") AS anon_1
FROM "public"."jobs" AS u WHERE u."id" = any(CAST((SELECT CASE WHEN (CAST(given.keys AS TEXT) ~
'^{(-?[0-9]{1,18}[,}])+$') THEN CAST(given.keys AS BIGINT[]) ELSE array((SELECT CASE WHEN (anon_4.each ~
'^-?[0-9]{1,19}$') THEN CASE WHEN (CAST(anon_4.each AS numeric) BETWEEN -9223372036854775808 AND
9223372036854775807) THEN CAST(anon_4.each AS BIGINT) END END AS anon_3 FROM unnest(given.keys) AS
anon_4(each))) END AS anon_2 FROM (SELECT CAST(%(keys)s AS TEXT[]) AS keys LIMIT ALL OFFSET 0) AS given) AS
BIGINT[]));

-- count events
SELECT count(*) AS count_1 FROM "public"."events" WHERE "public"."events"."job" = any(CAST((SELECT CASE WHEN
(CAST(given.keys AS TEXT) ~ '^{(-?[0-9]{1,18}[,}])+$') THEN CAST(given.keys AS BIGINT[]) ELSE array((SELECT
CASE WHEN (anon_3.each ~ '^-?[0-9]{1,19}$') THEN CASE WHEN (CAST(anon_3.each AS numeric) BETWEEN
-9223372036854775808 AND 9223372036854775807) THEN CAST(anon_3.each AS BIGINT) END END AS anon_2 FROM
unnest(given.keys) AS anon_3(each))) END AS anon_1 FROM (SELECT CAST(%(keys)s AS TEXT[]) AS keys LIMIT ALL
OFFSET 0) AS given) AS BIGINT[]));

-- count jobs
SELECT count(*) AS count_1 FROM "public"."jobs" WHERE "public"."jobs"."id" = any(CAST((SELECT CASE WHEN
(CAST(given.keys AS TEXT) ~ '^{(-?[0-9]{1,18}[,}])+$') THEN CAST(given.keys AS BIGINT[]) ELSE array((SELECT
CASE WHEN (anon_3.each ~ '^-?[0-9]{1,19}$') THEN CASE WHEN (CAST(anon_3.each AS numeric) BETWEEN
-9223372036854775808 AND 9223372036854775807) THEN CAST(anon_3.each AS BIGINT) END END AS anon_2 FROM
unnest(given.keys) AS anon_3(each))) END AS anon_1 FROM (SELECT CAST(%(keys)s AS TEXT[]) AS keys LIMIT ALL
OFFSET 0) AS given) AS BIGINT[]));

-- delete events
DELETE FROM "public"."events" WHERE "public"."events"."job" = any(CAST((SELECT CASE WHEN (CAST(given.keys AS
TEXT) ~ '^{(-?[0-9]{1,18}[,}])+$') THEN CAST(given.keys AS BIGINT[]) ELSE array((SELECT CASE WHEN (anon_3.each
~ '^-?[0-9]{1,19}$') THEN CASE WHEN (CAST(anon_3.each AS numeric) BETWEEN -9223372036854775808 AND
9223372036854775807) THEN CAST(anon_3.each AS BIGINT) END END AS anon_2 FROM unnest(given.keys) AS
anon_3(each))) END AS anon_1 FROM (SELECT CAST(%(keys)s AS TEXT[]) AS keys LIMIT ALL OFFSET 0) AS given) AS
BIGINT[]));

-- delete jobs
DELETE FROM "public"."jobs" WHERE "public"."jobs"."id" = any(CAST((SELECT CASE WHEN (CAST(given.keys AS TEXT)
~ '^{(-?[0-9]{1,18}[,}])+$') THEN CAST(given.keys AS BIGINT[]) ELSE array((SELECT CASE WHEN (anon_3.each ~
'^-?[0-9]{1,19}$') THEN CASE WHEN (CAST(anon_3.each AS numeric) BETWEEN -9223372036854775808 AND
9223372036854775807) THEN CAST(anon_3.each AS BIGINT) END END AS anon_2 FROM unnest(given.keys) AS
anon_3(each))) END AS anon_1 FROM (SELECT CAST(%(keys)s AS TEXT[]) AS keys LIMIT ALL OFFSET 0) AS given) AS
BIGINT[]));

-- census
SELECT rows.status, count(*) AS count_1, NULL AS anon_1 FROM (SELECT CAST(u."status" AS TEXT) COLLATE "C" AS
status, u."id" AS tie FROM "public"."jobs" AS u) AS rows GROUP BY rows.status;

-- newest
SELECT CASE WHEN (t."at" IS NULL) THEN NULL WHEN (t."at" >= 946684800000) THEN CAST(least(t."at",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END AS anon_1 FROM
"public"."events" AS t WHERE t."at" IS NOT NULL AND CASE WHEN (t."at" IS NULL) THEN NULL WHEN (t."at" >=
946684800000) THEN CAST(least(t."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS
BIGINT) END >= %(param_1)s::INTEGER AND CASE WHEN (t."at" IS NULL) THEN NULL WHEN (t."at" >= 946684800000)
THEN CAST(least(t."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END <=
%(param_2)s::BIGINT ORDER BY t."at" DESC LIMIT %(param_3)s::INTEGER;

-- newest kept
SELECT ranked.ended, ranked.key, ranked.group0 FROM (SELECT newest0.newest AS ended, u."id" AS key,
row_number() OVER (PARTITION BY CAST(u."name" AS TEXT) COLLATE "C" ORDER BY newest0.newest DESC, u."id" DESC)
AS position, CAST(u."name" AS TEXT) COLLATE "C" AS group0 FROM "public"."jobs" AS u LEFT OUTER JOIN LATERAL
(SELECT CASE WHEN (min(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (t0."at" >= 946684800000) THEN
CAST(least(t0."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END) = -1) THEN
CAST(-1 AS BIGINT) ELSE max(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (t0."at" >= 946684800000) THEN
CAST(least(t0."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END) END AS
newest FROM "public"."events" AS t0 WHERE t0."job" = u."id" AND (t0."kind" IS NULL OR t0."kind" != 'planned'))
AS newest0 ON true LEFT OUTER JOIN "public"."jobs" AS p ON p."id" = u."parent" WHERE p."id" IS NULL AND
(CAST(u."status" AS TEXT) COLLATE "C") = 'done' AND newest0.newest > 0 AND newest0.newest <=
%(latest)s::BIGINT) AS ranked WHERE ranked.position = %(count)s;

-- newest in slots
SELECT ranked.ended, ranked.key, ranked.group0 FROM (SELECT newest0.newest AS ended, u."id" AS key,
row_number() OVER (PARTITION BY CAST(u."name" AS TEXT) COLLATE "C", CAST(newest0.newest / 86400000000 AS
INTEGER) ORDER BY newest0.newest DESC, u."id" DESC) AS position, CAST(u."name" AS TEXT) COLLATE "C" AS group0
FROM "public"."jobs" AS u LEFT OUTER JOIN LATERAL (SELECT CASE WHEN (min(CASE WHEN (t0."at" IS NULL) THEN NULL
WHEN (t0."at" >= 946684800000) THEN CAST(least(t0."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT)
ELSE CAST(-1 AS BIGINT) END) = -1) THEN CAST(-1 AS BIGINT) ELSE max(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN
(t0."at" >= 946684800000) THEN CAST(least(t0."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END) END AS newest FROM "public"."events" AS t0 WHERE t0."job" = u."id" AND (t0."kind" IS
NULL OR t0."kind" != 'planned')) AS newest0 ON true LEFT OUTER JOIN "public"."jobs" AS p ON p."id" =
u."parent" WHERE p."id" IS NULL AND (CAST(u."status" AS TEXT) COLLATE "C") IN ('done', 'failed') AND
newest0.newest > 0 AND newest0.newest <= %(latest)s::BIGINT) AS ranked WHERE ranked.position = %(count)s;

-- newest of all
SELECT newest0.newest AS ended, u."id" AS key FROM "public"."jobs" AS u LEFT OUTER JOIN LATERAL (SELECT CASE
WHEN (min(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (t0."at" >= 946684800000) THEN CAST(least(t0."at",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END) = -1) THEN CAST(-1 AS BIGINT)
ELSE max(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (t0."at" >= 946684800000) THEN CAST(least(t0."at",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END) END AS newest FROM
"public"."events" AS t0 WHERE t0."job" = u."id" AND (t0."kind" IS NULL OR t0."kind" != 'planned')) AS newest0
ON true LEFT OUTER JOIN "public"."jobs" AS p ON p."id" = u."parent" WHERE p."id" IS NULL AND (CAST(u."status"
AS TEXT) COLLATE "C") IN ('done', 'failed') AND newest0.newest > 0 AND newest0.newest <= %(latest)s::BIGINT
ORDER BY newest0.newest DESC, u."id" DESC LIMIT %(param_1)s::INTEGER OFFSET %(count)s::INTEGER - 1;

-- groups
SELECT count(*) AS count_1 FROM (SELECT DISTINCT CAST(u."name" AS TEXT) COLLATE "C" AS anon_2 FROM
"public"."jobs" AS u LEFT OUTER JOIN LATERAL (SELECT CASE WHEN (min(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN
(t0."at" >= 946684800000) THEN CAST(least(t0."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END) = -1) THEN CAST(-1 AS BIGINT) ELSE max(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN
(t0."at" >= 946684800000) THEN CAST(least(t0."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END) END AS newest FROM "public"."events" AS t0 WHERE t0."job" = u."id" AND (t0."kind" IS
NULL OR t0."kind" != 'planned')) AS newest0 ON true LEFT OUTER JOIN "public"."jobs" AS p ON p."id" =
u."parent" WHERE p."id" IS NULL) AS anon_1;

-- roots
SELECT count(*) AS count_1 FROM "public"."jobs" AS u LEFT OUTER JOIN LATERAL (SELECT CASE WHEN (min(CASE WHEN
(t0."at" IS NULL) THEN NULL WHEN (t0."at" >= 946684800000) THEN CAST(least(t0."at", 253402300799000) *
CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END) = -1) THEN CAST(-1 AS BIGINT) ELSE max(CASE WHEN
(t0."at" IS NULL) THEN NULL WHEN (t0."at" >= 946684800000) THEN CAST(least(t0."at", 253402300799000) *
CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END) END AS newest FROM "public"."events" AS t0 WHERE
t0."job" = u."id" AND (t0."kind" IS NULL OR t0."kind" != 'planned')) AS newest0 ON true LEFT OUTER JOIN
"public"."jobs" AS p ON p."id" = u."parent" WHERE p."id" IS NULL;

-- outside 0
SELECT CAST(u."status" AS TEXT) COLLATE "C" AS status, CASE WHEN (newest0.newest IS NULL) THEN 'unknown-end-
time' WHEN (newest0.newest = -1) THEN 'unreadable-end-time' WHEN (newest0.newest > %(latest)s::BIGINT) THEN
'future-end-time' ELSE 'known' END AS known, count(*) AS count_1 FROM "public"."jobs" AS u LEFT OUTER JOIN
LATERAL (SELECT CASE WHEN (min(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (t0."at" >= 946684800000) THEN
CAST(least(t0."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END) = -1) THEN
CAST(-1 AS BIGINT) ELSE max(CASE WHEN (t0."at" IS NULL) THEN NULL WHEN (t0."at" >= 946684800000) THEN
CAST(least(t0."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END) END AS
newest FROM "public"."events" AS t0 WHERE t0."job" = u."id" AND (t0."kind" IS NULL OR t0."kind" != 'planned'))
AS newest0 ON true LEFT OUTER JOIN "public"."jobs" AS p ON p."id" = u."parent" WHERE p."id" IS NULL AND CASE
WHEN ((CAST(u."status" AS TEXT) COLLATE "C") IN ('done', 'failed') AND newest0.newest IS NOT NULL AND
newest0.newest < %(bound0)s::BIGINT) THEN 0 ELSE 1 END = 1 GROUP BY 1, 2;

-- outside 1
WITH RECURSIVE reached(key, beyond) AS (SELECT u."id" AS key, CASE WHEN ((CAST(u."status" AS TEXT) COLLATE
"C") IN ('done', 'failed') AND newest0.newest IS NOT NULL AND newest0.newest < %(bound0)s::BIGINT) THEN 0 ELSE
1 END = 1 AS beyond FROM "public"."jobs" AS u LEFT OUTER JOIN LATERAL (SELECT CASE WHEN (min(CASE WHEN
(t0."at" IS NULL) THEN NULL WHEN (t0."at" >= 946684800000) THEN CAST(least(t0."at", 253402300799000) *
CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END) = -1) THEN CAST(-1 AS BIGINT) ELSE max(CASE WHEN
(t0."at" IS NULL) THEN NULL WHEN (t0."at" >= 946684800000) THEN CAST(least(t0."at", 253402300799000) *
CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END) END AS newest FROM "public"."events" AS t0 WHERE
t0."job" = u."id" AND (t0."kind" IS NULL OR t0."kind" != 'planned')) AS newest0 ON true LEFT OUTER JOIN
"public"."jobs" AS p ON p."id" = u."parent" WHERE p."id" IS NULL UNION ALL SELECT below.key AS key,
reached.beyond AS beyond FROM reached JOIN LATERAL (SELECT u."id" AS key FROM "public"."jobs" AS u WHERE
u."parent" = reached.key LIMIT ALL OFFSET 0) AS below ON true) SELECT coalesce(sum(CASE WHEN reached.beyond
THEN %(param_1)s::INTEGER ELSE %(param_2)s::INTEGER END), %(coalesce_2)s::INTEGER) AS coalesce_1, count(*) AS
count_1, (SELECT count(*) AS count_2 FROM "public"."jobs" AS u) AS anon_1 FROM reached;

-- has rows
SELECT 1 FROM "public"."jobs" AS u LEFT OUTER JOIN LATERAL (SELECT CASE WHEN (min(CASE WHEN (t0."at" IS NULL)
THEN NULL WHEN (t0."at" >= 946684800000) THEN CAST(least(t0."at", 253402300799000) * CAST(1000 AS BIGINT) AS
BIGINT) ELSE CAST(-1 AS BIGINT) END) = -1) THEN CAST(-1 AS BIGINT) ELSE max(CASE WHEN (t0."at" IS NULL) THEN
NULL WHEN (t0."at" >= 946684800000) THEN CAST(least(t0."at", 253402300799000) * CAST(1000 AS BIGINT) AS
BIGINT) ELSE CAST(-1 AS BIGINT) END) END AS newest FROM "public"."events" AS t0 WHERE t0."job" = u."id" AND
(t0."kind" IS NULL OR t0."kind" != 'planned')) AS newest0 ON true WHERE u."status" IN ('done', 'failed') LIMIT
%(param_1)s::INTEGER;

-- orphans
SELECT count(*) AS count_1 FROM "public"."events" AS t LEFT OUTER JOIN "public"."jobs" AS h ON h."id" =
t."job" WHERE h."id" IS NULL AND t."job" IS NOT NULL;
