-- Written by: AFTERRUN_WRITE_GOLDEN=1 pytest tests/sql/test_golden_sql.py

-- page by completed_at, first
SELECT raw.ended, raw.tie, p."workflow_uuid" IS NOT NULL AS child, u."workflow_uuid" AS key,
u."parent_workflow_id" AS parent, u."status" AS status, coalesce(CASE WHEN (u."completed_at" IS NULL) THEN
NULL WHEN (u."completed_at" >= 946684800000) THEN CAST(least(u."completed_at", 253402300799000) * CAST(1000 AS
BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END, CASE WHEN (u."updated_at" IS NULL) THEN NULL WHEN
(u."updated_at" >= 946684800000) THEN CAST(least(u."updated_at", 253402300799000) * CAST(1000 AS BIGINT) AS
BIGINT) ELSE CAST(-1 AS BIGINT) END) AS ended, u."name" AS group0, u."application_name" AS group1 FROM (SELECT
k."completed_at" AS ended, k."workflow_uuid" AS tie FROM "dbos"."workflow_status" AS k WHERE k."completed_at"
IS NOT NULL AND k."completed_at" < %(bound)s ORDER BY k."completed_at" LIMIT %(param_1)s::INTEGER) AS raw JOIN
"dbos"."workflow_status" AS u ON u."workflow_uuid" = raw.tie LEFT OUTER JOIN "dbos"."workflow_status" AS p ON
p."workflow_uuid" = u."parent_workflow_id" ORDER BY raw.ended, raw.tie;

-- page by completed_at, since
SELECT raw.ended, raw.tie, p."workflow_uuid" IS NOT NULL AS child, u."workflow_uuid" AS key,
u."parent_workflow_id" AS parent, u."status" AS status, coalesce(CASE WHEN (u."completed_at" IS NULL) THEN
NULL WHEN (u."completed_at" >= 946684800000) THEN CAST(least(u."completed_at", 253402300799000) * CAST(1000 AS
BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END, CASE WHEN (u."updated_at" IS NULL) THEN NULL WHEN
(u."updated_at" >= 946684800000) THEN CAST(least(u."updated_at", 253402300799000) * CAST(1000 AS BIGINT) AS
BIGINT) ELSE CAST(-1 AS BIGINT) END) AS ended, u."name" AS group0, u."application_name" AS group1 FROM (SELECT
k."completed_at" AS ended, k."workflow_uuid" AS tie FROM "dbos"."workflow_status" AS k WHERE k."completed_at"
IS NOT NULL AND k."completed_at" < %(bound)s AND k."completed_at" >= %(ended)s ORDER BY k."completed_at" LIMIT
%(param_1)s::INTEGER) AS raw JOIN "dbos"."workflow_status" AS u ON u."workflow_uuid" = raw.tie LEFT OUTER JOIN
"dbos"."workflow_status" AS p ON p."workflow_uuid" = u."parent_workflow_id" ORDER BY raw.ended, raw.tie;

-- page by completed_at, later
SELECT raw.ended, raw.tie, p."workflow_uuid" IS NOT NULL AS child, u."workflow_uuid" AS key,
u."parent_workflow_id" AS parent, u."status" AS status, coalesce(CASE WHEN (u."completed_at" IS NULL) THEN
NULL WHEN (u."completed_at" >= 946684800000) THEN CAST(least(u."completed_at", 253402300799000) * CAST(1000 AS
BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END, CASE WHEN (u."updated_at" IS NULL) THEN NULL WHEN
(u."updated_at" >= 946684800000) THEN CAST(least(u."updated_at", 253402300799000) * CAST(1000 AS BIGINT) AS
BIGINT) ELSE CAST(-1 AS BIGINT) END) AS ended, u."name" AS group0, u."application_name" AS group1 FROM (SELECT
k."completed_at" AS ended, k."workflow_uuid" AS tie FROM "dbos"."workflow_status" AS k WHERE k."completed_at"
IS NOT NULL AND k."completed_at" < %(bound)s AND k."completed_at" > %(ended)s ORDER BY k."completed_at" LIMIT
%(param_1)s::INTEGER) AS raw JOIN "dbos"."workflow_status" AS u ON u."workflow_uuid" = raw.tie LEFT OUTER JOIN
"dbos"."workflow_status" AS p ON p."workflow_uuid" = u."parent_workflow_id" ORDER BY raw.ended, raw.tie;

-- page by completed_at, named
SELECT raw.ended, raw.tie, p."workflow_uuid" IS NOT NULL AS child, u."workflow_uuid" AS key,
u."parent_workflow_id" AS parent, u."status" AS status, coalesce(CASE WHEN (u."completed_at" IS NULL) THEN
NULL WHEN (u."completed_at" >= 946684800000) THEN CAST(least(u."completed_at", 253402300799000) * CAST(1000 AS
BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END, CASE WHEN (u."updated_at" IS NULL) THEN NULL WHEN
(u."updated_at" >= 946684800000) THEN CAST(least(u."updated_at", 253402300799000) * CAST(1000 AS BIGINT) AS
BIGINT) ELSE CAST(-1 AS BIGINT) END) AS ended, u."name" AS group0, u."application_name" AS group1 FROM (SELECT
k."completed_at" AS ended, k."workflow_uuid" AS tie FROM "dbos"."workflow_status" AS k WHERE k."workflow_uuid"
= any(CAST(%(keys)s AS TEXT[])) LIMIT ALL OFFSET 0) AS raw JOIN "dbos"."workflow_status" AS u ON
u."workflow_uuid" = raw.tie LEFT OUTER JOIN "dbos"."workflow_status" AS p ON p."workflow_uuid" =
u."parent_workflow_id" WHERE raw.ended = %(ended)s ORDER BY raw.ended, raw.tie;

-- page by completed_at, ties
SELECT k."workflow_uuid" FROM "dbos"."workflow_status" AS k WHERE k."completed_at" IS NOT NULL AND
k."completed_at" < %(bound)s AND k."completed_at" = %(ended)s AND k."workflow_uuid" > %(tie)s ORDER BY
k."workflow_uuid" LIMIT %(param_1)s::INTEGER;

-- remaining by completed_at
SELECT count(*) AS count_1 FROM "dbos"."workflow_status" AS u LEFT OUTER JOIN "dbos"."workflow_status" AS p ON
p."workflow_uuid" = u."parent_workflow_id" WHERE p."workflow_uuid" IS NULL AND (CAST(u."status" AS TEXT)
COLLATE "C") IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED') AND u."completed_at" IS
NOT NULL AND u."completed_at" < %(bound0)s AND u."completed_at" >= %(ended)s;

-- page by updated_at, first
SELECT raw.ended, raw.tie, p."workflow_uuid" IS NOT NULL AS child, u."workflow_uuid" AS key,
u."parent_workflow_id" AS parent, u."status" AS status, coalesce(CASE WHEN (u."completed_at" IS NULL) THEN
NULL WHEN (u."completed_at" >= 946684800000) THEN CAST(least(u."completed_at", 253402300799000) * CAST(1000 AS
BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END, CASE WHEN (u."updated_at" IS NULL) THEN NULL WHEN
(u."updated_at" >= 946684800000) THEN CAST(least(u."updated_at", 253402300799000) * CAST(1000 AS BIGINT) AS
BIGINT) ELSE CAST(-1 AS BIGINT) END) AS ended, u."name" AS group0, u."application_name" AS group1 FROM (SELECT
k."updated_at" AS ended, k."workflow_uuid" AS tie FROM "dbos"."workflow_status" AS k WHERE k."updated_at" IS
NOT NULL AND k."updated_at" < %(bound)s AND k."completed_at" IS NULL AND k."status" IN ('SUCCESS', 'ERROR',
'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED') ORDER BY k."updated_at", k."workflow_uuid" LIMIT
%(param_1)s::INTEGER) AS raw JOIN "dbos"."workflow_status" AS u ON u."workflow_uuid" = raw.tie LEFT OUTER JOIN
"dbos"."workflow_status" AS p ON p."workflow_uuid" = u."parent_workflow_id" ORDER BY raw.ended, raw.tie;

-- page by updated_at, tied
SELECT raw.ended, raw.tie, p."workflow_uuid" IS NOT NULL AS child, u."workflow_uuid" AS key,
u."parent_workflow_id" AS parent, u."status" AS status, coalesce(CASE WHEN (u."completed_at" IS NULL) THEN
NULL WHEN (u."completed_at" >= 946684800000) THEN CAST(least(u."completed_at", 253402300799000) * CAST(1000 AS
BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END, CASE WHEN (u."updated_at" IS NULL) THEN NULL WHEN
(u."updated_at" >= 946684800000) THEN CAST(least(u."updated_at", 253402300799000) * CAST(1000 AS BIGINT) AS
BIGINT) ELSE CAST(-1 AS BIGINT) END) AS ended, u."name" AS group0, u."application_name" AS group1 FROM (SELECT
k."updated_at" AS ended, k."workflow_uuid" AS tie FROM "dbos"."workflow_status" AS k WHERE k."updated_at" IS
NOT NULL AND k."updated_at" < %(bound)s AND k."updated_at" = %(ended)s AND k."workflow_uuid" > %(tie)s AND
k."completed_at" IS NULL AND k."status" IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED')
ORDER BY k."updated_at", k."workflow_uuid" LIMIT %(param_1)s::INTEGER) AS raw JOIN "dbos"."workflow_status" AS
u ON u."workflow_uuid" = raw.tie LEFT OUTER JOIN "dbos"."workflow_status" AS p ON p."workflow_uuid" =
u."parent_workflow_id" ORDER BY raw.ended, raw.tie;

-- page by updated_at, later
SELECT raw.ended, raw.tie, p."workflow_uuid" IS NOT NULL AS child, u."workflow_uuid" AS key,
u."parent_workflow_id" AS parent, u."status" AS status, coalesce(CASE WHEN (u."completed_at" IS NULL) THEN
NULL WHEN (u."completed_at" >= 946684800000) THEN CAST(least(u."completed_at", 253402300799000) * CAST(1000 AS
BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END, CASE WHEN (u."updated_at" IS NULL) THEN NULL WHEN
(u."updated_at" >= 946684800000) THEN CAST(least(u."updated_at", 253402300799000) * CAST(1000 AS BIGINT) AS
BIGINT) ELSE CAST(-1 AS BIGINT) END) AS ended, u."name" AS group0, u."application_name" AS group1 FROM (SELECT
k."updated_at" AS ended, k."workflow_uuid" AS tie FROM "dbos"."workflow_status" AS k WHERE k."updated_at" IS
NOT NULL AND k."updated_at" < %(bound)s AND k."updated_at" > %(ended)s AND k."completed_at" IS NULL AND
k."status" IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED') ORDER BY k."updated_at",
k."workflow_uuid" LIMIT %(param_1)s::INTEGER) AS raw JOIN "dbos"."workflow_status" AS u ON u."workflow_uuid" =
raw.tie LEFT OUTER JOIN "dbos"."workflow_status" AS p ON p."workflow_uuid" = u."parent_workflow_id" ORDER BY
raw.ended, raw.tie;

-- remaining by updated_at
SELECT count(*) AS count_1 FROM "dbos"."workflow_status" AS u LEFT OUTER JOIN "dbos"."workflow_status" AS p ON
p."workflow_uuid" = u."parent_workflow_id" WHERE p."workflow_uuid" IS NULL AND (CAST(u."status" AS TEXT)
COLLATE "C") IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED') AND u."updated_at" IS NOT
NULL AND u."updated_at" < %(bound1)s AND u."completed_at" IS NULL AND u."updated_at" >= %(ended)s;

-- facts by key
SELECT u."workflow_uuid" AS key, u."parent_workflow_id" AS parent, u."status" AS status, coalesce(CASE WHEN
(u."completed_at" IS NULL) THEN NULL WHEN (u."completed_at" >= 946684800000) THEN CAST(least(u."completed_at",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END, CASE WHEN (u."updated_at" IS
NULL) THEN NULL WHEN (u."updated_at" >= 946684800000) THEN CAST(least(u."updated_at", 253402300799000) *
CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END) AS ended, u."name" AS group0,
u."application_name" AS group1 FROM "dbos"."workflow_status" AS u WHERE u."workflow_uuid" = any(CAST(%(keys)s
AS TEXT[]));

-- facts by parent 0
SELECT u."workflow_uuid" AS key, u."parent_workflow_id" AS parent, u."status" AS status, coalesce(CASE WHEN
(u."completed_at" IS NULL) THEN NULL WHEN (u."completed_at" >= 946684800000) THEN CAST(least(u."completed_at",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END, CASE WHEN (u."updated_at" IS
NULL) THEN NULL WHEN (u."updated_at" >= 946684800000) THEN CAST(least(u."updated_at", 253402300799000) *
CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END) AS ended, u."name" AS group0,
u."application_name" AS group1 FROM "dbos"."workflow_status" AS u WHERE u."parent_workflow_id" =
any(CAST(%(keys)s AS TEXT[]));

-- links 0
SELECT u."parent_workflow_id" FROM "dbos"."workflow_status" AS u WHERE u."parent_workflow_id" IS NOT NULL
ORDER BY u."parent_workflow_id" DESC LIMIT %(one)s::INTEGER;

-- attached
SELECT u."workflow_uuid", p."workflow_uuid" IS NOT NULL AS child FROM "dbos"."workflow_status" AS u LEFT OUTER
JOIN "dbos"."workflow_status" AS p ON p."workflow_uuid" = u."parent_workflow_id" WHERE u."workflow_uuid" =
any(CAST(%(keys)s AS TEXT[]));

-- held by cross-tree-reference
SELECT rows.held FROM (SELECT w."workflow_uuid" AS "workflow_uuid" FROM "dbos"."workflow_status" AS w WHERE
w."status" IN ('ENQUEUED', 'PENDING') UNION ALL SELECT w."workflow_uuid" AS "workflow_uuid" FROM
"dbos"."workflow_status" AS w WHERE w."status" = 'DELAYED') AS live JOIN LATERAL (SELECT r."child_workflow_id"
AS held FROM "dbos"."operation_outputs" AS r WHERE r."workflow_uuid" = live."workflow_uuid" LIMIT ALL OFFSET
0) AS rows ON true WHERE rows.held = any(CAST(%(keys)s AS TEXT[]));

-- held by fork-base
SELECT r."forked_from" FROM "dbos"."workflow_status" AS r WHERE r."forked_from" = any(CAST(%(keys)s AS
TEXT[])) AND (EXISTS (SELECT * FROM "dbos"."workflow_status" AS w WHERE w."workflow_uuid" = r."workflow_uuid"
AND w."status" IN ('ENQUEUED', 'PENDING', 'DELAYED') LIMIT ALL OFFSET 0));

-- lock
SELECT u."workflow_uuid" AS key, u."parent_workflow_id" AS parent, u."status" AS status, coalesce(CASE WHEN
(u."completed_at" IS NULL) THEN NULL WHEN (u."completed_at" >= 946684800000) THEN CAST(least(u."completed_at",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END, CASE WHEN (u."updated_at" IS
NULL) THEN NULL WHEN (u."updated_at" >= 946684800000) THEN CAST(least(u."updated_at", 253402300799000) *
CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END) AS ended, u."name" AS group0,
u."application_name" AS group1 FROM "dbos"."workflow_status" AS u WHERE u."workflow_uuid" = any(CAST(%(keys)s
AS TEXT[])) ORDER BY u."workflow_uuid" FOR UPDATE OF u SKIP LOCKED;

-- weigh
SELECT u."workflow_uuid", 1 + (SELECT count(*) AS count_1 FROM "dbos"."operation_outputs" AS t WHERE
u."workflow_uuid" = t."workflow_uuid") + (SELECT count(*) AS count_2 FROM "dbos"."workflow_input" AS t WHERE
u."workflow_uuid" = t."workflow_uuid") + (SELECT count(*) AS count_3 FROM "dbos"."workflow_output" AS t WHERE
u."workflow_uuid" = t."workflow_uuid") + (SELECT count(*) AS count_4 FROM "dbos"."workflow_events" AS t WHERE
u."workflow_uuid" = t."workflow_uuid") + (SELECT count(*) AS count_5 FROM "dbos"."workflow_events_history" AS
t WHERE u."workflow_uuid" = t."workflow_uuid") + (SELECT count(*) AS count_6 FROM "dbos"."streams" AS t WHERE
u."workflow_uuid" = t."workflow_uuid") + (SELECT count(*) AS count_7 FROM "dbos"."notifications" AS t WHERE
u."workflow_uuid" = t."destination_uuid") AS anon_1 FROM "dbos"."workflow_status" AS u WHERE u."workflow_uuid"
= any(CAST(%(keys)s AS TEXT[]));

-- count operation_outputs
SELECT count(*) AS count_1 FROM "dbos"."operation_outputs" WHERE "dbos"."operation_outputs"."workflow_uuid" =
any(CAST(%(keys)s AS TEXT[]));

-- count workflow_input
SELECT count(*) AS count_1 FROM "dbos"."workflow_input" WHERE "dbos"."workflow_input"."workflow_uuid" =
any(CAST(%(keys)s AS TEXT[]));

-- count workflow_output
SELECT count(*) AS count_1 FROM "dbos"."workflow_output" WHERE "dbos"."workflow_output"."workflow_uuid" =
any(CAST(%(keys)s AS TEXT[]));

-- count workflow_events
SELECT count(*) AS count_1 FROM "dbos"."workflow_events" WHERE "dbos"."workflow_events"."workflow_uuid" =
any(CAST(%(keys)s AS TEXT[]));

-- count workflow_events_history
SELECT count(*) AS count_1 FROM "dbos"."workflow_events_history" WHERE
"dbos"."workflow_events_history"."workflow_uuid" = any(CAST(%(keys)s AS TEXT[]));

-- count streams
SELECT count(*) AS count_1 FROM "dbos"."streams" WHERE "dbos"."streams"."workflow_uuid" = any(CAST(%(keys)s AS
TEXT[]));

-- count notifications
SELECT count(*) AS count_1 FROM "dbos"."notifications" WHERE "dbos"."notifications"."destination_uuid" =
any(CAST(%(keys)s AS TEXT[]));

-- count workflow_status
SELECT count(*) AS count_1 FROM "dbos"."workflow_status" WHERE "dbos"."workflow_status"."workflow_uuid" =
any(CAST(%(keys)s AS TEXT[]));

-- delete operation_outputs
DELETE FROM "dbos"."operation_outputs" WHERE "dbos"."operation_outputs"."workflow_uuid" = any(CAST(%(keys)s AS
TEXT[]));

-- delete workflow_input
DELETE FROM "dbos"."workflow_input" WHERE "dbos"."workflow_input"."workflow_uuid" = any(CAST(%(keys)s AS
TEXT[]));

-- delete workflow_output
DELETE FROM "dbos"."workflow_output" WHERE "dbos"."workflow_output"."workflow_uuid" = any(CAST(%(keys)s AS
TEXT[]));

-- delete workflow_events
DELETE FROM "dbos"."workflow_events" WHERE "dbos"."workflow_events"."workflow_uuid" = any(CAST(%(keys)s AS
TEXT[]));

-- delete workflow_events_history
DELETE FROM "dbos"."workflow_events_history" WHERE "dbos"."workflow_events_history"."workflow_uuid" =
any(CAST(%(keys)s AS TEXT[]));

-- delete streams
DELETE FROM "dbos"."streams" WHERE "dbos"."streams"."workflow_uuid" = any(CAST(%(keys)s AS TEXT[]));

-- delete notifications
DELETE FROM "dbos"."notifications" WHERE "dbos"."notifications"."destination_uuid" = any(CAST(%(keys)s AS
TEXT[]));

-- delete workflow_status
DELETE FROM "dbos"."workflow_status" WHERE "dbos"."workflow_status"."workflow_uuid" = any(CAST(%(keys)s AS
TEXT[]));

-- census
SELECT rows.status, count(*) AS count_1, NULL AS anon_1 FROM (SELECT CAST(u."status" AS TEXT) COLLATE "C" AS
status, u."workflow_uuid" AS tie FROM "dbos"."workflow_status" AS u) AS rows GROUP BY rows.status;

-- newest 0
SELECT CASE WHEN (u."created_at" IS NULL) THEN NULL WHEN (u."created_at" >= 946684800000) THEN
CAST(least(u."created_at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END AS
anon_1 FROM "dbos"."workflow_status" AS u WHERE u."created_at" IS NOT NULL AND CASE WHEN (u."created_at" IS
NULL) THEN NULL WHEN (u."created_at" >= 946684800000) THEN CAST(least(u."created_at", 253402300799000) *
CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END >= %(param_1)s::INTEGER AND CASE WHEN
(u."created_at" IS NULL) THEN NULL WHEN (u."created_at" >= 946684800000) THEN CAST(least(u."created_at",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END <= %(param_2)s::BIGINT ORDER BY
u."created_at" DESC LIMIT %(param_3)s::INTEGER;

-- newest 1
SELECT CASE WHEN (u."completed_at" IS NULL) THEN NULL WHEN (u."completed_at" >= 946684800000) THEN
CAST(least(u."completed_at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END AS
anon_1 FROM "dbos"."workflow_status" AS u WHERE u."completed_at" IS NOT NULL AND CASE WHEN (u."completed_at"
IS NULL) THEN NULL WHEN (u."completed_at" >= 946684800000) THEN CAST(least(u."completed_at", 253402300799000)
* CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END >= %(param_1)s::INTEGER AND CASE WHEN
(u."completed_at" IS NULL) THEN NULL WHEN (u."completed_at" >= 946684800000) THEN CAST(least(u."completed_at",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END <= %(param_2)s::BIGINT ORDER BY
u."completed_at" DESC LIMIT %(param_3)s::INTEGER;

-- newest kept
SELECT ranked.ended, ranked.key, ranked.group0, ranked.group1 FROM (SELECT coalesce(CASE WHEN
(u."completed_at" IS NULL) THEN NULL WHEN (u."completed_at" >= 946684800000) THEN CAST(least(u."completed_at",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END, CASE WHEN (u."updated_at" IS
NULL) THEN NULL WHEN (u."updated_at" >= 946684800000) THEN CAST(least(u."updated_at", 253402300799000) *
CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END) AS ended, u."workflow_uuid" AS key, row_number()
OVER (PARTITION BY CAST(u."name" AS TEXT) COLLATE "C", CAST(u."application_name" AS TEXT) COLLATE "C" ORDER BY
coalesce(CASE WHEN (u."completed_at" IS NULL) THEN NULL WHEN (u."completed_at" >= 946684800000) THEN
CAST(least(u."completed_at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END,
CASE WHEN (u."updated_at" IS NULL) THEN NULL WHEN (u."updated_at" >= 946684800000) THEN
CAST(least(u."updated_at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END)
DESC, CAST(u."workflow_uuid" AS TEXT) COLLATE "C" DESC) AS position, CAST(u."name" AS TEXT) COLLATE "C" AS
group0, CAST(u."application_name" AS TEXT) COLLATE "C" AS group1 FROM "dbos"."workflow_status" AS u LEFT OUTER
JOIN "dbos"."workflow_status" AS p ON p."workflow_uuid" = u."parent_workflow_id" WHERE p."workflow_uuid" IS
NULL AND (CAST(u."status" AS TEXT) COLLATE "C") = 'SUCCESS' AND coalesce(CASE WHEN (u."completed_at" IS NULL)
THEN NULL WHEN (u."completed_at" >= 946684800000) THEN CAST(least(u."completed_at", 253402300799000) *
CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END, CASE WHEN (u."updated_at" IS NULL) THEN NULL WHEN
(u."updated_at" >= 946684800000) THEN CAST(least(u."updated_at", 253402300799000) * CAST(1000 AS BIGINT) AS
BIGINT) ELSE CAST(-1 AS BIGINT) END) > 0 AND coalesce(CASE WHEN (u."completed_at" IS NULL) THEN NULL WHEN
(u."completed_at" >= 946684800000) THEN CAST(least(u."completed_at", 253402300799000) * CAST(1000 AS BIGINT)
AS BIGINT) ELSE CAST(-1 AS BIGINT) END, CASE WHEN (u."updated_at" IS NULL) THEN NULL WHEN (u."updated_at" >=
946684800000) THEN CAST(least(u."updated_at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1
AS BIGINT) END) <= %(latest)s::BIGINT) AS ranked WHERE ranked.position = %(count)s;

-- newest in slots
SELECT ranked.ended, ranked.key, ranked.group0, ranked.group1 FROM (SELECT coalesce(CASE WHEN
(u."completed_at" IS NULL) THEN NULL WHEN (u."completed_at" >= 946684800000) THEN CAST(least(u."completed_at",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END, CASE WHEN (u."updated_at" IS
NULL) THEN NULL WHEN (u."updated_at" >= 946684800000) THEN CAST(least(u."updated_at", 253402300799000) *
CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END) AS ended, u."workflow_uuid" AS key, row_number()
OVER (PARTITION BY CAST(u."name" AS TEXT) COLLATE "C", CAST(u."application_name" AS TEXT) COLLATE "C",
CAST(coalesce(CASE WHEN (u."completed_at" IS NULL) THEN NULL WHEN (u."completed_at" >= 946684800000) THEN
CAST(least(u."completed_at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END,
CASE WHEN (u."updated_at" IS NULL) THEN NULL WHEN (u."updated_at" >= 946684800000) THEN
CAST(least(u."updated_at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END) /
86400000000 AS INTEGER) ORDER BY coalesce(CASE WHEN (u."completed_at" IS NULL) THEN NULL WHEN
(u."completed_at" >= 946684800000) THEN CAST(least(u."completed_at", 253402300799000) * CAST(1000 AS BIGINT)
AS BIGINT) ELSE CAST(-1 AS BIGINT) END, CASE WHEN (u."updated_at" IS NULL) THEN NULL WHEN (u."updated_at" >=
946684800000) THEN CAST(least(u."updated_at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1
AS BIGINT) END) DESC, CAST(u."workflow_uuid" AS TEXT) COLLATE "C" DESC) AS position, CAST(u."name" AS TEXT)
COLLATE "C" AS group0, CAST(u."application_name" AS TEXT) COLLATE "C" AS group1 FROM "dbos"."workflow_status"
AS u LEFT OUTER JOIN "dbos"."workflow_status" AS p ON p."workflow_uuid" = u."parent_workflow_id" WHERE
p."workflow_uuid" IS NULL AND (CAST(u."status" AS TEXT) COLLATE "C") IN ('SUCCESS', 'ERROR', 'CANCELLED',
'MAX_RECOVERY_ATTEMPTS_EXCEEDED') AND coalesce(CASE WHEN (u."completed_at" IS NULL) THEN NULL WHEN
(u."completed_at" >= 946684800000) THEN CAST(least(u."completed_at", 253402300799000) * CAST(1000 AS BIGINT)
AS BIGINT) ELSE CAST(-1 AS BIGINT) END, CASE WHEN (u."updated_at" IS NULL) THEN NULL WHEN (u."updated_at" >=
946684800000) THEN CAST(least(u."updated_at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1
AS BIGINT) END) > 0 AND coalesce(CASE WHEN (u."completed_at" IS NULL) THEN NULL WHEN (u."completed_at" >=
946684800000) THEN CAST(least(u."completed_at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END, CASE WHEN (u."updated_at" IS NULL) THEN NULL WHEN (u."updated_at" >= 946684800000)
THEN CAST(least(u."updated_at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT)
END) <= %(latest)s::BIGINT) AS ranked WHERE ranked.position = %(count)s;

-- newest of all
SELECT coalesce(CASE WHEN (u."completed_at" IS NULL) THEN NULL WHEN (u."completed_at" >= 946684800000) THEN
CAST(least(u."completed_at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END,
CASE WHEN (u."updated_at" IS NULL) THEN NULL WHEN (u."updated_at" >= 946684800000) THEN
CAST(least(u."updated_at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END) AS
ended, u."workflow_uuid" AS key FROM "dbos"."workflow_status" AS u LEFT OUTER JOIN "dbos"."workflow_status" AS
p ON p."workflow_uuid" = u."parent_workflow_id" WHERE p."workflow_uuid" IS NULL AND (CAST(u."status" AS TEXT)
COLLATE "C") IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED') AND coalesce(CASE WHEN
(u."completed_at" IS NULL) THEN NULL WHEN (u."completed_at" >= 946684800000) THEN CAST(least(u."completed_at",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END, CASE WHEN (u."updated_at" IS
NULL) THEN NULL WHEN (u."updated_at" >= 946684800000) THEN CAST(least(u."updated_at", 253402300799000) *
CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END) > 0 AND coalesce(CASE WHEN (u."completed_at" IS
NULL) THEN NULL WHEN (u."completed_at" >= 946684800000) THEN CAST(least(u."completed_at", 253402300799000) *
CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END, CASE WHEN (u."updated_at" IS NULL) THEN NULL WHEN
(u."updated_at" >= 946684800000) THEN CAST(least(u."updated_at", 253402300799000) * CAST(1000 AS BIGINT) AS
BIGINT) ELSE CAST(-1 AS BIGINT) END) <= %(latest)s::BIGINT ORDER BY coalesce(CASE WHEN (u."completed_at" IS
NULL) THEN NULL WHEN (u."completed_at" >= 946684800000) THEN CAST(least(u."completed_at", 253402300799000) *
CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END, CASE WHEN (u."updated_at" IS NULL) THEN NULL WHEN
(u."updated_at" >= 946684800000) THEN CAST(least(u."updated_at", 253402300799000) * CAST(1000 AS BIGINT) AS
BIGINT) ELSE CAST(-1 AS BIGINT) END) DESC, CAST(u."workflow_uuid" AS TEXT) COLLATE "C" DESC LIMIT
%(param_1)s::INTEGER OFFSET %(count)s::INTEGER - 1;

-- groups
SELECT count(*) AS count_1 FROM (SELECT DISTINCT CAST(u."name" AS TEXT) COLLATE "C" AS anon_2,
CAST(u."application_name" AS TEXT) COLLATE "C" AS anon_3 FROM "dbos"."workflow_status" AS u LEFT OUTER JOIN
"dbos"."workflow_status" AS p ON p."workflow_uuid" = u."parent_workflow_id" WHERE p."workflow_uuid" IS NULL)
AS anon_1;

-- roots
SELECT count(*) AS count_1 FROM "dbos"."workflow_status" AS u LEFT OUTER JOIN "dbos"."workflow_status" AS p ON
p."workflow_uuid" = u."parent_workflow_id" WHERE p."workflow_uuid" IS NULL;

-- outside 0
SELECT CAST(u."status" AS TEXT) COLLATE "C" AS status, CASE WHEN (coalesce(CASE WHEN (u."completed_at" IS
NULL) THEN NULL WHEN (u."completed_at" >= 946684800000) THEN CAST(least(u."completed_at", 253402300799000) *
CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END, CASE WHEN (u."updated_at" IS NULL) THEN NULL WHEN
(u."updated_at" >= 946684800000) THEN CAST(least(u."updated_at", 253402300799000) * CAST(1000 AS BIGINT) AS
BIGINT) ELSE CAST(-1 AS BIGINT) END) IS NULL) THEN 'unknown-end-time' WHEN (coalesce(CASE WHEN
(u."completed_at" IS NULL) THEN NULL WHEN (u."completed_at" >= 946684800000) THEN CAST(least(u."completed_at",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END, CASE WHEN (u."updated_at" IS
NULL) THEN NULL WHEN (u."updated_at" >= 946684800000) THEN CAST(least(u."updated_at", 253402300799000) *
CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END) = -1) THEN 'unreadable-end-time' WHEN
(coalesce(CASE WHEN (u."completed_at" IS NULL) THEN NULL WHEN (u."completed_at" >= 946684800000) THEN
CAST(least(u."completed_at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END,
CASE WHEN (u."updated_at" IS NULL) THEN NULL WHEN (u."updated_at" >= 946684800000) THEN
CAST(least(u."updated_at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END) >
%(latest)s::BIGINT) THEN 'future-end-time' ELSE 'known' END AS known, count(*) AS count_1 FROM
"dbos"."workflow_status" AS u LEFT OUTER JOIN "dbos"."workflow_status" AS p ON p."workflow_uuid" =
u."parent_workflow_id" WHERE p."workflow_uuid" IS NULL AND CASE WHEN ((CAST(u."status" AS TEXT) COLLATE "C")
IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED') AND (u."completed_at" IS NOT NULL AND
u."completed_at" < %(bound0)s OR u."updated_at" IS NOT NULL AND u."updated_at" < %(bound1)s AND
u."completed_at" IS NULL)) THEN 0 ELSE 1 END = 1 GROUP BY 1, 2;

-- outside 1
WITH RECURSIVE reached(key, beyond) AS (SELECT u."workflow_uuid" AS key, CASE WHEN ((CAST(u."status" AS TEXT)
COLLATE "C") IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED') AND (u."completed_at" IS
NOT NULL AND u."completed_at" < %(bound0)s OR u."updated_at" IS NOT NULL AND u."updated_at" < %(bound1)s AND
u."completed_at" IS NULL)) THEN 0 ELSE 1 END = 1 AS beyond FROM "dbos"."workflow_status" AS u LEFT OUTER JOIN
"dbos"."workflow_status" AS p ON p."workflow_uuid" = u."parent_workflow_id" WHERE p."workflow_uuid" IS NULL
UNION ALL SELECT below.key AS key, reached.beyond AS beyond FROM reached JOIN LATERAL (SELECT
u."workflow_uuid" AS key FROM "dbos"."workflow_status" AS u WHERE u."parent_workflow_id" = reached.key LIMIT
ALL OFFSET 0) AS below ON true) SELECT coalesce(sum(CASE WHEN reached.beyond THEN %(param_1)s::INTEGER ELSE
%(param_2)s::INTEGER END), %(coalesce_2)s::INTEGER) AS coalesce_1, count(*) AS count_1, (SELECT count(*) AS
count_2 FROM "dbos"."workflow_status" AS u) AS anon_1 FROM reached;

-- has rows 0
SELECT 1 FROM "dbos"."workflow_status" AS u WHERE u."status" IN ('SUCCESS', 'ERROR', 'CANCELLED',
'MAX_RECOVERY_ATTEMPTS_EXCEEDED') LIMIT %(param_1)s::INTEGER;

-- has rows 1
SELECT 1 FROM "dbos"."workflow_status" AS u WHERE u."completed_at" IS NULL AND u."status" IN ('SUCCESS',
'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED') LIMIT %(param_1)s::INTEGER;

-- orphans 0
SELECT count(*) AS count_1 FROM "dbos"."operation_outputs" AS t LEFT OUTER JOIN "dbos"."workflow_status" AS h
ON h."workflow_uuid" = t."workflow_uuid" WHERE h."workflow_uuid" IS NULL AND t."workflow_uuid" IS NOT NULL;

-- orphans 1
SELECT count(*) AS count_1 FROM "dbos"."workflow_input" AS t LEFT OUTER JOIN "dbos"."workflow_status" AS h ON
h."workflow_uuid" = t."workflow_uuid" WHERE h."workflow_uuid" IS NULL AND t."workflow_uuid" IS NOT NULL;

-- orphans 2
SELECT count(*) AS count_1 FROM "dbos"."workflow_output" AS t LEFT OUTER JOIN "dbos"."workflow_status" AS h ON
h."workflow_uuid" = t."workflow_uuid" WHERE h."workflow_uuid" IS NULL AND t."workflow_uuid" IS NOT NULL;

-- orphans 3
SELECT count(*) AS count_1 FROM "dbos"."workflow_events" AS t LEFT OUTER JOIN "dbos"."workflow_status" AS h ON
h."workflow_uuid" = t."workflow_uuid" WHERE h."workflow_uuid" IS NULL AND t."workflow_uuid" IS NOT NULL;

-- orphans 4
SELECT count(*) AS count_1 FROM "dbos"."workflow_events_history" AS t LEFT OUTER JOIN "dbos"."workflow_status"
AS h ON h."workflow_uuid" = t."workflow_uuid" WHERE h."workflow_uuid" IS NULL AND t."workflow_uuid" IS NOT
NULL;

-- orphans 5
SELECT count(*) AS count_1 FROM "dbos"."streams" AS t LEFT OUTER JOIN "dbos"."workflow_status" AS h ON
h."workflow_uuid" = t."workflow_uuid" WHERE h."workflow_uuid" IS NULL AND t."workflow_uuid" IS NOT NULL;

-- orphans 6
SELECT count(*) AS count_1 FROM "dbos"."notifications" AS t LEFT OUTER JOIN "dbos"."workflow_status" AS h ON
h."workflow_uuid" = t."destination_uuid" WHERE h."workflow_uuid" IS NULL AND t."destination_uuid" IS NOT NULL;

-- lost references 0
SELECT count(*) AS count_1 FROM (SELECT w."workflow_uuid" AS "workflow_uuid" FROM "dbos"."workflow_status" AS
w WHERE w."status" IN ('ENQUEUED', 'PENDING') UNION ALL SELECT w."workflow_uuid" AS "workflow_uuid" FROM
"dbos"."workflow_status" AS w WHERE w."status" = 'DELAYED') AS live JOIN "dbos"."operation_outputs" AS r ON
r."workflow_uuid" = live."workflow_uuid" LEFT OUTER JOIN "dbos"."workflow_status" AS h ON h."workflow_uuid" =
r."child_workflow_id" WHERE h."workflow_uuid" IS NULL AND r."child_workflow_id" IS NOT NULL;

-- lost references 1
SELECT count(*) AS count_1 FROM (SELECT w."workflow_uuid" AS "workflow_uuid" FROM "dbos"."workflow_status" AS
w WHERE w."status" IN ('ENQUEUED', 'PENDING') UNION ALL SELECT w."workflow_uuid" AS "workflow_uuid" FROM
"dbos"."workflow_status" AS w WHERE w."status" = 'DELAYED') AS live JOIN "dbos"."workflow_status" AS r ON
r."workflow_uuid" = live."workflow_uuid" LEFT OUTER JOIN "dbos"."workflow_status" AS h ON h."workflow_uuid" =
r."forked_from" WHERE h."workflow_uuid" IS NULL AND r."forked_from" IS NOT NULL;
