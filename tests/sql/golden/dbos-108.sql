-- Written by: AFTERRUN_WRITE_GOLDEN=1 pytest tests/sql/test_golden_sql.py

-- page by completed_at, first
SELECT raw.ended, raw.tie, p."workflow_uuid" IS NOT NULL AS child, u."workflow_uuid" AS "key",
u."parent_workflow_id" AS parent, u."status" AS status, coalesce(CASE WHEN (u."completed_at" IS NULL) THEN
NULL WHEN (typeof(u."completed_at") IN ('integer', 'real') AND u."completed_at" >= 946684800000) THEN
CAST(min(u."completed_at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END, CASE WHEN (u."updated_at" IS
NULL) THEN NULL WHEN (typeof(u."updated_at") IN ('integer', 'real') AND u."updated_at" >= 946684800000) THEN
CAST(min(u."updated_at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) AS ended, u."name" AS group0,
u."application_name" AS group1 FROM (SELECT k."completed_at" AS ended, k.rowid AS tie FROM "workflow_status"
AS k INDEXED BY "idx_workflow_status_completed_at" WHERE k."completed_at" IS NOT NULL AND k."completed_at" < ?
ORDER BY k."completed_at", k.rowid LIMIT ? OFFSET ?) AS raw JOIN "workflow_status" AS u ON u.rowid = raw.tie
LEFT OUTER JOIN "workflow_status" AS p ON p."workflow_uuid" = u."parent_workflow_id" ORDER BY raw.ended,
raw.tie;

-- page by completed_at, tied
SELECT raw.ended, raw.tie, p."workflow_uuid" IS NOT NULL AS child, u."workflow_uuid" AS "key",
u."parent_workflow_id" AS parent, u."status" AS status, coalesce(CASE WHEN (u."completed_at" IS NULL) THEN
NULL WHEN (typeof(u."completed_at") IN ('integer', 'real') AND u."completed_at" >= 946684800000) THEN
CAST(min(u."completed_at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END, CASE WHEN (u."updated_at" IS
NULL) THEN NULL WHEN (typeof(u."updated_at") IN ('integer', 'real') AND u."updated_at" >= 946684800000) THEN
CAST(min(u."updated_at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) AS ended, u."name" AS group0,
u."application_name" AS group1 FROM (SELECT k."completed_at" AS ended, k.rowid AS tie FROM "workflow_status"
AS k INDEXED BY "idx_workflow_status_completed_at" WHERE k."completed_at" IS NOT NULL AND k."completed_at" < ?
AND k."completed_at" = ? AND k.rowid > ? ORDER BY k."completed_at", k.rowid LIMIT ? OFFSET ?) AS raw JOIN
"workflow_status" AS u ON u.rowid = raw.tie LEFT OUTER JOIN "workflow_status" AS p ON p."workflow_uuid" =
u."parent_workflow_id" ORDER BY raw.ended, raw.tie;

-- page by completed_at, later
SELECT raw.ended, raw.tie, p."workflow_uuid" IS NOT NULL AS child, u."workflow_uuid" AS "key",
u."parent_workflow_id" AS parent, u."status" AS status, coalesce(CASE WHEN (u."completed_at" IS NULL) THEN
NULL WHEN (typeof(u."completed_at") IN ('integer', 'real') AND u."completed_at" >= 946684800000) THEN
CAST(min(u."completed_at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END, CASE WHEN (u."updated_at" IS
NULL) THEN NULL WHEN (typeof(u."updated_at") IN ('integer', 'real') AND u."updated_at" >= 946684800000) THEN
CAST(min(u."updated_at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) AS ended, u."name" AS group0,
u."application_name" AS group1 FROM (SELECT k."completed_at" AS ended, k.rowid AS tie FROM "workflow_status"
AS k INDEXED BY "idx_workflow_status_completed_at" WHERE k."completed_at" IS NOT NULL AND k."completed_at" < ?
AND k."completed_at" > ? ORDER BY k."completed_at", k.rowid LIMIT ? OFFSET ?) AS raw JOIN "workflow_status" AS
u ON u.rowid = raw.tie LEFT OUTER JOIN "workflow_status" AS p ON p."workflow_uuid" = u."parent_workflow_id"
ORDER BY raw.ended, raw.tie;

-- remaining by completed_at
SELECT count(*) AS count_1 FROM "workflow_status" AS u INDEXED BY "idx_workflow_status_completed_at" LEFT
OUTER JOIN "workflow_status" AS p ON p."workflow_uuid" = u."parent_workflow_id" WHERE p."workflow_uuid" IS
NULL AND (u."status" COLLATE "BINARY") IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED')
AND u."completed_at" IS NOT NULL AND u."completed_at" < ? AND u."completed_at" >= ?;

-- page by updated_at, first
SELECT raw.ended, raw.tie, p."workflow_uuid" IS NOT NULL AS child, u."workflow_uuid" AS "key",
u."parent_workflow_id" AS parent, u."status" AS status, coalesce(CASE WHEN (u."completed_at" IS NULL) THEN
NULL WHEN (typeof(u."completed_at") IN ('integer', 'real') AND u."completed_at" >= 946684800000) THEN
CAST(min(u."completed_at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END, CASE WHEN (u."updated_at" IS
NULL) THEN NULL WHEN (typeof(u."updated_at") IN ('integer', 'real') AND u."updated_at" >= 946684800000) THEN
CAST(min(u."updated_at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) AS ended, u."name" AS group0,
u."application_name" AS group1 FROM (SELECT k."updated_at" AS ended, k.rowid AS tie FROM "workflow_status" AS
k WHERE k."updated_at" IS NOT NULL AND k."updated_at" < ? AND k."completed_at" IS NULL AND k."status" IN
('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED') ORDER BY k."updated_at", k.rowid LIMIT ?
OFFSET ?) AS raw JOIN "workflow_status" AS u ON u.rowid = raw.tie LEFT OUTER JOIN "workflow_status" AS p ON
p."workflow_uuid" = u."parent_workflow_id" ORDER BY raw.ended, raw.tie;

-- page by updated_at, tied
SELECT raw.ended, raw.tie, p."workflow_uuid" IS NOT NULL AS child, u."workflow_uuid" AS "key",
u."parent_workflow_id" AS parent, u."status" AS status, coalesce(CASE WHEN (u."completed_at" IS NULL) THEN
NULL WHEN (typeof(u."completed_at") IN ('integer', 'real') AND u."completed_at" >= 946684800000) THEN
CAST(min(u."completed_at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END, CASE WHEN (u."updated_at" IS
NULL) THEN NULL WHEN (typeof(u."updated_at") IN ('integer', 'real') AND u."updated_at" >= 946684800000) THEN
CAST(min(u."updated_at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) AS ended, u."name" AS group0,
u."application_name" AS group1 FROM (SELECT k."updated_at" AS ended, k.rowid AS tie FROM "workflow_status" AS
k WHERE k."updated_at" IS NOT NULL AND k."updated_at" < ? AND k."updated_at" = ? AND k.rowid > ? AND
k."completed_at" IS NULL AND k."status" IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED')
ORDER BY k."updated_at", k.rowid LIMIT ? OFFSET ?) AS raw JOIN "workflow_status" AS u ON u.rowid = raw.tie
LEFT OUTER JOIN "workflow_status" AS p ON p."workflow_uuid" = u."parent_workflow_id" ORDER BY raw.ended,
raw.tie;

-- page by updated_at, later
SELECT raw.ended, raw.tie, p."workflow_uuid" IS NOT NULL AS child, u."workflow_uuid" AS "key",
u."parent_workflow_id" AS parent, u."status" AS status, coalesce(CASE WHEN (u."completed_at" IS NULL) THEN
NULL WHEN (typeof(u."completed_at") IN ('integer', 'real') AND u."completed_at" >= 946684800000) THEN
CAST(min(u."completed_at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END, CASE WHEN (u."updated_at" IS
NULL) THEN NULL WHEN (typeof(u."updated_at") IN ('integer', 'real') AND u."updated_at" >= 946684800000) THEN
CAST(min(u."updated_at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) AS ended, u."name" AS group0,
u."application_name" AS group1 FROM (SELECT k."updated_at" AS ended, k.rowid AS tie FROM "workflow_status" AS
k WHERE k."updated_at" IS NOT NULL AND k."updated_at" < ? AND k."updated_at" > ? AND k."completed_at" IS NULL
AND k."status" IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED') ORDER BY k."updated_at",
k.rowid LIMIT ? OFFSET ?) AS raw JOIN "workflow_status" AS u ON u.rowid = raw.tie LEFT OUTER JOIN
"workflow_status" AS p ON p."workflow_uuid" = u."parent_workflow_id" ORDER BY raw.ended, raw.tie;

-- remaining by updated_at
SELECT count(*) AS count_1 FROM "workflow_status" AS u LEFT OUTER JOIN "workflow_status" AS p ON
p."workflow_uuid" = u."parent_workflow_id" WHERE p."workflow_uuid" IS NULL AND (u."status" COLLATE "BINARY")
IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED') AND u."updated_at" IS NOT NULL AND
u."updated_at" < ? AND u."completed_at" IS NULL AND u."updated_at" >= ?;

-- facts by key
SELECT u."workflow_uuid" AS "key", u."parent_workflow_id" AS parent, u."status" AS status, coalesce(CASE WHEN
(u."completed_at" IS NULL) THEN NULL WHEN (typeof(u."completed_at") IN ('integer', 'real') AND
u."completed_at" >= 946684800000) THEN CAST(min(u."completed_at" * 1000, 253402300799000000) AS INTEGER) ELSE
-1 END, CASE WHEN (u."updated_at" IS NULL) THEN NULL WHEN (typeof(u."updated_at") IN ('integer', 'real') AND
u."updated_at" >= 946684800000) THEN CAST(min(u."updated_at" * 1000, 253402300799000000) AS INTEGER) ELSE -1
END) AS ended, u."name" AS group0, u."application_name" AS group1 FROM "workflow_status" AS u WHERE
u."workflow_uuid" IN (SELECT anon_1.value FROM json_each(?) AS anon_1);

-- facts by parent 0
SELECT u."workflow_uuid" AS "key", u."parent_workflow_id" AS parent, u."status" AS status, coalesce(CASE WHEN
(u."completed_at" IS NULL) THEN NULL WHEN (typeof(u."completed_at") IN ('integer', 'real') AND
u."completed_at" >= 946684800000) THEN CAST(min(u."completed_at" * 1000, 253402300799000000) AS INTEGER) ELSE
-1 END, CASE WHEN (u."updated_at" IS NULL) THEN NULL WHEN (typeof(u."updated_at") IN ('integer', 'real') AND
u."updated_at" >= 946684800000) THEN CAST(min(u."updated_at" * 1000, 253402300799000000) AS INTEGER) ELSE -1
END) AS ended, u."name" AS group0, u."application_name" AS group1 FROM "workflow_status" AS u INDEXED BY
"idx_workflow_status_parent_workflow_id" WHERE u."parent_workflow_id" IN (SELECT anon_1.value FROM
json_each(?) AS anon_1);

-- links 0
SELECT u."parent_workflow_id" FROM "workflow_status" AS u INDEXED BY "idx_workflow_status_parent_workflow_id"
WHERE u."parent_workflow_id" IS NOT NULL ORDER BY u."parent_workflow_id" DESC LIMIT ? OFFSET ?;

-- attached
SELECT u."workflow_uuid", p."workflow_uuid" IS NOT NULL AS child FROM "workflow_status" AS u LEFT OUTER JOIN
"workflow_status" AS p ON p."workflow_uuid" = u."parent_workflow_id" WHERE u."workflow_uuid" IN (SELECT
anon_1.value FROM json_each(?) AS anon_1);

-- held by cross-tree-reference
SELECT r."child_workflow_id" FROM "operation_outputs" AS r WHERE r."child_workflow_id" IN (SELECT anon_1.value
FROM json_each(?) AS anon_1) AND r."workflow_uuid" IN (SELECT w."workflow_uuid" FROM "workflow_status" AS w
WHERE w."status" IN ('ENQUEUED', 'PENDING') UNION ALL SELECT w."workflow_uuid" FROM "workflow_status" AS w
WHERE w."status" = 'DELAYED');

-- held by fork-base
SELECT r."forked_from" FROM "workflow_status" AS r INDEXED BY "idx_workflow_status_forked_from" WHERE
r."forked_from" IN (SELECT anon_1.value FROM json_each(?) AS anon_1) AND (EXISTS (SELECT * FROM
"workflow_status" AS w WHERE w."workflow_uuid" = r."workflow_uuid" AND w."status" IN ('ENQUEUED', 'PENDING',
'DELAYED')));

-- weigh
SELECT u."workflow_uuid", 1 + (SELECT count(*) AS count_1 FROM "operation_outputs" AS t WHERE
u."workflow_uuid" = t."workflow_uuid") + (SELECT count(*) AS count_2 FROM "workflow_events" AS t WHERE
u."workflow_uuid" = t."workflow_uuid") + (SELECT count(*) AS count_3 FROM "workflow_events_history" AS t WHERE
u."workflow_uuid" = t."workflow_uuid") + (SELECT count(*) AS count_4 FROM "streams" AS t WHERE
u."workflow_uuid" = t."workflow_uuid") + (SELECT count(*) AS count_5 FROM "notifications" AS t WHERE
u."workflow_uuid" = t."destination_uuid") AS anon_1 FROM "workflow_status" AS u WHERE u."workflow_uuid" IN
(SELECT anon_2.value FROM json_each(?) AS anon_2);

-- count operation_outputs
SELECT count(*) AS count_1 FROM "operation_outputs" WHERE "operation_outputs"."workflow_uuid" IN (SELECT
anon_1.value FROM json_each(?) AS anon_1);

-- count workflow_events
SELECT count(*) AS count_1 FROM "workflow_events" WHERE "workflow_events"."workflow_uuid" IN (SELECT
anon_1.value FROM json_each(?) AS anon_1);

-- count workflow_events_history
SELECT count(*) AS count_1 FROM "workflow_events_history" WHERE "workflow_events_history"."workflow_uuid" IN
(SELECT anon_1.value FROM json_each(?) AS anon_1);

-- count streams
SELECT count(*) AS count_1 FROM "streams" WHERE "streams"."workflow_uuid" IN (SELECT anon_1.value FROM
json_each(?) AS anon_1);

-- count notifications
SELECT count(*) AS count_1 FROM "notifications" WHERE "notifications"."destination_uuid" IN (SELECT
anon_1.value FROM json_each(?) AS anon_1);

-- count workflow_status
SELECT count(*) AS count_1 FROM "workflow_status" WHERE "workflow_status"."workflow_uuid" IN (SELECT
anon_1.value FROM json_each(?) AS anon_1);

-- delete operation_outputs
DELETE FROM "operation_outputs" WHERE "operation_outputs"."workflow_uuid" IN (SELECT anon_1.value FROM
json_each(?) AS anon_1);

-- delete workflow_events
DELETE FROM "workflow_events" WHERE "workflow_events"."workflow_uuid" IN (SELECT anon_1.value FROM
json_each(?) AS anon_1);

-- delete workflow_events_history
DELETE FROM "workflow_events_history" WHERE "workflow_events_history"."workflow_uuid" IN (SELECT anon_1.value
FROM json_each(?) AS anon_1);

-- delete streams
DELETE FROM "streams" WHERE "streams"."workflow_uuid" IN (SELECT anon_1.value FROM json_each(?) AS anon_1);

-- delete notifications
DELETE FROM "notifications" WHERE "notifications"."destination_uuid" IN (SELECT anon_1.value FROM json_each(?)
AS anon_1);

-- delete workflow_status
DELETE FROM "workflow_status" WHERE "workflow_status"."workflow_uuid" IN (SELECT anon_1.value FROM
json_each(?) AS anon_1);

-- census
SELECT rows.status, count(*) AS count_1, max(rows.tie) AS max_1 FROM (SELECT u."status" COLLATE "BINARY" AS
status, u.rowid AS tie FROM "workflow_status" AS u ORDER BY u.rowid LIMIT ? OFFSET ?) AS rows GROUP BY
rows.status;

-- newest 0
SELECT CASE WHEN (u."created_at" IS NULL) THEN NULL WHEN (typeof(u."created_at") IN ('integer', 'real') AND
u."created_at" >= 946684800000) THEN CAST(min(u."created_at" * 1000, 253402300799000000) AS INTEGER) ELSE -1
END AS anon_1 FROM "workflow_status" AS u WHERE u."created_at" IS NOT NULL AND CASE WHEN (u."created_at" IS
NULL) THEN NULL WHEN (typeof(u."created_at") IN ('integer', 'real') AND u."created_at" >= 946684800000) THEN
CAST(min(u."created_at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END >= ? AND CASE WHEN (u."created_at"
IS NULL) THEN NULL WHEN (typeof(u."created_at") IN ('integer', 'real') AND u."created_at" >= 946684800000)
THEN CAST(min(u."created_at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END <= ? ORDER BY u."created_at"
DESC LIMIT ? OFFSET ?;

-- newest 1
SELECT CASE WHEN (u."completed_at" IS NULL) THEN NULL WHEN (typeof(u."completed_at") IN ('integer', 'real')
AND u."completed_at" >= 946684800000) THEN CAST(min(u."completed_at" * 1000, 253402300799000000) AS INTEGER)
ELSE -1 END AS anon_1 FROM "workflow_status" AS u WHERE u."completed_at" IS NOT NULL AND CASE WHEN
(u."completed_at" IS NULL) THEN NULL WHEN (typeof(u."completed_at") IN ('integer', 'real') AND
u."completed_at" >= 946684800000) THEN CAST(min(u."completed_at" * 1000, 253402300799000000) AS INTEGER) ELSE
-1 END >= ? AND CASE WHEN (u."completed_at" IS NULL) THEN NULL WHEN (typeof(u."completed_at") IN ('integer',
'real') AND u."completed_at" >= 946684800000) THEN CAST(min(u."completed_at" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END <= ? ORDER BY u."completed_at" DESC LIMIT ? OFFSET ?;

-- newest kept
SELECT ranked.ended, ranked."key", ranked.group0, ranked.group1 FROM (SELECT coalesce(CASE WHEN
(u."completed_at" IS NULL) THEN NULL WHEN (typeof(u."completed_at") IN ('integer', 'real') AND
u."completed_at" >= 946684800000) THEN CAST(min(u."completed_at" * 1000, 253402300799000000) AS INTEGER) ELSE
-1 END, CASE WHEN (u."updated_at" IS NULL) THEN NULL WHEN (typeof(u."updated_at") IN ('integer', 'real') AND
u."updated_at" >= 946684800000) THEN CAST(min(u."updated_at" * 1000, 253402300799000000) AS INTEGER) ELSE -1
END) AS ended, u."workflow_uuid" AS "key", row_number() OVER (PARTITION BY u."name" COLLATE "BINARY",
u."application_name" COLLATE "BINARY" ORDER BY coalesce(CASE WHEN (u."completed_at" IS NULL) THEN NULL WHEN
(typeof(u."completed_at") IN ('integer', 'real') AND u."completed_at" >= 946684800000) THEN
CAST(min(u."completed_at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END, CASE WHEN (u."updated_at" IS
NULL) THEN NULL WHEN (typeof(u."updated_at") IN ('integer', 'real') AND u."updated_at" >= 946684800000) THEN
CAST(min(u."updated_at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) DESC, u."workflow_uuid" COLLATE
"BINARY" DESC) AS position, u."name" COLLATE "BINARY" AS group0, u."application_name" COLLATE "BINARY" AS
group1 FROM "workflow_status" AS u LEFT OUTER JOIN "workflow_status" AS p ON p."workflow_uuid" =
u."parent_workflow_id" WHERE p."workflow_uuid" IS NULL AND (u."status" COLLATE "BINARY") = 'SUCCESS' AND
coalesce(CASE WHEN (u."completed_at" IS NULL) THEN NULL WHEN (typeof(u."completed_at") IN ('integer', 'real')
AND u."completed_at" >= 946684800000) THEN CAST(min(u."completed_at" * 1000, 253402300799000000) AS INTEGER)
ELSE -1 END, CASE WHEN (u."updated_at" IS NULL) THEN NULL WHEN (typeof(u."updated_at") IN ('integer', 'real')
AND u."updated_at" >= 946684800000) THEN CAST(min(u."updated_at" * 1000, 253402300799000000) AS INTEGER) ELSE
-1 END) > 0 AND coalesce(CASE WHEN (u."completed_at" IS NULL) THEN NULL WHEN (typeof(u."completed_at") IN
('integer', 'real') AND u."completed_at" >= 946684800000) THEN CAST(min(u."completed_at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END, CASE WHEN (u."updated_at" IS NULL) THEN NULL WHEN
(typeof(u."updated_at") IN ('integer', 'real') AND u."updated_at" >= 946684800000) THEN
CAST(min(u."updated_at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) <= ?) AS ranked WHERE
ranked.position = ?;

-- newest in slots
SELECT ranked.ended, ranked."key", ranked.group0, ranked.group1 FROM (SELECT coalesce(CASE WHEN
(u."completed_at" IS NULL) THEN NULL WHEN (typeof(u."completed_at") IN ('integer', 'real') AND
u."completed_at" >= 946684800000) THEN CAST(min(u."completed_at" * 1000, 253402300799000000) AS INTEGER) ELSE
-1 END, CASE WHEN (u."updated_at" IS NULL) THEN NULL WHEN (typeof(u."updated_at") IN ('integer', 'real') AND
u."updated_at" >= 946684800000) THEN CAST(min(u."updated_at" * 1000, 253402300799000000) AS INTEGER) ELSE -1
END) AS ended, u."workflow_uuid" AS "key", row_number() OVER (PARTITION BY u."name" COLLATE "BINARY",
u."application_name" COLLATE "BINARY", CAST(coalesce(CASE WHEN (u."completed_at" IS NULL) THEN NULL WHEN
(typeof(u."completed_at") IN ('integer', 'real') AND u."completed_at" >= 946684800000) THEN
CAST(min(u."completed_at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END, CASE WHEN (u."updated_at" IS
NULL) THEN NULL WHEN (typeof(u."updated_at") IN ('integer', 'real') AND u."updated_at" >= 946684800000) THEN
CAST(min(u."updated_at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) / 86400000000 AS INTEGER) ORDER
BY coalesce(CASE WHEN (u."completed_at" IS NULL) THEN NULL WHEN (typeof(u."completed_at") IN ('integer',
'real') AND u."completed_at" >= 946684800000) THEN CAST(min(u."completed_at" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END, CASE WHEN (u."updated_at" IS NULL) THEN NULL WHEN (typeof(u."updated_at") IN ('integer',
'real') AND u."updated_at" >= 946684800000) THEN CAST(min(u."updated_at" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END) DESC, u."workflow_uuid" COLLATE "BINARY" DESC) AS position, u."name" COLLATE "BINARY" AS
group0, u."application_name" COLLATE "BINARY" AS group1 FROM "workflow_status" AS u LEFT OUTER JOIN
"workflow_status" AS p ON p."workflow_uuid" = u."parent_workflow_id" WHERE p."workflow_uuid" IS NULL AND
(u."status" COLLATE "BINARY") IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED') AND
coalesce(CASE WHEN (u."completed_at" IS NULL) THEN NULL WHEN (typeof(u."completed_at") IN ('integer', 'real')
AND u."completed_at" >= 946684800000) THEN CAST(min(u."completed_at" * 1000, 253402300799000000) AS INTEGER)
ELSE -1 END, CASE WHEN (u."updated_at" IS NULL) THEN NULL WHEN (typeof(u."updated_at") IN ('integer', 'real')
AND u."updated_at" >= 946684800000) THEN CAST(min(u."updated_at" * 1000, 253402300799000000) AS INTEGER) ELSE
-1 END) > 0 AND coalesce(CASE WHEN (u."completed_at" IS NULL) THEN NULL WHEN (typeof(u."completed_at") IN
('integer', 'real') AND u."completed_at" >= 946684800000) THEN CAST(min(u."completed_at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END, CASE WHEN (u."updated_at" IS NULL) THEN NULL WHEN
(typeof(u."updated_at") IN ('integer', 'real') AND u."updated_at" >= 946684800000) THEN
CAST(min(u."updated_at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) <= ?) AS ranked WHERE
ranked.position = ?;

-- newest of all
SELECT coalesce(CASE WHEN (u."completed_at" IS NULL) THEN NULL WHEN (typeof(u."completed_at") IN ('integer',
'real') AND u."completed_at" >= 946684800000) THEN CAST(min(u."completed_at" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END, CASE WHEN (u."updated_at" IS NULL) THEN NULL WHEN (typeof(u."updated_at") IN ('integer',
'real') AND u."updated_at" >= 946684800000) THEN CAST(min(u."updated_at" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END) AS ended, u."workflow_uuid" AS "key" FROM "workflow_status" AS u LEFT OUTER JOIN
"workflow_status" AS p ON p."workflow_uuid" = u."parent_workflow_id" WHERE p."workflow_uuid" IS NULL AND
(u."status" COLLATE "BINARY") IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED') AND
coalesce(CASE WHEN (u."completed_at" IS NULL) THEN NULL WHEN (typeof(u."completed_at") IN ('integer', 'real')
AND u."completed_at" >= 946684800000) THEN CAST(min(u."completed_at" * 1000, 253402300799000000) AS INTEGER)
ELSE -1 END, CASE WHEN (u."updated_at" IS NULL) THEN NULL WHEN (typeof(u."updated_at") IN ('integer', 'real')
AND u."updated_at" >= 946684800000) THEN CAST(min(u."updated_at" * 1000, 253402300799000000) AS INTEGER) ELSE
-1 END) > 0 AND coalesce(CASE WHEN (u."completed_at" IS NULL) THEN NULL WHEN (typeof(u."completed_at") IN
('integer', 'real') AND u."completed_at" >= 946684800000) THEN CAST(min(u."completed_at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END, CASE WHEN (u."updated_at" IS NULL) THEN NULL WHEN
(typeof(u."updated_at") IN ('integer', 'real') AND u."updated_at" >= 946684800000) THEN
CAST(min(u."updated_at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) <= ? ORDER BY coalesce(CASE WHEN
(u."completed_at" IS NULL) THEN NULL WHEN (typeof(u."completed_at") IN ('integer', 'real') AND
u."completed_at" >= 946684800000) THEN CAST(min(u."completed_at" * 1000, 253402300799000000) AS INTEGER) ELSE
-1 END, CASE WHEN (u."updated_at" IS NULL) THEN NULL WHEN (typeof(u."updated_at") IN ('integer', 'real') AND
u."updated_at" >= 946684800000) THEN CAST(min(u."updated_at" * 1000, 253402300799000000) AS INTEGER) ELSE -1
END) DESC, u."workflow_uuid" COLLATE "BINARY" DESC LIMIT ? OFFSET ? - 1;

-- groups
SELECT count(*) AS count_1 FROM (SELECT DISTINCT u."name" COLLATE "BINARY" AS anon_2, u."application_name"
COLLATE "BINARY" AS anon_3 FROM "workflow_status" AS u LEFT OUTER JOIN "workflow_status" AS p ON
p."workflow_uuid" = u."parent_workflow_id" WHERE p."workflow_uuid" IS NULL) AS anon_1;

-- roots
SELECT count(*) AS count_1 FROM "workflow_status" AS u LEFT OUTER JOIN "workflow_status" AS p ON
p."workflow_uuid" = u."parent_workflow_id" WHERE p."workflow_uuid" IS NULL;

-- outside 0
SELECT u."status" COLLATE "BINARY" AS status, CASE WHEN (coalesce(CASE WHEN (u."completed_at" IS NULL) THEN
NULL WHEN (typeof(u."completed_at") IN ('integer', 'real') AND u."completed_at" >= 946684800000) THEN
CAST(min(u."completed_at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END, CASE WHEN (u."updated_at" IS
NULL) THEN NULL WHEN (typeof(u."updated_at") IN ('integer', 'real') AND u."updated_at" >= 946684800000) THEN
CAST(min(u."updated_at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) IS NULL) THEN 'unknown-end-time'
WHEN (coalesce(CASE WHEN (u."completed_at" IS NULL) THEN NULL WHEN (typeof(u."completed_at") IN ('integer',
'real') AND u."completed_at" >= 946684800000) THEN CAST(min(u."completed_at" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END, CASE WHEN (u."updated_at" IS NULL) THEN NULL WHEN (typeof(u."updated_at") IN ('integer',
'real') AND u."updated_at" >= 946684800000) THEN CAST(min(u."updated_at" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END) = -1) THEN 'unreadable-end-time' WHEN (coalesce(CASE WHEN (u."completed_at" IS NULL)
THEN NULL WHEN (typeof(u."completed_at") IN ('integer', 'real') AND u."completed_at" >= 946684800000) THEN
CAST(min(u."completed_at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END, CASE WHEN (u."updated_at" IS
NULL) THEN NULL WHEN (typeof(u."updated_at") IN ('integer', 'real') AND u."updated_at" >= 946684800000) THEN
CAST(min(u."updated_at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END) > ?) THEN 'future-end-time' ELSE
'known' END AS known, count(*) AS count_1 FROM "workflow_status" AS u LEFT OUTER JOIN "workflow_status" AS p
ON p."workflow_uuid" = u."parent_workflow_id" WHERE p."workflow_uuid" IS NULL AND CASE WHEN ((u."status"
COLLATE "BINARY") IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED') AND (u."completed_at"
IS NOT NULL AND u."completed_at" < ? OR u."updated_at" IS NOT NULL AND u."updated_at" < ? AND u."completed_at"
IS NULL)) THEN 0 ELSE 1 END = 1 GROUP BY 1, 2;

-- outside 1
WITH RECURSIVE reached("key", beyond) AS (SELECT u."workflow_uuid" AS "key", CASE WHEN ((u."status" COLLATE
"BINARY") IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED') AND (u."completed_at" IS NOT
NULL AND u."completed_at" < ? OR u."updated_at" IS NOT NULL AND u."updated_at" < ? AND u."completed_at" IS
NULL)) THEN 0 ELSE 1 END = 1 AS beyond FROM "workflow_status" AS u LEFT OUTER JOIN "workflow_status" AS p ON
p."workflow_uuid" = u."parent_workflow_id" WHERE p."workflow_uuid" IS NULL UNION ALL SELECT u."workflow_uuid"
AS "workflow_uuid", reached.beyond AS beyond FROM reached JOIN "workflow_status" AS u INDEXED BY
"idx_workflow_status_parent_workflow_id" ON u."parent_workflow_id" = reached."key") SELECT coalesce(sum(CASE
WHEN reached.beyond THEN ? ELSE ? END), ?) AS coalesce_1, count(*) AS count_1, (SELECT count(*) AS count_2
FROM "workflow_status" AS u) AS anon_1 FROM reached;

-- has rows 0
SELECT 1 FROM "workflow_status" AS u WHERE u."status" IN ('SUCCESS', 'ERROR', 'CANCELLED',
'MAX_RECOVERY_ATTEMPTS_EXCEEDED') LIMIT ? OFFSET ?;

-- has rows 1
SELECT 1 FROM "workflow_status" AS u WHERE u."completed_at" IS NULL AND u."status" IN ('SUCCESS', 'ERROR',
'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED') LIMIT ? OFFSET ?;

-- orphans 0
SELECT count(*) AS count_1 FROM "operation_outputs" AS t LEFT OUTER JOIN "workflow_status" AS h ON
h."workflow_uuid" = t."workflow_uuid" WHERE h."workflow_uuid" IS NULL AND t."workflow_uuid" IS NOT NULL;

-- orphans 1
SELECT count(*) AS count_1 FROM "workflow_events" AS t LEFT OUTER JOIN "workflow_status" AS h ON
h."workflow_uuid" = t."workflow_uuid" WHERE h."workflow_uuid" IS NULL AND t."workflow_uuid" IS NOT NULL;

-- orphans 2
SELECT count(*) AS count_1 FROM "workflow_events_history" AS t LEFT OUTER JOIN "workflow_status" AS h ON
h."workflow_uuid" = t."workflow_uuid" WHERE h."workflow_uuid" IS NULL AND t."workflow_uuid" IS NOT NULL;

-- orphans 3
SELECT count(*) AS count_1 FROM "streams" AS t LEFT OUTER JOIN "workflow_status" AS h ON h."workflow_uuid" =
t."workflow_uuid" WHERE h."workflow_uuid" IS NULL AND t."workflow_uuid" IS NOT NULL;

-- orphans 4
SELECT count(*) AS count_1 FROM "notifications" AS t LEFT OUTER JOIN "workflow_status" AS h ON
h."workflow_uuid" = t."destination_uuid" WHERE h."workflow_uuid" IS NULL AND t."destination_uuid" IS NOT NULL;

-- lost references 0
SELECT count(*) AS count_1 FROM (SELECT w."workflow_uuid" AS "workflow_uuid" FROM "workflow_status" AS w WHERE
w."status" IN ('ENQUEUED', 'PENDING') UNION ALL SELECT w."workflow_uuid" AS "workflow_uuid" FROM
"workflow_status" AS w WHERE w."status" = 'DELAYED') AS live JOIN "operation_outputs" AS r ON
r."workflow_uuid" = live."workflow_uuid" LEFT OUTER JOIN "workflow_status" AS h ON h."workflow_uuid" =
r."child_workflow_id" WHERE h."workflow_uuid" IS NULL AND r."child_workflow_id" IS NOT NULL;

-- lost references 1
SELECT count(*) AS count_1 FROM (SELECT w."workflow_uuid" AS "workflow_uuid" FROM "workflow_status" AS w WHERE
w."status" IN ('ENQUEUED', 'PENDING') UNION ALL SELECT w."workflow_uuid" AS "workflow_uuid" FROM
"workflow_status" AS w WHERE w."status" = 'DELAYED') AS live JOIN "workflow_status" AS r ON r."workflow_uuid"
= live."workflow_uuid" LEFT OUTER JOIN "workflow_status" AS h ON h."workflow_uuid" = r."forked_from" WHERE
h."workflow_uuid" IS NULL AND r."forked_from" IS NOT NULL;
