-- Written by: AFTERRUN_WRITE_GOLDEN=1 pytest tests/row_policies/test_row_sql.py

-- logs: first page
SELECT e."id" AS key0, CASE WHEN (e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND
e."at" >= 946684800000) THEN CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END AS instant,
CASE WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >=
946684800000) THEN CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END > 0 AND CASE WHEN
(e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN
CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END < ?) THEN 0 WHEN (CASE WHEN (e."at" IS
NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" *
1000, 253402300799000000) AS INTEGER) ELSE -1 END IS NULL) THEN 1 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL
WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END = -1) THEN 2 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN
(typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END > ?) THEN 3 ELSE 4 END AS verdict, e."at" AS place0, e.rowid AS
place1 FROM "logs" AS e INDEXED BY "logs_at" WHERE e."at" IS NOT NULL AND e."at" < ? ORDER BY e."at", e.rowid
LIMIT ? OFFSET ?;

-- logs: next page 0
SELECT e."id" AS key0, CASE WHEN (e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND
e."at" >= 946684800000) THEN CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END AS instant,
CASE WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >=
946684800000) THEN CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END > 0 AND CASE WHEN
(e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN
CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END < ?) THEN 0 WHEN (CASE WHEN (e."at" IS
NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" *
1000, 253402300799000000) AS INTEGER) ELSE -1 END IS NULL) THEN 1 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL
WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END = -1) THEN 2 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN
(typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END > ?) THEN 3 ELSE 4 END AS verdict, e."at" AS place0, e.rowid AS
place1 FROM "logs" AS e INDEXED BY "logs_at" WHERE e."at" IS NOT NULL AND e."at" < ? AND e."at" = ? AND
e.rowid > ? ORDER BY e.rowid LIMIT ? OFFSET ?;

-- logs: next page 1
SELECT e."id" AS key0, CASE WHEN (e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND
e."at" >= 946684800000) THEN CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END AS instant,
CASE WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >=
946684800000) THEN CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END > 0 AND CASE WHEN
(e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN
CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END < ?) THEN 0 WHEN (CASE WHEN (e."at" IS
NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" *
1000, 253402300799000000) AS INTEGER) ELSE -1 END IS NULL) THEN 1 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL
WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END = -1) THEN 2 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN
(typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END > ?) THEN 3 ELSE 4 END AS verdict, e."at" AS place0, e.rowid AS
place1 FROM "logs" AS e INDEXED BY "logs_at" WHERE e."at" IS NOT NULL AND e."at" < ? AND e."at" > ? ORDER BY
e."at", e.rowid LIMIT ? OFFSET ?;

-- logs: beyond pages
SELECT CASE WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at"
>= 946684800000) THEN CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END > 0 AND CASE WHEN
(e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN
CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END < ?) THEN 0 WHEN (CASE WHEN (e."at" IS
NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" *
1000, 253402300799000000) AS INTEGER) ELSE -1 END IS NULL) THEN 1 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL
WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END = -1) THEN 2 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN
(typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END > ?) THEN 3 ELSE 4 END AS verdict, count(*) AS count_1 FROM "logs"
AS e WHERE CASE WHEN (e."at" IS NOT NULL AND e."at" < ?) THEN 0 ELSE 1 END = 1 GROUP BY 1;

-- logs: all, where no page is read
SELECT CASE WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at"
>= 946684800000) THEN CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END > 0 AND CASE WHEN
(e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN
CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END < ?) THEN 0 WHEN (CASE WHEN (e."at" IS
NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" *
1000, 253402300799000000) AS INTEGER) ELSE -1 END IS NULL) THEN 1 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL
WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END = -1) THEN 2 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN
(typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END > ?) THEN 3 ELSE 4 END AS verdict, count(*) AS count_1 FROM "logs"
AS e GROUP BY 1;

-- logs: newest kept
SELECT ranked.key0, ranked.instant FROM (SELECT row_number() OVER (ORDER BY CASE WHEN (e."at" IS NULL) THEN
NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END DESC, e."id" COLLATE "BINARY" DESC) AS position, e."id" AS key0,
CASE WHEN (e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000)
THEN CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END AS instant FROM "logs" AS e WHERE
CASE WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >=
946684800000) THEN CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END > 0 AND CASE WHEN
(e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN
CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END <= ?) THEN 0 ELSE 1 END = 0) AS ranked
WHERE ranked.position = ?;

-- logs: candidates
SELECT count(*) AS count_1 FROM (SELECT 1 FROM "logs" AS e INDEXED BY "logs_at" WHERE e."at" IS NOT NULL AND
e."at" < ? LIMIT ? OFFSET ?) AS some;

-- logs: backlog
SELECT count(*) AS count_1 FROM "logs" AS e INDEXED BY "logs_at" WHERE e."at" IS NOT NULL AND e."at" < ?;

-- logs: backlog after a place
SELECT count(*) AS count_1 FROM "logs" AS e INDEXED BY "logs_at" WHERE e."at" IS NOT NULL AND e."at" < ? AND
e."at" >= ?;

-- logs: check
SELECT e."id" AS key0, CASE WHEN (e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND
e."at" >= 946684800000) THEN CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END AS instant
FROM "logs" AS e WHERE e."id" IN (SELECT anon_1.value FROM json_each(?) AS anon_1) AND CASE WHEN (CASE WHEN
(e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN
CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END > 0 AND CASE WHEN (e."at" IS NULL) THEN
NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END < ?) THEN 0 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN
(typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END IS NULL) THEN 1 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN
(typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END = -1) THEN 2 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN
(typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END > ?) THEN 3 ELSE 4 END = 0;

-- logs: measure 0
SELECT coalesce(sum(coalesce(length(CAST("logs"."id" AS BLOB)), ?) + coalesce(length(CAST("logs"."run" AS
BLOB)), ?) + coalesce(length(CAST("logs"."at" AS BLOB)), ?) + coalesce(length(CAST("logs"."body" AS BLOB)),
?)), ?) AS coalesce_1, count(*) AS count_1 FROM "logs" WHERE "logs"."id" IN (SELECT anon_1.value FROM
json_each(?) AS anon_1);

-- logs: delete logs
DELETE FROM "logs" WHERE "logs"."id" IN (SELECT anon_1.value FROM json_each(?) AS anon_1) AND CASE WHEN (CASE
WHEN ("logs"."at" IS NULL) THEN NULL WHEN (typeof("logs"."at") IN ('integer', 'real') AND "logs"."at" >=
946684800000) THEN CAST(min("logs"."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END > 0 AND CASE WHEN
("logs"."at" IS NULL) THEN NULL WHEN (typeof("logs"."at") IN ('integer', 'real') AND "logs"."at" >=
946684800000) THEN CAST(min("logs"."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END < ?) THEN 0 WHEN
(CASE WHEN ("logs"."at" IS NULL) THEN NULL WHEN (typeof("logs"."at") IN ('integer', 'real') AND "logs"."at" >=
946684800000) THEN CAST(min("logs"."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END IS NULL) THEN 1
WHEN (CASE WHEN ("logs"."at" IS NULL) THEN NULL WHEN (typeof("logs"."at") IN ('integer', 'real') AND
"logs"."at" >= 946684800000) THEN CAST(min("logs"."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END =
-1) THEN 2 WHEN (CASE WHEN ("logs"."at" IS NULL) THEN NULL WHEN (typeof("logs"."at") IN ('integer', 'real')
AND "logs"."at" >= 946684800000) THEN CAST(min("logs"."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END
> ?) THEN 3 ELSE 4 END = 0;

-- events: first page
SELECT e."id" AS key0, CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN (typeof(e."occurred") = 'text' AND
(e."occurred" GLOB '[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred", ?, ?) AND
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END AS
instant, CASE WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN (typeof(e."occurred") = 'text' AND
(e."occurred" GLOB '[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred", ?, ?) AND
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END > 0 AND
CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN (typeof(e."occurred") = 'text' AND (e."occurred" GLOB
'[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred", ?, ?) AND
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END < ?) THEN
0 WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN (typeof(e."occurred") = 'text' AND (e."occurred" GLOB
'[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred", ?, ?) AND
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END IS NULL)
THEN 1 WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN (typeof(e."occurred") = 'text' AND (e."occurred"
GLOB '[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred", ?, ?) AND
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END = -1) THEN
2 WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN (typeof(e."occurred") = 'text' AND (e."occurred" GLOB
'[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred", ?, ?) AND
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END > ?) THEN
3 ELSE 4 END AS verdict, e."occurred" AS place0, e.rowid AS place1 FROM "events" AS e INDEXED BY
"events_occurred" WHERE e."occurred" IS NOT NULL AND e."occurred" < ? ORDER BY e."occurred", e.rowid LIMIT ?
OFFSET ?;

-- events: next page 0
SELECT e."id" AS key0, CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN (typeof(e."occurred") = 'text' AND
(e."occurred" GLOB '[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred", ?, ?) AND
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END AS
instant, CASE WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN (typeof(e."occurred") = 'text' AND
(e."occurred" GLOB '[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred", ?, ?) AND
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END > 0 AND
CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN (typeof(e."occurred") = 'text' AND (e."occurred" GLOB
'[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred", ?, ?) AND
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END < ?) THEN
0 WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN (typeof(e."occurred") = 'text' AND (e."occurred" GLOB
'[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred", ?, ?) AND
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END IS NULL)
THEN 1 WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN (typeof(e."occurred") = 'text' AND (e."occurred"
GLOB '[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred", ?, ?) AND
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END = -1) THEN
2 WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN (typeof(e."occurred") = 'text' AND (e."occurred" GLOB
'[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred", ?, ?) AND
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END > ?) THEN
3 ELSE 4 END AS verdict, e."occurred" AS place0, e.rowid AS place1 FROM "events" AS e INDEXED BY
"events_occurred" WHERE e."occurred" IS NOT NULL AND e."occurred" < ? AND e."occurred" = ? AND e.rowid > ?
ORDER BY e.rowid LIMIT ? OFFSET ?;

-- events: next page 1
SELECT e."id" AS key0, CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN (typeof(e."occurred") = 'text' AND
(e."occurred" GLOB '[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred", ?, ?) AND
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END AS
instant, CASE WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN (typeof(e."occurred") = 'text' AND
(e."occurred" GLOB '[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred", ?, ?) AND
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END > 0 AND
CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN (typeof(e."occurred") = 'text' AND (e."occurred" GLOB
'[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred", ?, ?) AND
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END < ?) THEN
0 WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN (typeof(e."occurred") = 'text' AND (e."occurred" GLOB
'[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred", ?, ?) AND
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END IS NULL)
THEN 1 WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN (typeof(e."occurred") = 'text' AND (e."occurred"
GLOB '[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred", ?, ?) AND
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END = -1) THEN
2 WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN (typeof(e."occurred") = 'text' AND (e."occurred" GLOB
'[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred", ?, ?) AND
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END > ?) THEN
3 ELSE 4 END AS verdict, e."occurred" AS place0, e.rowid AS place1 FROM "events" AS e INDEXED BY
"events_occurred" WHERE e."occurred" IS NOT NULL AND e."occurred" < ? AND e."occurred" > ? ORDER BY
e."occurred", e.rowid LIMIT ? OFFSET ?;

-- events: beyond pages
SELECT CASE WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN (typeof(e."occurred") = 'text' AND
(e."occurred" GLOB '[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred", ?, ?) AND
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END > 0 AND
CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN (typeof(e."occurred") = 'text' AND (e."occurred" GLOB
'[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred", ?, ?) AND
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END < ?) THEN
0 WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN (typeof(e."occurred") = 'text' AND (e."occurred" GLOB
'[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred", ?, ?) AND
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END IS NULL)
THEN 1 WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN (typeof(e."occurred") = 'text' AND (e."occurred"
GLOB '[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred", ?, ?) AND
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END = -1) THEN
2 WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN (typeof(e."occurred") = 'text' AND (e."occurred" GLOB
'[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred", ?, ?) AND
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END > ?) THEN
3 ELSE 4 END AS verdict, count(*) AS count_1 FROM "events" AS e WHERE CASE WHEN (e."occurred" IS NOT NULL AND
e."occurred" < ?) THEN 0 ELSE 1 END = 1 GROUP BY 1;

-- events: all, where no page is read
SELECT CASE WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN (typeof(e."occurred") = 'text' AND
(e."occurred" GLOB '[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred", ?, ?) AND
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END > 0 AND
CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN (typeof(e."occurred") = 'text' AND (e."occurred" GLOB
'[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred", ?, ?) AND
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END < ?) THEN
0 WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN (typeof(e."occurred") = 'text' AND (e."occurred" GLOB
'[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred", ?, ?) AND
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END IS NULL)
THEN 1 WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN (typeof(e."occurred") = 'text' AND (e."occurred"
GLOB '[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred", ?, ?) AND
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END = -1) THEN
2 WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN (typeof(e."occurred") = 'text' AND (e."occurred" GLOB
'[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred", ?, ?) AND
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END > ?) THEN
3 ELSE 4 END AS verdict, count(*) AS count_1 FROM "events" AS e GROUP BY 1;

-- events: newest kept
SELECT ranked.key0, ranked.instant FROM (SELECT row_number() OVER (ORDER BY CASE WHEN (e."occurred" IS NULL)
THEN NULL WHEN (typeof(e."occurred") = 'text' AND (e."occurred" GLOB
'[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred", ?, ?) AND
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END DESC,
e."id" COLLATE "BINARY" DESC) AS position, e."id" AS key0, CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN
(typeof(e."occurred") = 'text' AND (e."occurred" GLOB '[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][
T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred",
?, ?) AND CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END AS instant
FROM "events" AS e WHERE CASE WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN (typeof(e."occurred") =
'text' AND (e."occurred" GLOB '[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][
T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred",
?, ?) AND CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END > 0 AND
CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN (typeof(e."occurred") = 'text' AND (e."occurred" GLOB
'[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred", ?, ?) AND
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END <= ?) THEN
0 ELSE 1 END = 0) AS ranked WHERE ranked.position = ?;

-- events: candidates
SELECT count(*) AS count_1 FROM (SELECT 1 FROM "events" AS e INDEXED BY "events_occurred" WHERE e."occurred"
IS NOT NULL AND e."occurred" < ? LIMIT ? OFFSET ?) AS some;

-- events: backlog
SELECT count(*) AS count_1 FROM "events" AS e INDEXED BY "events_occurred" WHERE e."occurred" IS NOT NULL AND
e."occurred" < ?;

-- events: backlog after a place
SELECT count(*) AS count_1 FROM "events" AS e INDEXED BY "events_occurred" WHERE e."occurred" IS NOT NULL AND
e."occurred" < ? AND e."occurred" >= ?;

-- events: check
SELECT e."id" AS key0, CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN (typeof(e."occurred") = 'text' AND
(e."occurred" GLOB '[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred", ?, ?) AND
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END AS instant
FROM "events" AS e WHERE e."id" IN (SELECT anon_1.value FROM json_each(?) AS anon_1) AND CASE WHEN (CASE WHEN
(e."occurred" IS NULL) THEN NULL WHEN (typeof(e."occurred") = 'text' AND (e."occurred" GLOB
'[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred", ?, ?) AND
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END > 0 AND
CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN (typeof(e."occurred") = 'text' AND (e."occurred" GLOB
'[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred", ?, ?) AND
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END < ?) THEN
0 WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN (typeof(e."occurred") = 'text' AND (e."occurred" GLOB
'[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred", ?, ?) AND
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END IS NULL)
THEN 1 WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN (typeof(e."occurred") = 'text' AND (e."occurred"
GLOB '[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred", ?, ?) AND
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END = -1) THEN
2 WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN (typeof(e."occurred") = 'text' AND (e."occurred" GLOB
'[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr(e."occurred", ?, ?), '+0 days') = substr(e."occurred", ?, ?) AND
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday(e."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END > ?) THEN
3 ELSE 4 END = 0;

-- events: count event_parts
SELECT count(*) AS count_1 FROM "event_parts" WHERE "event_parts"."event" IN (SELECT anon_1.value FROM
json_each(?) AS anon_1);

-- events: measure 0
SELECT coalesce(sum(coalesce(length(CAST("events"."id" AS BLOB)), ?) +
coalesce(length(CAST("events"."occurred" AS BLOB)), ?) + coalesce(length(CAST("events"."kind" AS BLOB)), ?)),
?) AS coalesce_1, count(*) AS count_1 FROM "events" WHERE "events"."id" IN (SELECT anon_1.value FROM
json_each(?) AS anon_1);

-- events: measure 1
SELECT coalesce(sum(coalesce(length(CAST("event_parts"."event" AS BLOB)), ?) +
coalesce(length(CAST("event_parts"."number" AS BLOB)), ?)), ?) AS coalesce_1, count(*) AS count_1 FROM
"event_parts" WHERE "event_parts"."event" IN (SELECT anon_1.value FROM json_each(?) AS anon_1);

-- events: delete event_parts
DELETE FROM "event_parts" WHERE "event_parts"."event" IN (SELECT anon_1.value FROM json_each(?) AS anon_1);

-- events: delete events
DELETE FROM "events" WHERE "events"."id" IN (SELECT anon_1.value FROM json_each(?) AS anon_1) AND CASE WHEN
(CASE WHEN ("events"."occurred" IS NULL) THEN NULL WHEN (typeof("events"."occurred") = 'text' AND
("events"."occurred" GLOB '[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*')
AND date(substr("events"."occurred", ?, ?), '+0 days') = substr("events"."occurred", ?, ?) AND
CAST(round((julianday("events"."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday("events"."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END > 0
AND CASE WHEN ("events"."occurred" IS NULL) THEN NULL WHEN (typeof("events"."occurred") = 'text' AND
("events"."occurred" GLOB '[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*')
AND date(substr("events"."occurred", ?, ?), '+0 days') = substr("events"."occurred", ?, ?) AND
CAST(round((julianday("events"."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday("events"."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END <
?) THEN 0 WHEN (CASE WHEN ("events"."occurred" IS NULL) THEN NULL WHEN (typeof("events"."occurred") = 'text'
AND ("events"."occurred" GLOB '[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][
T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND date(substr("events"."occurred", ?, ?), '+0 days') =
substr("events"."occurred", ?, ?) AND CAST(round((julianday("events"."occurred") - 2440587.5) * 86400000.0) AS
INTEGER) >= 946684800000) THEN CAST(round((julianday("events"."occurred") - 2440587.5) * 86400000.0) AS
INTEGER) * 1000 + 999 ELSE -1 END IS NULL) THEN 1 WHEN (CASE WHEN ("events"."occurred" IS NULL) THEN NULL WHEN
(typeof("events"."occurred") = 'text' AND ("events"."occurred" GLOB
'[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND
date(substr("events"."occurred", ?, ?), '+0 days') = substr("events"."occurred", ?, ?) AND
CAST(round((julianday("events"."occurred") - 2440587.5) * 86400000.0) AS INTEGER) >= 946684800000) THEN
CAST(round((julianday("events"."occurred") - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999 ELSE -1 END =
-1) THEN 2 WHEN (CASE WHEN ("events"."occurred" IS NULL) THEN NULL WHEN (typeof("events"."occurred") = 'text'
AND ("events"."occurred" GLOB '[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][
T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*') AND date(substr("events"."occurred", ?, ?), '+0 days') =
substr("events"."occurred", ?, ?) AND CAST(round((julianday("events"."occurred") - 2440587.5) * 86400000.0) AS
INTEGER) >= 946684800000) THEN CAST(round((julianday("events"."occurred") - 2440587.5) * 86400000.0) AS
INTEGER) * 1000 + 999 ELSE -1 END > ?) THEN 3 ELSE 4 END = 0;

-- tasks: first page
SELECT e."id" AS key0, CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (typeof(e."ended") IN ('integer', 'real')
AND e."ended" >= 946684800000) THEN CAST(min(e."ended" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END AS
instant, CASE WHEN (e."run" IS NULL AND e."request" IS NULL) THEN CASE WHEN ((e."status" COLLATE "BINARY") IN
('ok', 'failed')) THEN CASE WHEN ((e."status" COLLATE "BINARY") = 'ok') THEN CASE WHEN (CASE WHEN (e."ended"
IS NULL) THEN NULL WHEN (typeof(e."ended") IN ('integer', 'real') AND e."ended" >= 946684800000) THEN
CAST(min(e."ended" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END > 0 AND CASE WHEN (e."ended" IS NULL)
THEN NULL WHEN (typeof(e."ended") IN ('integer', 'real') AND e."ended" >= 946684800000) THEN
CAST(min(e."ended" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END < ?) THEN CASE WHEN (EXISTS (SELECT *
FROM "waits" AS r WHERE r."task" = e."id" AND (CASE WHEN (r."until" IS NULL) THEN NULL WHEN (typeof(r."until")
IN ('integer', 'real') AND r."until" >= 946684800000) THEN CAST(min(r."until" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END > ? OR CASE WHEN (r."until" IS NULL) THEN NULL WHEN (typeof(r."until") IN ('integer',
'real') AND r."until" >= 946684800000) THEN CAST(min(r."until" * 1000, 253402300799000000) AS INTEGER) ELSE -1
END = -1))) THEN 1 ELSE 0 END WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (typeof(e."ended") IN
('integer', 'real') AND e."ended" >= 946684800000) THEN CAST(min(e."ended" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END IS NULL) THEN 2 WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (typeof(e."ended") IN
('integer', 'real') AND e."ended" >= 946684800000) THEN CAST(min(e."ended" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END = -1) THEN 3 WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (typeof(e."ended") IN
('integer', 'real') AND e."ended" >= 946684800000) THEN CAST(min(e."ended" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END > ?) THEN 4 ELSE 5 END ELSE 6 END ELSE 7 END ELSE 8 END AS verdict, e."ended" AS place0,
e.rowid AS place1 FROM "tasks" AS e INDEXED BY "tasks_ended" WHERE e."ended" IS NOT NULL AND e."ended" < ?
ORDER BY e."ended", e.rowid LIMIT ? OFFSET ?;

-- tasks: next page 0
SELECT e."id" AS key0, CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (typeof(e."ended") IN ('integer', 'real')
AND e."ended" >= 946684800000) THEN CAST(min(e."ended" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END AS
instant, CASE WHEN (e."run" IS NULL AND e."request" IS NULL) THEN CASE WHEN ((e."status" COLLATE "BINARY") IN
('ok', 'failed')) THEN CASE WHEN ((e."status" COLLATE "BINARY") = 'ok') THEN CASE WHEN (CASE WHEN (e."ended"
IS NULL) THEN NULL WHEN (typeof(e."ended") IN ('integer', 'real') AND e."ended" >= 946684800000) THEN
CAST(min(e."ended" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END > 0 AND CASE WHEN (e."ended" IS NULL)
THEN NULL WHEN (typeof(e."ended") IN ('integer', 'real') AND e."ended" >= 946684800000) THEN
CAST(min(e."ended" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END < ?) THEN CASE WHEN (EXISTS (SELECT *
FROM "waits" AS r WHERE r."task" = e."id" AND (CASE WHEN (r."until" IS NULL) THEN NULL WHEN (typeof(r."until")
IN ('integer', 'real') AND r."until" >= 946684800000) THEN CAST(min(r."until" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END > ? OR CASE WHEN (r."until" IS NULL) THEN NULL WHEN (typeof(r."until") IN ('integer',
'real') AND r."until" >= 946684800000) THEN CAST(min(r."until" * 1000, 253402300799000000) AS INTEGER) ELSE -1
END = -1))) THEN 1 ELSE 0 END WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (typeof(e."ended") IN
('integer', 'real') AND e."ended" >= 946684800000) THEN CAST(min(e."ended" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END IS NULL) THEN 2 WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (typeof(e."ended") IN
('integer', 'real') AND e."ended" >= 946684800000) THEN CAST(min(e."ended" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END = -1) THEN 3 WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (typeof(e."ended") IN
('integer', 'real') AND e."ended" >= 946684800000) THEN CAST(min(e."ended" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END > ?) THEN 4 ELSE 5 END ELSE 6 END ELSE 7 END ELSE 8 END AS verdict, e."ended" AS place0,
e.rowid AS place1 FROM "tasks" AS e INDEXED BY "tasks_ended" WHERE e."ended" IS NOT NULL AND e."ended" < ? AND
e."ended" = ? AND e.rowid > ? ORDER BY e.rowid LIMIT ? OFFSET ?;

-- tasks: next page 1
SELECT e."id" AS key0, CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (typeof(e."ended") IN ('integer', 'real')
AND e."ended" >= 946684800000) THEN CAST(min(e."ended" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END AS
instant, CASE WHEN (e."run" IS NULL AND e."request" IS NULL) THEN CASE WHEN ((e."status" COLLATE "BINARY") IN
('ok', 'failed')) THEN CASE WHEN ((e."status" COLLATE "BINARY") = 'ok') THEN CASE WHEN (CASE WHEN (e."ended"
IS NULL) THEN NULL WHEN (typeof(e."ended") IN ('integer', 'real') AND e."ended" >= 946684800000) THEN
CAST(min(e."ended" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END > 0 AND CASE WHEN (e."ended" IS NULL)
THEN NULL WHEN (typeof(e."ended") IN ('integer', 'real') AND e."ended" >= 946684800000) THEN
CAST(min(e."ended" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END < ?) THEN CASE WHEN (EXISTS (SELECT *
FROM "waits" AS r WHERE r."task" = e."id" AND (CASE WHEN (r."until" IS NULL) THEN NULL WHEN (typeof(r."until")
IN ('integer', 'real') AND r."until" >= 946684800000) THEN CAST(min(r."until" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END > ? OR CASE WHEN (r."until" IS NULL) THEN NULL WHEN (typeof(r."until") IN ('integer',
'real') AND r."until" >= 946684800000) THEN CAST(min(r."until" * 1000, 253402300799000000) AS INTEGER) ELSE -1
END = -1))) THEN 1 ELSE 0 END WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (typeof(e."ended") IN
('integer', 'real') AND e."ended" >= 946684800000) THEN CAST(min(e."ended" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END IS NULL) THEN 2 WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (typeof(e."ended") IN
('integer', 'real') AND e."ended" >= 946684800000) THEN CAST(min(e."ended" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END = -1) THEN 3 WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (typeof(e."ended") IN
('integer', 'real') AND e."ended" >= 946684800000) THEN CAST(min(e."ended" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END > ?) THEN 4 ELSE 5 END ELSE 6 END ELSE 7 END ELSE 8 END AS verdict, e."ended" AS place0,
e.rowid AS place1 FROM "tasks" AS e INDEXED BY "tasks_ended" WHERE e."ended" IS NOT NULL AND e."ended" < ? AND
e."ended" > ? ORDER BY e."ended", e.rowid LIMIT ? OFFSET ?;

-- tasks: beyond pages
SELECT CASE WHEN (e."run" IS NULL AND e."request" IS NULL) THEN CASE WHEN ((e."status" COLLATE "BINARY") IN
('ok', 'failed')) THEN CASE WHEN ((e."status" COLLATE "BINARY") = 'ok') THEN CASE WHEN (CASE WHEN (e."ended"
IS NULL) THEN NULL WHEN (typeof(e."ended") IN ('integer', 'real') AND e."ended" >= 946684800000) THEN
CAST(min(e."ended" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END > 0 AND CASE WHEN (e."ended" IS NULL)
THEN NULL WHEN (typeof(e."ended") IN ('integer', 'real') AND e."ended" >= 946684800000) THEN
CAST(min(e."ended" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END < ?) THEN CASE WHEN (EXISTS (SELECT *
FROM "waits" AS r WHERE r."task" = e."id" AND (CASE WHEN (r."until" IS NULL) THEN NULL WHEN (typeof(r."until")
IN ('integer', 'real') AND r."until" >= 946684800000) THEN CAST(min(r."until" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END > ? OR CASE WHEN (r."until" IS NULL) THEN NULL WHEN (typeof(r."until") IN ('integer',
'real') AND r."until" >= 946684800000) THEN CAST(min(r."until" * 1000, 253402300799000000) AS INTEGER) ELSE -1
END = -1))) THEN 1 ELSE 0 END WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (typeof(e."ended") IN
('integer', 'real') AND e."ended" >= 946684800000) THEN CAST(min(e."ended" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END IS NULL) THEN 2 WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (typeof(e."ended") IN
('integer', 'real') AND e."ended" >= 946684800000) THEN CAST(min(e."ended" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END = -1) THEN 3 WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (typeof(e."ended") IN
('integer', 'real') AND e."ended" >= 946684800000) THEN CAST(min(e."ended" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END > ?) THEN 4 ELSE 5 END ELSE 6 END ELSE 7 END ELSE 8 END AS verdict, count(*) AS count_1
FROM "tasks" AS e WHERE CASE WHEN (e."ended" IS NOT NULL AND e."ended" < ?) THEN 0 ELSE 1 END = 1 GROUP BY 1;

-- tasks: all, where no page is read
SELECT CASE WHEN (e."run" IS NULL AND e."request" IS NULL) THEN CASE WHEN ((e."status" COLLATE "BINARY") IN
('ok', 'failed')) THEN CASE WHEN ((e."status" COLLATE "BINARY") = 'ok') THEN CASE WHEN (CASE WHEN (e."ended"
IS NULL) THEN NULL WHEN (typeof(e."ended") IN ('integer', 'real') AND e."ended" >= 946684800000) THEN
CAST(min(e."ended" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END > 0 AND CASE WHEN (e."ended" IS NULL)
THEN NULL WHEN (typeof(e."ended") IN ('integer', 'real') AND e."ended" >= 946684800000) THEN
CAST(min(e."ended" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END < ?) THEN CASE WHEN (EXISTS (SELECT *
FROM "waits" AS r WHERE r."task" = e."id" AND (CASE WHEN (r."until" IS NULL) THEN NULL WHEN (typeof(r."until")
IN ('integer', 'real') AND r."until" >= 946684800000) THEN CAST(min(r."until" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END > ? OR CASE WHEN (r."until" IS NULL) THEN NULL WHEN (typeof(r."until") IN ('integer',
'real') AND r."until" >= 946684800000) THEN CAST(min(r."until" * 1000, 253402300799000000) AS INTEGER) ELSE -1
END = -1))) THEN 1 ELSE 0 END WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (typeof(e."ended") IN
('integer', 'real') AND e."ended" >= 946684800000) THEN CAST(min(e."ended" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END IS NULL) THEN 2 WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (typeof(e."ended") IN
('integer', 'real') AND e."ended" >= 946684800000) THEN CAST(min(e."ended" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END = -1) THEN 3 WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (typeof(e."ended") IN
('integer', 'real') AND e."ended" >= 946684800000) THEN CAST(min(e."ended" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END > ?) THEN 4 ELSE 5 END ELSE 6 END ELSE 7 END ELSE 8 END AS verdict, count(*) AS count_1
FROM "tasks" AS e GROUP BY 1;

-- tasks: newest kept
SELECT ranked.key0, ranked.instant FROM (SELECT row_number() OVER (ORDER BY CASE WHEN (e."ended" IS NULL) THEN
NULL WHEN (typeof(e."ended") IN ('integer', 'real') AND e."ended" >= 946684800000) THEN CAST(min(e."ended" *
1000, 253402300799000000) AS INTEGER) ELSE -1 END DESC, e."id" COLLATE "BINARY" DESC) AS position, e."id" AS
key0, CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (typeof(e."ended") IN ('integer', 'real') AND e."ended" >=
946684800000) THEN CAST(min(e."ended" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END AS instant FROM
"tasks" AS e WHERE CASE WHEN (e."run" IS NULL AND e."request" IS NULL) THEN CASE WHEN ((e."status" COLLATE
"BINARY") IN ('ok', 'failed')) THEN CASE WHEN ((e."status" COLLATE "BINARY") = 'ok') THEN CASE WHEN (CASE WHEN
(e."ended" IS NULL) THEN NULL WHEN (typeof(e."ended") IN ('integer', 'real') AND e."ended" >= 946684800000)
THEN CAST(min(e."ended" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END > 0 AND CASE WHEN (e."ended" IS
NULL) THEN NULL WHEN (typeof(e."ended") IN ('integer', 'real') AND e."ended" >= 946684800000) THEN
CAST(min(e."ended" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END <= ?) THEN 0 ELSE 1 END ELSE 6 END ELSE
7 END ELSE 8 END = 0) AS ranked WHERE ranked.position = ?;

-- tasks: candidates
SELECT count(*) AS count_1 FROM (SELECT 1 FROM "tasks" AS e INDEXED BY "tasks_ended" WHERE e."ended" IS NOT
NULL AND e."ended" < ? LIMIT ? OFFSET ?) AS some;

-- tasks: backlog
SELECT count(*) AS count_1 FROM "tasks" AS e INDEXED BY "tasks_ended" WHERE e."ended" IS NOT NULL AND
e."ended" < ?;

-- tasks: backlog after a place
SELECT count(*) AS count_1 FROM "tasks" AS e INDEXED BY "tasks_ended" WHERE e."ended" IS NOT NULL AND
e."ended" < ? AND e."ended" >= ?;

-- tasks: check
SELECT e."id" AS key0, CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (typeof(e."ended") IN ('integer', 'real')
AND e."ended" >= 946684800000) THEN CAST(min(e."ended" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END AS
instant FROM "tasks" AS e WHERE e."id" IN (SELECT anon_1.value FROM json_each(?) AS anon_1) AND CASE WHEN
(e."run" IS NULL AND e."request" IS NULL) THEN CASE WHEN ((e."status" COLLATE "BINARY") IN ('ok', 'failed'))
THEN CASE WHEN ((e."status" COLLATE "BINARY") = 'ok') THEN CASE WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL
WHEN (typeof(e."ended") IN ('integer', 'real') AND e."ended" >= 946684800000) THEN CAST(min(e."ended" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END > 0 AND CASE WHEN (e."ended" IS NULL) THEN NULL WHEN
(typeof(e."ended") IN ('integer', 'real') AND e."ended" >= 946684800000) THEN CAST(min(e."ended" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END < ?) THEN CASE WHEN (EXISTS (SELECT * FROM "waits" AS r WHERE
r."task" = e."id" AND (CASE WHEN (r."until" IS NULL) THEN NULL WHEN (typeof(r."until") IN ('integer', 'real')
AND r."until" >= 946684800000) THEN CAST(min(r."until" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END > ?
OR CASE WHEN (r."until" IS NULL) THEN NULL WHEN (typeof(r."until") IN ('integer', 'real') AND r."until" >=
946684800000) THEN CAST(min(r."until" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END = -1))) THEN 1 ELSE
0 END WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (typeof(e."ended") IN ('integer', 'real') AND
e."ended" >= 946684800000) THEN CAST(min(e."ended" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END IS
NULL) THEN 2 WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (typeof(e."ended") IN ('integer', 'real') AND
e."ended" >= 946684800000) THEN CAST(min(e."ended" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END = -1)
THEN 3 WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (typeof(e."ended") IN ('integer', 'real') AND
e."ended" >= 946684800000) THEN CAST(min(e."ended" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END > ?)
THEN 4 ELSE 5 END ELSE 6 END ELSE 7 END ELSE 8 END = 0;

-- tasks: count task_states
SELECT count(*) AS count_1 FROM "task_states" WHERE "task_states"."task" IN (SELECT anon_1.value FROM
json_each(?) AS anon_1);

-- tasks: measure 0
SELECT coalesce(sum(coalesce(length(CAST("tasks"."id" AS BLOB)), ?) + coalesce(length(CAST("tasks"."status" AS
BLOB)), ?) + coalesce(length(CAST("tasks"."ended" AS BLOB)), ?) + coalesce(length(CAST("tasks"."run" AS
BLOB)), ?) + coalesce(length(CAST("tasks"."request" AS BLOB)), ?)), ?) AS coalesce_1, count(*) AS count_1 FROM
"tasks" WHERE "tasks"."id" IN (SELECT anon_1.value FROM json_each(?) AS anon_1);

-- tasks: measure 1
SELECT coalesce(sum(coalesce(length(CAST("task_states"."id" AS BLOB)), ?) +
coalesce(length(CAST("task_states"."task" AS BLOB)), ?)), ?) AS coalesce_1, count(*) AS count_1 FROM
"task_states" WHERE "task_states"."task" IN (SELECT anon_1.value FROM json_each(?) AS anon_1);

-- tasks: delete task_states
DELETE FROM "task_states" WHERE "task_states"."task" IN (SELECT anon_1.value FROM json_each(?) AS anon_1);

-- tasks: delete tasks
DELETE FROM "tasks" WHERE "tasks"."id" IN (SELECT anon_1.value FROM json_each(?) AS anon_1) AND CASE WHEN
("tasks"."run" IS NULL AND "tasks"."request" IS NULL) THEN CASE WHEN (("tasks"."status" COLLATE "BINARY") IN
('ok', 'failed')) THEN CASE WHEN (("tasks"."status" COLLATE "BINARY") = 'ok') THEN CASE WHEN (CASE WHEN
("tasks"."ended" IS NULL) THEN NULL WHEN (typeof("tasks"."ended") IN ('integer', 'real') AND "tasks"."ended"
>= 946684800000) THEN CAST(min("tasks"."ended" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END > 0 AND
CASE WHEN ("tasks"."ended" IS NULL) THEN NULL WHEN (typeof("tasks"."ended") IN ('integer', 'real') AND
"tasks"."ended" >= 946684800000) THEN CAST(min("tasks"."ended" * 1000, 253402300799000000) AS INTEGER) ELSE -1
END < ?) THEN CASE WHEN (EXISTS (SELECT * FROM "waits" AS r WHERE r."task" = "tasks"."id" AND (CASE WHEN
(r."until" IS NULL) THEN NULL WHEN (typeof(r."until") IN ('integer', 'real') AND r."until" >= 946684800000)
THEN CAST(min(r."until" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END > ? OR CASE WHEN (r."until" IS
NULL) THEN NULL WHEN (typeof(r."until") IN ('integer', 'real') AND r."until" >= 946684800000) THEN
CAST(min(r."until" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END = -1))) THEN 1 ELSE 0 END WHEN (CASE
WHEN ("tasks"."ended" IS NULL) THEN NULL WHEN (typeof("tasks"."ended") IN ('integer', 'real') AND
"tasks"."ended" >= 946684800000) THEN CAST(min("tasks"."ended" * 1000, 253402300799000000) AS INTEGER) ELSE -1
END IS NULL) THEN 2 WHEN (CASE WHEN ("tasks"."ended" IS NULL) THEN NULL WHEN (typeof("tasks"."ended") IN
('integer', 'real') AND "tasks"."ended" >= 946684800000) THEN CAST(min("tasks"."ended" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END = -1) THEN 3 WHEN (CASE WHEN ("tasks"."ended" IS NULL) THEN NULL
WHEN (typeof("tasks"."ended") IN ('integer', 'real') AND "tasks"."ended" >= 946684800000) THEN
CAST(min("tasks"."ended" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END > ?) THEN 4 ELSE 5 END ELSE 6 END
ELSE 7 END ELSE 8 END = 0;

-- results: first page
SELECT e."id" AS key0, CASE WHEN (e."made" IS NULL) THEN NULL WHEN (typeof(e."made") IN ('integer', 'real')
AND e."made" >= 946684800000) THEN CAST(min(e."made" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END AS
instant, e."name" COLLATE "BINARY" AS part0, CASE WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN
(typeof(e."made") IN ('integer', 'real') AND e."made" >= 946684800000) THEN CAST(min(e."made" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END > 0 AND CASE WHEN (e."made" IS NULL) THEN NULL WHEN
(typeof(e."made") IN ('integer', 'real') AND e."made" >= 946684800000) THEN CAST(min(e."made" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END < ?) THEN CASE WHEN (EXISTS (SELECT * FROM "heads" AS r WHERE
r."result" = e."id")) THEN 1 ELSE 0 END WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN (typeof(e."made") IN
('integer', 'real') AND e."made" >= 946684800000) THEN CAST(min(e."made" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END IS NULL) THEN 2 WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN (typeof(e."made") IN
('integer', 'real') AND e."made" >= 946684800000) THEN CAST(min(e."made" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END = -1) THEN 3 WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN (typeof(e."made") IN
('integer', 'real') AND e."made" >= 946684800000) THEN CAST(min(e."made" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END > ?) THEN 4 ELSE 5 END AS verdict, e.rowid AS place0 FROM "results" AS e ORDER BY e.rowid
LIMIT ? OFFSET ?;

-- results: next page 0
SELECT e."id" AS key0, CASE WHEN (e."made" IS NULL) THEN NULL WHEN (typeof(e."made") IN ('integer', 'real')
AND e."made" >= 946684800000) THEN CAST(min(e."made" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END AS
instant, e."name" COLLATE "BINARY" AS part0, CASE WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN
(typeof(e."made") IN ('integer', 'real') AND e."made" >= 946684800000) THEN CAST(min(e."made" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END > 0 AND CASE WHEN (e."made" IS NULL) THEN NULL WHEN
(typeof(e."made") IN ('integer', 'real') AND e."made" >= 946684800000) THEN CAST(min(e."made" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END < ?) THEN CASE WHEN (EXISTS (SELECT * FROM "heads" AS r WHERE
r."result" = e."id")) THEN 1 ELSE 0 END WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN (typeof(e."made") IN
('integer', 'real') AND e."made" >= 946684800000) THEN CAST(min(e."made" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END IS NULL) THEN 2 WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN (typeof(e."made") IN
('integer', 'real') AND e."made" >= 946684800000) THEN CAST(min(e."made" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END = -1) THEN 3 WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN (typeof(e."made") IN
('integer', 'real') AND e."made" >= 946684800000) THEN CAST(min(e."made" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END > ?) THEN 4 ELSE 5 END AS verdict, e.rowid AS place0 FROM "results" AS e WHERE e.rowid >
? ORDER BY e.rowid LIMIT ? OFFSET ?;

-- results: all, where no page is read
SELECT CASE WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN (typeof(e."made") IN ('integer', 'real') AND
e."made" >= 946684800000) THEN CAST(min(e."made" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END > 0 AND
CASE WHEN (e."made" IS NULL) THEN NULL WHEN (typeof(e."made") IN ('integer', 'real') AND e."made" >=
946684800000) THEN CAST(min(e."made" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END < ?) THEN CASE WHEN
(EXISTS (SELECT * FROM "heads" AS r WHERE r."result" = e."id")) THEN 1 ELSE 0 END WHEN (CASE WHEN (e."made" IS
NULL) THEN NULL WHEN (typeof(e."made") IN ('integer', 'real') AND e."made" >= 946684800000) THEN
CAST(min(e."made" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END IS NULL) THEN 2 WHEN (CASE WHEN
(e."made" IS NULL) THEN NULL WHEN (typeof(e."made") IN ('integer', 'real') AND e."made" >= 946684800000) THEN
CAST(min(e."made" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END = -1) THEN 3 WHEN (CASE WHEN (e."made"
IS NULL) THEN NULL WHEN (typeof(e."made") IN ('integer', 'real') AND e."made" >= 946684800000) THEN
CAST(min(e."made" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END > ?) THEN 4 ELSE 5 END AS verdict,
count(*) AS count_1 FROM "results" AS e GROUP BY 1;

-- results: newest kept
SELECT ranked.key0, ranked.instant, ranked.part0 FROM (SELECT row_number() OVER (PARTITION BY e."name" COLLATE
"BINARY" ORDER BY CASE WHEN (e."made" IS NULL) THEN NULL WHEN (typeof(e."made") IN ('integer', 'real') AND
e."made" >= 946684800000) THEN CAST(min(e."made" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END DESC,
e."id" COLLATE "BINARY" DESC) AS position, e."id" AS key0, CASE WHEN (e."made" IS NULL) THEN NULL WHEN
(typeof(e."made") IN ('integer', 'real') AND e."made" >= 946684800000) THEN CAST(min(e."made" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END AS instant, e."name" COLLATE "BINARY" AS part0 FROM "results" AS e
WHERE CASE WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN (typeof(e."made") IN ('integer', 'real') AND
e."made" >= 946684800000) THEN CAST(min(e."made" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END > 0 AND
CASE WHEN (e."made" IS NULL) THEN NULL WHEN (typeof(e."made") IN ('integer', 'real') AND e."made" >=
946684800000) THEN CAST(min(e."made" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END <= ?) THEN 0 ELSE 1
END = 0) AS ranked WHERE ranked.position = ?;

-- results: candidates
SELECT count(*) AS count_1 FROM (SELECT 1 FROM "results" AS e LIMIT ? OFFSET ?) AS some;

-- results: backlog
SELECT count(*) AS count_1 FROM "results" AS e WHERE CASE WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN
(typeof(e."made") IN ('integer', 'real') AND e."made" >= 946684800000) THEN CAST(min(e."made" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END > 0 AND CASE WHEN (e."made" IS NULL) THEN NULL WHEN
(typeof(e."made") IN ('integer', 'real') AND e."made" >= 946684800000) THEN CAST(min(e."made" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END < ?) THEN 0 WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN
(typeof(e."made") IN ('integer', 'real') AND e."made" >= 946684800000) THEN CAST(min(e."made" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END IS NULL) THEN 2 WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN
(typeof(e."made") IN ('integer', 'real') AND e."made" >= 946684800000) THEN CAST(min(e."made" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END = -1) THEN 3 WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN
(typeof(e."made") IN ('integer', 'real') AND e."made" >= 946684800000) THEN CAST(min(e."made" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END > ?) THEN 4 ELSE 5 END = 0;

-- results: backlog after a place
SELECT count(*) AS count_1 FROM "results" AS e WHERE CASE WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN
(typeof(e."made") IN ('integer', 'real') AND e."made" >= 946684800000) THEN CAST(min(e."made" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END > 0 AND CASE WHEN (e."made" IS NULL) THEN NULL WHEN
(typeof(e."made") IN ('integer', 'real') AND e."made" >= 946684800000) THEN CAST(min(e."made" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END < ?) THEN 0 WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN
(typeof(e."made") IN ('integer', 'real') AND e."made" >= 946684800000) THEN CAST(min(e."made" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END IS NULL) THEN 2 WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN
(typeof(e."made") IN ('integer', 'real') AND e."made" >= 946684800000) THEN CAST(min(e."made" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END = -1) THEN 3 WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN
(typeof(e."made") IN ('integer', 'real') AND e."made" >= 946684800000) THEN CAST(min(e."made" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END > ?) THEN 4 ELSE 5 END = 0 AND e.rowid > ?;

-- results: check
SELECT e."id" AS key0, CASE WHEN (e."made" IS NULL) THEN NULL WHEN (typeof(e."made") IN ('integer', 'real')
AND e."made" >= 946684800000) THEN CAST(min(e."made" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END AS
instant, e."name" COLLATE "BINARY" AS part0 FROM "results" AS e WHERE e."id" IN (SELECT anon_1.value FROM
json_each(?) AS anon_1) AND CASE WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN (typeof(e."made") IN
('integer', 'real') AND e."made" >= 946684800000) THEN CAST(min(e."made" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END > 0 AND CASE WHEN (e."made" IS NULL) THEN NULL WHEN (typeof(e."made") IN ('integer',
'real') AND e."made" >= 946684800000) THEN CAST(min(e."made" * 1000, 253402300799000000) AS INTEGER) ELSE -1
END < ?) THEN CASE WHEN (EXISTS (SELECT * FROM "heads" AS r WHERE r."result" = e."id")) THEN 1 ELSE 0 END WHEN
(CASE WHEN (e."made" IS NULL) THEN NULL WHEN (typeof(e."made") IN ('integer', 'real') AND e."made" >=
946684800000) THEN CAST(min(e."made" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END IS NULL) THEN 2 WHEN
(CASE WHEN (e."made" IS NULL) THEN NULL WHEN (typeof(e."made") IN ('integer', 'real') AND e."made" >=
946684800000) THEN CAST(min(e."made" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END = -1) THEN 3 WHEN
(CASE WHEN (e."made" IS NULL) THEN NULL WHEN (typeof(e."made") IN ('integer', 'real') AND e."made" >=
946684800000) THEN CAST(min(e."made" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END > ?) THEN 4 ELSE 5
END = 0;

-- results: measure 0
SELECT coalesce(sum(coalesce(length(CAST("results"."id" AS BLOB)), ?) + coalesce(length(CAST("results"."name"
AS BLOB)), ?) + coalesce(length(CAST("results"."made" AS BLOB)), ?)), ?) AS coalesce_1, count(*) AS count_1
FROM "results" WHERE "results"."id" IN (SELECT anon_1.value FROM json_each(?) AS anon_1);

-- results: delete results
DELETE FROM "results" WHERE "results"."id" IN (SELECT anon_1.value FROM json_each(?) AS anon_1) AND CASE WHEN
(CASE WHEN ("results"."made" IS NULL) THEN NULL WHEN (typeof("results"."made") IN ('integer', 'real') AND
"results"."made" >= 946684800000) THEN CAST(min("results"."made" * 1000, 253402300799000000) AS INTEGER) ELSE
-1 END > 0 AND CASE WHEN ("results"."made" IS NULL) THEN NULL WHEN (typeof("results"."made") IN ('integer',
'real') AND "results"."made" >= 946684800000) THEN CAST(min("results"."made" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END < ?) THEN CASE WHEN (EXISTS (SELECT * FROM "heads" AS r WHERE r."result" =
"results"."id")) THEN 1 ELSE 0 END WHEN (CASE WHEN ("results"."made" IS NULL) THEN NULL WHEN
(typeof("results"."made") IN ('integer', 'real') AND "results"."made" >= 946684800000) THEN
CAST(min("results"."made" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END IS NULL) THEN 2 WHEN (CASE WHEN
("results"."made" IS NULL) THEN NULL WHEN (typeof("results"."made") IN ('integer', 'real') AND
"results"."made" >= 946684800000) THEN CAST(min("results"."made" * 1000, 253402300799000000) AS INTEGER) ELSE
-1 END = -1) THEN 3 WHEN (CASE WHEN ("results"."made" IS NULL) THEN NULL WHEN (typeof("results"."made") IN
('integer', 'real') AND "results"."made" >= 946684800000) THEN CAST(min("results"."made" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END > ?) THEN 4 ELSE 5 END = 0;

-- marks: first page
SELECT e."run" AS key0, e."number" AS key1, CASE WHEN (e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN
('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER)
ELSE -1 END AS instant, CASE WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN ('integer',
'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END >
0 AND CASE WHEN (e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >=
946684800000) THEN CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END < ?) THEN 0 WHEN (CASE
WHEN (e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN
CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END IS NULL) THEN 1 WHEN (CASE WHEN (e."at" IS
NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" *
1000, 253402300799000000) AS INTEGER) ELSE -1 END = -1) THEN 2 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN
(typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END > ?) THEN 3 ELSE 4 END AS verdict, e."at" AS place0, e.rowid AS
place1 FROM "marks" AS e INDEXED BY "marks_at" WHERE e."at" IS NOT NULL AND e."at" < ? ORDER BY e."at",
e.rowid LIMIT ? OFFSET ?;

-- marks: next page 0
SELECT e."run" AS key0, e."number" AS key1, CASE WHEN (e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN
('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER)
ELSE -1 END AS instant, CASE WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN ('integer',
'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END >
0 AND CASE WHEN (e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >=
946684800000) THEN CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END < ?) THEN 0 WHEN (CASE
WHEN (e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN
CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END IS NULL) THEN 1 WHEN (CASE WHEN (e."at" IS
NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" *
1000, 253402300799000000) AS INTEGER) ELSE -1 END = -1) THEN 2 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN
(typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END > ?) THEN 3 ELSE 4 END AS verdict, e."at" AS place0, e.rowid AS
place1 FROM "marks" AS e INDEXED BY "marks_at" WHERE e."at" IS NOT NULL AND e."at" < ? AND e."at" = ? AND
(e.rowid) > (?, ?) ORDER BY e.rowid LIMIT ? OFFSET ?;

-- marks: next page 1
SELECT e."run" AS key0, e."number" AS key1, CASE WHEN (e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN
('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER)
ELSE -1 END AS instant, CASE WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN ('integer',
'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END >
0 AND CASE WHEN (e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >=
946684800000) THEN CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END < ?) THEN 0 WHEN (CASE
WHEN (e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN
CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END IS NULL) THEN 1 WHEN (CASE WHEN (e."at" IS
NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" *
1000, 253402300799000000) AS INTEGER) ELSE -1 END = -1) THEN 2 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN
(typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END > ?) THEN 3 ELSE 4 END AS verdict, e."at" AS place0, e.rowid AS
place1 FROM "marks" AS e INDEXED BY "marks_at" WHERE e."at" IS NOT NULL AND e."at" < ? AND e."at" > ? ORDER BY
e."at", e.rowid LIMIT ? OFFSET ?;

-- marks: beyond pages
SELECT CASE WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at"
>= 946684800000) THEN CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END > 0 AND CASE WHEN
(e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN
CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END < ?) THEN 0 WHEN (CASE WHEN (e."at" IS
NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" *
1000, 253402300799000000) AS INTEGER) ELSE -1 END IS NULL) THEN 1 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL
WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END = -1) THEN 2 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN
(typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END > ?) THEN 3 ELSE 4 END AS verdict, count(*) AS count_1 FROM
"marks" AS e WHERE CASE WHEN (e."at" IS NOT NULL AND e."at" < ?) THEN 0 ELSE 1 END = 1 GROUP BY 1;

-- marks: all, where no page is read
SELECT CASE WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at"
>= 946684800000) THEN CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END > 0 AND CASE WHEN
(e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN
CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END < ?) THEN 0 WHEN (CASE WHEN (e."at" IS
NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" *
1000, 253402300799000000) AS INTEGER) ELSE -1 END IS NULL) THEN 1 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL
WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END = -1) THEN 2 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN
(typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END > ?) THEN 3 ELSE 4 END AS verdict, count(*) AS count_1 FROM
"marks" AS e GROUP BY 1;

-- marks: newest kept
SELECT ranked.key0, ranked.key1, ranked.instant FROM (SELECT row_number() OVER (ORDER BY CASE WHEN (e."at" IS
NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" *
1000, 253402300799000000) AS INTEGER) ELSE -1 END DESC, e."run" COLLATE "BINARY" DESC, e."number" COLLATE
"BINARY" DESC) AS position, e."run" AS key0, e."number" AS key1, CASE WHEN (e."at" IS NULL) THEN NULL WHEN
(typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END AS instant FROM "marks" AS e WHERE CASE WHEN (CASE WHEN (e."at" IS
NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" *
1000, 253402300799000000) AS INTEGER) ELSE -1 END > 0 AND CASE WHEN (e."at" IS NULL) THEN NULL WHEN
(typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END <= ?) THEN 0 ELSE 1 END = 0) AS ranked WHERE ranked.position = ?;

-- marks: candidates
SELECT count(*) AS count_1 FROM (SELECT 1 FROM "marks" AS e INDEXED BY "marks_at" WHERE e."at" IS NOT NULL AND
e."at" < ? LIMIT ? OFFSET ?) AS some;

-- marks: backlog
SELECT count(*) AS count_1 FROM "marks" AS e INDEXED BY "marks_at" WHERE e."at" IS NOT NULL AND e."at" < ?;

-- marks: backlog after a place
SELECT count(*) AS count_1 FROM "marks" AS e INDEXED BY "marks_at" WHERE e."at" IS NOT NULL AND e."at" < ? AND
e."at" >= ?;

-- marks: check
SELECT e."run" AS key0, e."number" AS key1, CASE WHEN (e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN
('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER)
ELSE -1 END AS instant FROM "marks" AS e WHERE (e."run", e."number") IN (SELECT
CAST(json_extract(anon_1.value, '$[0]') AS TEXT) AS json_extract_1, json_extract(anon_1.value, '$[1]') AS
json_extract_2 FROM json_each(?) AS anon_1) AND CASE WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN
(typeof(e."at") IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" * 1000,
253402300799000000) AS INTEGER) ELSE -1 END > 0 AND CASE WHEN (e."at" IS NULL) THEN NULL WHEN (typeof(e."at")
IN ('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" * 1000, 253402300799000000) AS
INTEGER) ELSE -1 END < ?) THEN 0 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN
('integer', 'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER)
ELSE -1 END IS NULL) THEN 1 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN ('integer',
'real') AND e."at" >= 946684800000) THEN CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END =
-1) THEN 2 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (typeof(e."at") IN ('integer', 'real') AND e."at"
>= 946684800000) THEN CAST(min(e."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END > ?) THEN 3 ELSE 4
END = 0;

-- marks: measure 0
SELECT coalesce(sum(coalesce(length(CAST("marks"."run" AS BLOB)), ?) + coalesce(length(CAST("marks"."number"
AS BLOB)), ?) + coalesce(length(CAST("marks"."at" AS BLOB)), ?)), ?) AS coalesce_1, count(*) AS count_1 FROM
"marks" WHERE ("marks"."run", "marks"."number") IN (SELECT CAST(json_extract(anon_1.value, '$[0]') AS TEXT) AS
json_extract_1, json_extract(anon_1.value, '$[1]') AS json_extract_2 FROM json_each(?) AS anon_1);

-- marks: delete marks
DELETE FROM "marks" WHERE ("marks"."run", "marks"."number") IN (SELECT CAST(json_extract(anon_1.value, '$[0]')
AS TEXT) AS json_extract_1, json_extract(anon_1.value, '$[1]') AS json_extract_2 FROM json_each(?) AS anon_1)
AND CASE WHEN (CASE WHEN ("marks"."at" IS NULL) THEN NULL WHEN (typeof("marks"."at") IN ('integer', 'real')
AND "marks"."at" >= 946684800000) THEN CAST(min("marks"."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1
END > 0 AND CASE WHEN ("marks"."at" IS NULL) THEN NULL WHEN (typeof("marks"."at") IN ('integer', 'real') AND
"marks"."at" >= 946684800000) THEN CAST(min("marks"."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1 END <
?) THEN 0 WHEN (CASE WHEN ("marks"."at" IS NULL) THEN NULL WHEN (typeof("marks"."at") IN ('integer', 'real')
AND "marks"."at" >= 946684800000) THEN CAST(min("marks"."at" * 1000, 253402300799000000) AS INTEGER) ELSE -1
END IS NULL) THEN 1 WHEN (CASE WHEN ("marks"."at" IS NULL) THEN NULL WHEN (typeof("marks"."at") IN ('integer',
'real') AND "marks"."at" >= 946684800000) THEN CAST(min("marks"."at" * 1000, 253402300799000000) AS INTEGER)
ELSE -1 END = -1) THEN 2 WHEN (CASE WHEN ("marks"."at" IS NULL) THEN NULL WHEN (typeof("marks"."at") IN
('integer', 'real') AND "marks"."at" >= 946684800000) THEN CAST(min("marks"."at" * 1000, 253402300799000000)
AS INTEGER) ELSE -1 END > ?) THEN 3 ELSE 4 END = 0;
