-- Written by: AFTERRUN_WRITE_GOLDEN=1 pytest tests/row_policies/test_row_sql.py

-- logs: first page
SELECT e."id" AS key0, CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN
CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END AS instant,
CASE WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN CAST(least(e."at",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END > 0 AND CASE WHEN (e."at" IS
NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT)
AS BIGINT) ELSE CAST(-1 AS BIGINT) END < %(cutoff)s::BIGINT) THEN 0 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL
WHEN (e."at" >= 946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END IS NULL) THEN 1 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >=
946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS
BIGINT) END = -1) THEN 2 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN
CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END >
%(latest)s::BIGINT) THEN 3 ELSE 4 END AS verdict, e."at" AS place0, e."id" AS place1 FROM "public"."logs" AS e
WHERE e."at" IS NOT NULL AND e."at" < %(bound)s ORDER BY e."at", e."id" LIMIT %(most)s;

-- logs: next page 0
SELECT e."id" AS key0, CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN
CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END AS instant,
CASE WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN CAST(least(e."at",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END > 0 AND CASE WHEN (e."at" IS
NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT)
AS BIGINT) ELSE CAST(-1 AS BIGINT) END < %(cutoff)s::BIGINT) THEN 0 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL
WHEN (e."at" >= 946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END IS NULL) THEN 1 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >=
946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS
BIGINT) END = -1) THEN 2 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN
CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END >
%(latest)s::BIGINT) THEN 3 ELSE 4 END AS verdict, e."at" AS place0, e."id" AS place1 FROM "public"."logs" AS e
WHERE e."at" IS NOT NULL AND e."at" < %(bound)s AND e."at" = %(place0)s AND e."id" > %(place1)s ORDER BY
e."id" LIMIT %(most)s;

-- logs: next page 1
SELECT e."id" AS key0, CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN
CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END AS instant,
CASE WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN CAST(least(e."at",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END > 0 AND CASE WHEN (e."at" IS
NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT)
AS BIGINT) ELSE CAST(-1 AS BIGINT) END < %(cutoff)s::BIGINT) THEN 0 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL
WHEN (e."at" >= 946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END IS NULL) THEN 1 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >=
946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS
BIGINT) END = -1) THEN 2 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN
CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END >
%(latest)s::BIGINT) THEN 3 ELSE 4 END AS verdict, e."at" AS place0, e."id" AS place1 FROM "public"."logs" AS e
WHERE e."at" IS NOT NULL AND e."at" < %(bound)s AND e."at" > %(place0)s ORDER BY e."at", e."id" LIMIT %(most)s;

-- logs: beyond pages
SELECT CASE WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN CAST(least(e."at",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END > 0 AND CASE WHEN (e."at" IS
NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT)
AS BIGINT) ELSE CAST(-1 AS BIGINT) END < %(cutoff)s::BIGINT) THEN 0 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL
WHEN (e."at" >= 946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END IS NULL) THEN 1 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >=
946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS
BIGINT) END = -1) THEN 2 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN
CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END >
%(latest)s::BIGINT) THEN 3 ELSE 4 END AS verdict, count(*) AS count_1 FROM "public"."logs" AS e WHERE CASE
WHEN (e."at" IS NOT NULL AND e."at" < %(bound)s) THEN 0 ELSE 1 END = 1 GROUP BY 1;

-- logs: all, where no page is read
SELECT CASE WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN CAST(least(e."at",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END > 0 AND CASE WHEN (e."at" IS
NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT)
AS BIGINT) ELSE CAST(-1 AS BIGINT) END < %(cutoff)s::BIGINT) THEN 0 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL
WHEN (e."at" >= 946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END IS NULL) THEN 1 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >=
946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS
BIGINT) END = -1) THEN 2 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN
CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END >
%(latest)s::BIGINT) THEN 3 ELSE 4 END AS verdict, count(*) AS count_1 FROM "public"."logs" AS e GROUP BY 1;

-- logs: newest kept
SELECT ranked.key0, ranked.instant FROM (SELECT row_number() OVER (ORDER BY CASE WHEN (e."at" IS NULL) THEN
NULL WHEN (e."at" >= 946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT)
ELSE CAST(-1 AS BIGINT) END DESC, e."id" DESC) AS position, e."id" AS key0, CASE WHEN (e."at" IS NULL) THEN
NULL WHEN (e."at" >= 946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT)
ELSE CAST(-1 AS BIGINT) END AS instant FROM "public"."logs" AS e WHERE CASE WHEN (CASE WHEN (e."at" IS NULL)
THEN NULL WHEN (e."at" >= 946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS
BIGINT) ELSE CAST(-1 AS BIGINT) END > 0 AND CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000)
THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END <=
%(latest)s::BIGINT) THEN 0 ELSE 1 END = 0) AS ranked WHERE ranked.position = %(count)s;

-- logs: candidates
SELECT count(*) AS count_1 FROM (SELECT 1 FROM "public"."logs" AS e WHERE e."at" IS NOT NULL AND e."at" <
%(bound)s LIMIT %(most)s) AS "some";

-- logs: backlog
SELECT count(*) AS count_1 FROM "public"."logs" AS e WHERE e."at" IS NOT NULL AND e."at" < %(bound)s;

-- logs: backlog after a place
SELECT count(*) AS count_1 FROM "public"."logs" AS e WHERE e."at" IS NOT NULL AND e."at" < %(bound)s AND
e."at" >= %(place0)s;

-- logs: check
SELECT e."id" AS key0, CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN
CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END AS instant
FROM "public"."logs" AS e WHERE e."id" = any(CAST((SELECT CASE WHEN (CAST(given.keys AS TEXT) ~
'^{(-?[0-9]{1,18}[,}])+$') THEN CAST(given.keys AS BIGINT[]) ELSE array((SELECT CASE WHEN (anon_3.each ~
'^-?[0-9]{1,19}$') THEN CASE WHEN (CAST(anon_3.each AS numeric) BETWEEN -9223372036854775808 AND
9223372036854775807) THEN CAST(anon_3.each AS BIGINT) END END AS anon_2 FROM unnest(given.keys) AS
anon_3(each))) END AS anon_1 FROM (SELECT CAST(%(keys)s AS TEXT[]) AS keys LIMIT ALL OFFSET 0) AS given) AS
BIGINT[])) AND CASE WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN
CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END > 0 AND CASE
WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN CAST(least(e."at", 253402300799000) *
CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END < %(cutoff)s::BIGINT) THEN 0 WHEN (CASE WHEN
(e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000
AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END IS NULL) THEN 1 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL
WHEN (e."at" >= 946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END = -1) THEN 2 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000)
THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END >
%(latest)s::BIGINT) THEN 3 ELSE 4 END = 0 ORDER BY e."id" FOR UPDATE OF e SKIP LOCKED;

-- logs: measure 0
SELECT coalesce(sum(CAST(coalesce(pg_column_size("public"."logs"."id"), %(coalesce_2)s::INTEGER) +
coalesce(pg_column_size("public"."logs"."run"), %(coalesce_3)s::INTEGER) +
coalesce(pg_column_size("public"."logs"."at"), %(coalesce_4)s::INTEGER) +
coalesce(pg_column_size("public"."logs"."body"), %(coalesce_5)s::INTEGER) AS BIGINT)),
%(coalesce_6)s::INTEGER) AS coalesce_1, count(*) AS count_1 FROM "public"."logs" WHERE "public"."logs"."id" =
any(CAST((SELECT CASE WHEN (CAST(given.keys AS TEXT) ~ '^{(-?[0-9]{1,18}[,}])+$') THEN CAST(given.keys AS
BIGINT[]) ELSE array((SELECT CASE WHEN (anon_3.each ~ '^-?[0-9]{1,19}$') THEN CASE WHEN (CAST(anon_3.each AS
numeric) BETWEEN -9223372036854775808 AND 9223372036854775807) THEN CAST(anon_3.each AS BIGINT) END END AS
anon_2 FROM unnest(given.keys) AS anon_3(each))) END AS anon_1 FROM (SELECT CAST(%(keys)s AS TEXT[]) AS keys
LIMIT ALL OFFSET 0) AS given) AS BIGINT[]));

-- logs: delete logs
DELETE FROM "public"."logs" WHERE "public"."logs"."id" = any(CAST((SELECT CASE WHEN (CAST(given.keys AS TEXT)
~ '^{(-?[0-9]{1,18}[,}])+$') THEN CAST(given.keys AS BIGINT[]) ELSE array((SELECT CASE WHEN (anon_3.each ~
'^-?[0-9]{1,19}$') THEN CASE WHEN (CAST(anon_3.each AS numeric) BETWEEN -9223372036854775808 AND
9223372036854775807) THEN CAST(anon_3.each AS BIGINT) END END AS anon_2 FROM unnest(given.keys) AS
anon_3(each))) END AS anon_1 FROM (SELECT CAST(%(keys)s AS TEXT[]) AS keys LIMIT ALL OFFSET 0) AS given) AS
BIGINT[])) AND CASE WHEN (CASE WHEN ("public"."logs"."at" IS NULL) THEN NULL WHEN ("public"."logs"."at" >=
946684800000) THEN CAST(least("public"."logs"."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END > 0 AND CASE WHEN ("public"."logs"."at" IS NULL) THEN NULL WHEN ("public"."logs"."at"
>= 946684800000) THEN CAST(least("public"."logs"."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END < %(cutoff)s::BIGINT) THEN 0 WHEN (CASE WHEN ("public"."logs"."at" IS NULL) THEN NULL
WHEN ("public"."logs"."at" >= 946684800000) THEN CAST(least("public"."logs"."at", 253402300799000) * CAST(1000
AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END IS NULL) THEN 1 WHEN (CASE WHEN ("public"."logs"."at" IS
NULL) THEN NULL WHEN ("public"."logs"."at" >= 946684800000) THEN CAST(least("public"."logs"."at",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END = -1) THEN 2 WHEN (CASE WHEN
("public"."logs"."at" IS NULL) THEN NULL WHEN ("public"."logs"."at" >= 946684800000) THEN
CAST(least("public"."logs"."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT)
END > %(latest)s::BIGINT) THEN 3 ELSE 4 END = 0;

-- events: first page
SELECT e."id" AS key0, CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN CASE WHEN (e."occurred" ~
'^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_1)s::INTEGER, %(substr_2)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_3)s::INTEGER, %(substr_4)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_5)s::INTEGER, %(substr_6)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END AS instant, CASE WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN CASE WHEN
(e."occurred" ~ '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_7)s::INTEGER, %(substr_8)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_9)s::INTEGER, %(substr_10)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_11)s::INTEGER, %(substr_12)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END > 0 AND CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN CASE WHEN (e."occurred" ~
'^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_7)s::INTEGER, %(substr_8)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_9)s::INTEGER, %(substr_10)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_11)s::INTEGER, %(substr_12)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END < %(cutoff)s::BIGINT) THEN 0 WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN CASE
WHEN (e."occurred" ~ '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_7)s::INTEGER, %(substr_8)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_9)s::INTEGER, %(substr_10)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_11)s::INTEGER, %(substr_12)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END IS NULL) THEN 1 WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN CASE WHEN
(e."occurred" ~ '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_7)s::INTEGER, %(substr_8)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_9)s::INTEGER, %(substr_10)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_11)s::INTEGER, %(substr_12)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END = -1) THEN 2 WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN CASE WHEN
(e."occurred" ~ '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_7)s::INTEGER, %(substr_8)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_9)s::INTEGER, %(substr_10)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_11)s::INTEGER, %(substr_12)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END > %(latest)s::BIGINT) THEN 3 ELSE 4 END AS verdict, e."occurred" AS place0, e."id" AS
place1 FROM "public"."events" AS e WHERE e."occurred" IS NOT NULL AND e."occurred" < %(bound)s ORDER BY
e."occurred", e."id" LIMIT %(most)s;

-- events: next page 0
SELECT e."id" AS key0, CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN CASE WHEN (e."occurred" ~
'^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_1)s::INTEGER, %(substr_2)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_3)s::INTEGER, %(substr_4)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_5)s::INTEGER, %(substr_6)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END AS instant, CASE WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN CASE WHEN
(e."occurred" ~ '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_7)s::INTEGER, %(substr_8)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_9)s::INTEGER, %(substr_10)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_11)s::INTEGER, %(substr_12)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END > 0 AND CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN CASE WHEN (e."occurred" ~
'^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_7)s::INTEGER, %(substr_8)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_9)s::INTEGER, %(substr_10)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_11)s::INTEGER, %(substr_12)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END < %(cutoff)s::BIGINT) THEN 0 WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN CASE
WHEN (e."occurred" ~ '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_7)s::INTEGER, %(substr_8)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_9)s::INTEGER, %(substr_10)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_11)s::INTEGER, %(substr_12)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END IS NULL) THEN 1 WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN CASE WHEN
(e."occurred" ~ '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_7)s::INTEGER, %(substr_8)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_9)s::INTEGER, %(substr_10)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_11)s::INTEGER, %(substr_12)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END = -1) THEN 2 WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN CASE WHEN
(e."occurred" ~ '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_7)s::INTEGER, %(substr_8)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_9)s::INTEGER, %(substr_10)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_11)s::INTEGER, %(substr_12)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END > %(latest)s::BIGINT) THEN 3 ELSE 4 END AS verdict, e."occurred" AS place0, e."id" AS
place1 FROM "public"."events" AS e WHERE e."occurred" IS NOT NULL AND e."occurred" < %(bound)s AND
e."occurred" = %(place0)s AND e."id" > %(place1)s ORDER BY e."id" LIMIT %(most)s;

-- events: next page 1
SELECT e."id" AS key0, CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN CASE WHEN (e."occurred" ~
'^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_1)s::INTEGER, %(substr_2)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_3)s::INTEGER, %(substr_4)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_5)s::INTEGER, %(substr_6)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END AS instant, CASE WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN CASE WHEN
(e."occurred" ~ '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_7)s::INTEGER, %(substr_8)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_9)s::INTEGER, %(substr_10)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_11)s::INTEGER, %(substr_12)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END > 0 AND CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN CASE WHEN (e."occurred" ~
'^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_7)s::INTEGER, %(substr_8)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_9)s::INTEGER, %(substr_10)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_11)s::INTEGER, %(substr_12)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END < %(cutoff)s::BIGINT) THEN 0 WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN CASE
WHEN (e."occurred" ~ '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_7)s::INTEGER, %(substr_8)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_9)s::INTEGER, %(substr_10)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_11)s::INTEGER, %(substr_12)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END IS NULL) THEN 1 WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN CASE WHEN
(e."occurred" ~ '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_7)s::INTEGER, %(substr_8)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_9)s::INTEGER, %(substr_10)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_11)s::INTEGER, %(substr_12)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END = -1) THEN 2 WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN CASE WHEN
(e."occurred" ~ '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_7)s::INTEGER, %(substr_8)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_9)s::INTEGER, %(substr_10)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_11)s::INTEGER, %(substr_12)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END > %(latest)s::BIGINT) THEN 3 ELSE 4 END AS verdict, e."occurred" AS place0, e."id" AS
place1 FROM "public"."events" AS e WHERE e."occurred" IS NOT NULL AND e."occurred" < %(bound)s AND
e."occurred" > %(place0)s ORDER BY e."occurred", e."id" LIMIT %(most)s;

-- events: beyond pages
SELECT CASE WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN CASE WHEN (e."occurred" ~
'^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_1)s::INTEGER, %(substr_2)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_3)s::INTEGER, %(substr_4)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_5)s::INTEGER, %(substr_6)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END > 0 AND CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN CASE WHEN (e."occurred" ~
'^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_1)s::INTEGER, %(substr_2)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_3)s::INTEGER, %(substr_4)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_5)s::INTEGER, %(substr_6)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END < %(cutoff)s::BIGINT) THEN 0 WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN CASE
WHEN (e."occurred" ~ '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_1)s::INTEGER, %(substr_2)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_3)s::INTEGER, %(substr_4)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_5)s::INTEGER, %(substr_6)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END IS NULL) THEN 1 WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN CASE WHEN
(e."occurred" ~ '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_1)s::INTEGER, %(substr_2)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_3)s::INTEGER, %(substr_4)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_5)s::INTEGER, %(substr_6)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END = -1) THEN 2 WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN CASE WHEN
(e."occurred" ~ '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_1)s::INTEGER, %(substr_2)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_3)s::INTEGER, %(substr_4)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_5)s::INTEGER, %(substr_6)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END > %(latest)s::BIGINT) THEN 3 ELSE 4 END AS verdict, count(*) AS count_1 FROM
"public"."events" AS e WHERE CASE WHEN (e."occurred" IS NOT NULL AND e."occurred" < %(bound)s) THEN 0 ELSE 1
END = 1 GROUP BY 1;

-- events: all, where no page is read
SELECT CASE WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN CASE WHEN (e."occurred" ~
'^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_1)s::INTEGER, %(substr_2)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_3)s::INTEGER, %(substr_4)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_5)s::INTEGER, %(substr_6)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END > 0 AND CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN CASE WHEN (e."occurred" ~
'^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_1)s::INTEGER, %(substr_2)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_3)s::INTEGER, %(substr_4)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_5)s::INTEGER, %(substr_6)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END < %(cutoff)s::BIGINT) THEN 0 WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN CASE
WHEN (e."occurred" ~ '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_1)s::INTEGER, %(substr_2)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_3)s::INTEGER, %(substr_4)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_5)s::INTEGER, %(substr_6)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END IS NULL) THEN 1 WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN CASE WHEN
(e."occurred" ~ '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_1)s::INTEGER, %(substr_2)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_3)s::INTEGER, %(substr_4)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_5)s::INTEGER, %(substr_6)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END = -1) THEN 2 WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN CASE WHEN
(e."occurred" ~ '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_1)s::INTEGER, %(substr_2)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_3)s::INTEGER, %(substr_4)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_5)s::INTEGER, %(substr_6)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END > %(latest)s::BIGINT) THEN 3 ELSE 4 END AS verdict, count(*) AS count_1 FROM
"public"."events" AS e GROUP BY 1;

-- events: newest kept
SELECT ranked.key0, ranked.instant FROM (SELECT row_number() OVER (ORDER BY CASE WHEN (e."occurred" IS NULL)
THEN NULL WHEN CASE WHEN (e."occurred" ~ '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_1)s::INTEGER, %(substr_2)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_3)s::INTEGER, %(substr_4)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_5)s::INTEGER, %(substr_6)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END DESC, CAST(e."id" AS TEXT) COLLATE "C" DESC) AS position, e."id" AS key0, CASE WHEN
(e."occurred" IS NULL) THEN NULL WHEN CASE WHEN (e."occurred" ~
'^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_7)s::INTEGER, %(substr_8)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_9)s::INTEGER, %(substr_10)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_11)s::INTEGER, %(substr_12)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END AS instant FROM "public"."events" AS e WHERE CASE WHEN (CASE WHEN (e."occurred" IS
NULL) THEN NULL WHEN CASE WHEN (e."occurred" ~ '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_13)s::INTEGER, %(substr_14)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_15)s::INTEGER, %(substr_16)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_17)s::INTEGER, %(substr_18)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END > 0 AND CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN CASE WHEN (e."occurred" ~
'^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_13)s::INTEGER, %(substr_14)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_15)s::INTEGER, %(substr_16)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_17)s::INTEGER, %(substr_18)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END <= %(latest)s::BIGINT) THEN 0 ELSE 1 END = 0) AS ranked WHERE ranked.position =
%(count)s;

-- events: candidates
SELECT count(*) AS count_1 FROM (SELECT 1 FROM "public"."events" AS e WHERE e."occurred" IS NOT NULL AND
e."occurred" < %(bound)s LIMIT %(most)s) AS "some";

-- events: backlog
SELECT count(*) AS count_1 FROM "public"."events" AS e WHERE e."occurred" IS NOT NULL AND e."occurred" <
%(bound)s;

-- events: backlog after a place
SELECT count(*) AS count_1 FROM "public"."events" AS e WHERE e."occurred" IS NOT NULL AND e."occurred" <
%(bound)s AND e."occurred" >= %(place0)s;

-- events: check
SELECT e."id" AS key0, CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN CASE WHEN (e."occurred" ~
'^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_1)s::INTEGER, %(substr_2)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_3)s::INTEGER, %(substr_4)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_5)s::INTEGER, %(substr_6)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END AS instant FROM "public"."events" AS e WHERE e."id" = any(CAST(%(keys)s AS TEXT[])) AND
CASE WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN CASE WHEN (e."occurred" ~
'^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_7)s::INTEGER, %(substr_8)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_9)s::INTEGER, %(substr_10)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_11)s::INTEGER, %(substr_12)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END > 0 AND CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN CASE WHEN (e."occurred" ~
'^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_7)s::INTEGER, %(substr_8)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_9)s::INTEGER, %(substr_10)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_11)s::INTEGER, %(substr_12)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END < %(cutoff)s::BIGINT) THEN 0 WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN CASE
WHEN (e."occurred" ~ '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_7)s::INTEGER, %(substr_8)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_9)s::INTEGER, %(substr_10)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_11)s::INTEGER, %(substr_12)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END IS NULL) THEN 1 WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN CASE WHEN
(e."occurred" ~ '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_7)s::INTEGER, %(substr_8)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_9)s::INTEGER, %(substr_10)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_11)s::INTEGER, %(substr_12)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END = -1) THEN 2 WHEN (CASE WHEN (e."occurred" IS NULL) THEN NULL WHEN CASE WHEN
(e."occurred" ~ '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr(e."occurred", %(substr_7)s::INTEGER, %(substr_8)s::INTEGER) >= '2000' AND CAST(substr(e."occurred",
%(substr_9)s::INTEGER, %(substr_10)s::INTEGER) AS INTEGER) <= date_part('day', to_date(substr(e."occurred",
%(substr_11)s::INTEGER, %(substr_12)s::INTEGER), 'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN
CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN (e."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN e."occurred"
ELSE e."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END > %(latest)s::BIGINT) THEN 3 ELSE 4 END = 0 ORDER BY e."id" FOR UPDATE OF e SKIP LOCKED;

-- events: count event_parts
SELECT count(*) AS count_1 FROM "public"."event_parts" WHERE "public"."event_parts"."event" =
any(CAST(%(keys)s AS TEXT[]));

-- events: measure 0
SELECT coalesce(sum(CAST(coalesce(pg_column_size("public"."events"."id"), %(coalesce_2)s::INTEGER) +
coalesce(pg_column_size("public"."events"."occurred"), %(coalesce_3)s::INTEGER) +
coalesce(pg_column_size("public"."events"."kind"), %(coalesce_4)s::INTEGER) AS BIGINT)),
%(coalesce_5)s::INTEGER) AS coalesce_1, count(*) AS count_1 FROM "public"."events" WHERE
"public"."events"."id" = any(CAST(%(keys)s AS TEXT[]));

-- events: measure 1
SELECT coalesce(sum(CAST(coalesce(pg_column_size("public"."event_parts"."event"), %(coalesce_2)s::INTEGER) +
coalesce(pg_column_size("public"."event_parts"."number"), %(coalesce_3)s::INTEGER) AS BIGINT)),
%(coalesce_4)s::INTEGER) AS coalesce_1, count(*) AS count_1 FROM "public"."event_parts" WHERE
"public"."event_parts"."event" = any(CAST(%(keys)s AS TEXT[]));

-- events: delete event_parts
DELETE FROM "public"."event_parts" WHERE "public"."event_parts"."event" = any(CAST(%(keys)s AS TEXT[]));

-- events: delete events
DELETE FROM "public"."events" WHERE "public"."events"."id" = any(CAST(%(keys)s AS TEXT[])) AND CASE WHEN (CASE
WHEN ("public"."events"."occurred" IS NULL) THEN NULL WHEN CASE WHEN ("public"."events"."occurred" ~
'^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr("public"."events"."occurred", %(substr_1)s::INTEGER, %(substr_2)s::INTEGER) >= '2000' AND
CAST(substr("public"."events"."occurred", %(substr_3)s::INTEGER, %(substr_4)s::INTEGER) AS INTEGER) <=
date_part('day', to_date(substr("public"."events"."occurred", %(substr_5)s::INTEGER, %(substr_6)s::INTEGER),
'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN
("public"."events"."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN "public"."events"."occurred" ELSE
"public"."events"."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS
BIGINT) ELSE CAST(-1 AS BIGINT) END > 0 AND CASE WHEN ("public"."events"."occurred" IS NULL) THEN NULL WHEN
CASE WHEN ("public"."events"."occurred" ~ '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr("public"."events"."occurred", %(substr_1)s::INTEGER, %(substr_2)s::INTEGER) >= '2000' AND
CAST(substr("public"."events"."occurred", %(substr_3)s::INTEGER, %(substr_4)s::INTEGER) AS INTEGER) <=
date_part('day', to_date(substr("public"."events"."occurred", %(substr_5)s::INTEGER, %(substr_6)s::INTEGER),
'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN
("public"."events"."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN "public"."events"."occurred" ELSE
"public"."events"."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS
BIGINT) ELSE CAST(-1 AS BIGINT) END < %(cutoff)s::BIGINT) THEN 0 WHEN (CASE WHEN ("public"."events"."occurred"
IS NULL) THEN NULL WHEN CASE WHEN ("public"."events"."occurred" ~
'^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr("public"."events"."occurred", %(substr_1)s::INTEGER, %(substr_2)s::INTEGER) >= '2000' AND
CAST(substr("public"."events"."occurred", %(substr_3)s::INTEGER, %(substr_4)s::INTEGER) AS INTEGER) <=
date_part('day', to_date(substr("public"."events"."occurred", %(substr_5)s::INTEGER, %(substr_6)s::INTEGER),
'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN
("public"."events"."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN "public"."events"."occurred" ELSE
"public"."events"."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS
BIGINT) ELSE CAST(-1 AS BIGINT) END IS NULL) THEN 1 WHEN (CASE WHEN ("public"."events"."occurred" IS NULL)
THEN NULL WHEN CASE WHEN ("public"."events"."occurred" ~ '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr("public"."events"."occurred", %(substr_1)s::INTEGER, %(substr_2)s::INTEGER) >= '2000' AND
CAST(substr("public"."events"."occurred", %(substr_3)s::INTEGER, %(substr_4)s::INTEGER) AS INTEGER) <=
date_part('day', to_date(substr("public"."events"."occurred", %(substr_5)s::INTEGER, %(substr_6)s::INTEGER),
'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN
("public"."events"."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN "public"."events"."occurred" ELSE
"public"."events"."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS
BIGINT) ELSE CAST(-1 AS BIGINT) END = -1) THEN 2 WHEN (CASE WHEN ("public"."events"."occurred" IS NULL) THEN
NULL WHEN CASE WHEN ("public"."events"."occurred" ~ '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[
T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$') THEN
substr("public"."events"."occurred", %(substr_1)s::INTEGER, %(substr_2)s::INTEGER) >= '2000' AND
CAST(substr("public"."events"."occurred", %(substr_3)s::INTEGER, %(substr_4)s::INTEGER) AS INTEGER) <=
date_part('day', to_date(substr("public"."events"."occurred", %(substr_5)s::INTEGER, %(substr_6)s::INTEGER),
'YYYY-MM') + interval '1 month - 1 day') ELSE false END THEN CAST(least(EXTRACT(epoch FROM CAST(CASE WHEN
("public"."events"."occurred" ~ '(Z|[+-][0-9]{2}:[0-9]{2})$') THEN "public"."events"."occurred" ELSE
"public"."events"."occurred" || 'Z' END AS TIMESTAMP WITH TIME ZONE)) * 1000000, 253402300799000000) AS
BIGINT) ELSE CAST(-1 AS BIGINT) END > %(latest)s::BIGINT) THEN 3 ELSE 4 END = 0;

-- tasks: first page
SELECT e."id" AS key0, CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (e."ended" >= 946684800000) THEN
CAST(least(e."ended", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END AS
instant, CASE WHEN (e."run" IS NULL AND e."request" IS NULL) THEN CASE WHEN ((CAST(e."status" AS TEXT) COLLATE
"C") IN ('ok', 'failed')) THEN CASE WHEN ((CAST(e."status" AS TEXT) COLLATE "C") = 'ok') THEN CASE WHEN (CASE
WHEN (e."ended" IS NULL) THEN NULL WHEN (e."ended" >= 946684800000) THEN CAST(least(e."ended",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END > 0 AND CASE WHEN (e."ended" IS
NULL) THEN NULL WHEN (e."ended" >= 946684800000) THEN CAST(least(e."ended", 253402300799000) * CAST(1000 AS
BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END < %(cutoff)s::BIGINT) THEN CASE WHEN (EXISTS (SELECT * FROM
"public"."waits" AS r WHERE r."task" = e."id" AND (CASE WHEN (r."until" IS NULL) THEN NULL WHEN (r."until" >=
946684800000) THEN CAST(least(r."until", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS
BIGINT) END > %(now)s::BIGINT OR CASE WHEN (r."until" IS NULL) THEN NULL WHEN (r."until" >= 946684800000) THEN
CAST(least(r."until", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END = -1)))
THEN 1 ELSE 0 END WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (e."ended" >= 946684800000) THEN
CAST(least(e."ended", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END IS NULL)
THEN 2 WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (e."ended" >= 946684800000) THEN
CAST(least(e."ended", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END = -1)
THEN 3 WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (e."ended" >= 946684800000) THEN
CAST(least(e."ended", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END >
%(latest)s::BIGINT) THEN 4 ELSE 5 END ELSE 6 END ELSE 7 END ELSE 8 END AS verdict, e."ended" AS place0, e."id"
AS place1 FROM "public"."tasks" AS e WHERE e."ended" IS NOT NULL AND e."ended" < %(bound)s ORDER BY e."ended",
e."id" LIMIT %(most)s;

-- tasks: next page 0
SELECT e."id" AS key0, CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (e."ended" >= 946684800000) THEN
CAST(least(e."ended", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END AS
instant, CASE WHEN (e."run" IS NULL AND e."request" IS NULL) THEN CASE WHEN ((CAST(e."status" AS TEXT) COLLATE
"C") IN ('ok', 'failed')) THEN CASE WHEN ((CAST(e."status" AS TEXT) COLLATE "C") = 'ok') THEN CASE WHEN (CASE
WHEN (e."ended" IS NULL) THEN NULL WHEN (e."ended" >= 946684800000) THEN CAST(least(e."ended",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END > 0 AND CASE WHEN (e."ended" IS
NULL) THEN NULL WHEN (e."ended" >= 946684800000) THEN CAST(least(e."ended", 253402300799000) * CAST(1000 AS
BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END < %(cutoff)s::BIGINT) THEN CASE WHEN (EXISTS (SELECT * FROM
"public"."waits" AS r WHERE r."task" = e."id" AND (CASE WHEN (r."until" IS NULL) THEN NULL WHEN (r."until" >=
946684800000) THEN CAST(least(r."until", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS
BIGINT) END > %(now)s::BIGINT OR CASE WHEN (r."until" IS NULL) THEN NULL WHEN (r."until" >= 946684800000) THEN
CAST(least(r."until", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END = -1)))
THEN 1 ELSE 0 END WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (e."ended" >= 946684800000) THEN
CAST(least(e."ended", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END IS NULL)
THEN 2 WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (e."ended" >= 946684800000) THEN
CAST(least(e."ended", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END = -1)
THEN 3 WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (e."ended" >= 946684800000) THEN
CAST(least(e."ended", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END >
%(latest)s::BIGINT) THEN 4 ELSE 5 END ELSE 6 END ELSE 7 END ELSE 8 END AS verdict, e."ended" AS place0, e."id"
AS place1 FROM "public"."tasks" AS e WHERE e."ended" IS NOT NULL AND e."ended" < %(bound)s AND e."ended" =
%(place0)s AND e."id" > %(place1)s ORDER BY e."id" LIMIT %(most)s;

-- tasks: next page 1
SELECT e."id" AS key0, CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (e."ended" >= 946684800000) THEN
CAST(least(e."ended", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END AS
instant, CASE WHEN (e."run" IS NULL AND e."request" IS NULL) THEN CASE WHEN ((CAST(e."status" AS TEXT) COLLATE
"C") IN ('ok', 'failed')) THEN CASE WHEN ((CAST(e."status" AS TEXT) COLLATE "C") = 'ok') THEN CASE WHEN (CASE
WHEN (e."ended" IS NULL) THEN NULL WHEN (e."ended" >= 946684800000) THEN CAST(least(e."ended",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END > 0 AND CASE WHEN (e."ended" IS
NULL) THEN NULL WHEN (e."ended" >= 946684800000) THEN CAST(least(e."ended", 253402300799000) * CAST(1000 AS
BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END < %(cutoff)s::BIGINT) THEN CASE WHEN (EXISTS (SELECT * FROM
"public"."waits" AS r WHERE r."task" = e."id" AND (CASE WHEN (r."until" IS NULL) THEN NULL WHEN (r."until" >=
946684800000) THEN CAST(least(r."until", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS
BIGINT) END > %(now)s::BIGINT OR CASE WHEN (r."until" IS NULL) THEN NULL WHEN (r."until" >= 946684800000) THEN
CAST(least(r."until", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END = -1)))
THEN 1 ELSE 0 END WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (e."ended" >= 946684800000) THEN
CAST(least(e."ended", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END IS NULL)
THEN 2 WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (e."ended" >= 946684800000) THEN
CAST(least(e."ended", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END = -1)
THEN 3 WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (e."ended" >= 946684800000) THEN
CAST(least(e."ended", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END >
%(latest)s::BIGINT) THEN 4 ELSE 5 END ELSE 6 END ELSE 7 END ELSE 8 END AS verdict, e."ended" AS place0, e."id"
AS place1 FROM "public"."tasks" AS e WHERE e."ended" IS NOT NULL AND e."ended" < %(bound)s AND e."ended" >
%(place0)s ORDER BY e."ended", e."id" LIMIT %(most)s;

-- tasks: beyond pages
SELECT CASE WHEN (e."run" IS NULL AND e."request" IS NULL) THEN CASE WHEN ((CAST(e."status" AS TEXT) COLLATE
"C") IN ('ok', 'failed')) THEN CASE WHEN ((CAST(e."status" AS TEXT) COLLATE "C") = 'ok') THEN CASE WHEN (CASE
WHEN (e."ended" IS NULL) THEN NULL WHEN (e."ended" >= 946684800000) THEN CAST(least(e."ended",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END > 0 AND CASE WHEN (e."ended" IS
NULL) THEN NULL WHEN (e."ended" >= 946684800000) THEN CAST(least(e."ended", 253402300799000) * CAST(1000 AS
BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END < %(cutoff)s::BIGINT) THEN CASE WHEN (EXISTS (SELECT * FROM
"public"."waits" AS r WHERE r."task" = e."id" AND (CASE WHEN (r."until" IS NULL) THEN NULL WHEN (r."until" >=
946684800000) THEN CAST(least(r."until", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS
BIGINT) END > %(now)s::BIGINT OR CASE WHEN (r."until" IS NULL) THEN NULL WHEN (r."until" >= 946684800000) THEN
CAST(least(r."until", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END = -1)))
THEN 1 ELSE 0 END WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (e."ended" >= 946684800000) THEN
CAST(least(e."ended", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END IS NULL)
THEN 2 WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (e."ended" >= 946684800000) THEN
CAST(least(e."ended", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END = -1)
THEN 3 WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (e."ended" >= 946684800000) THEN
CAST(least(e."ended", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END >
%(latest)s::BIGINT) THEN 4 ELSE 5 END ELSE 6 END ELSE 7 END ELSE 8 END AS verdict, count(*) AS count_1 FROM
"public"."tasks" AS e WHERE CASE WHEN (e."ended" IS NOT NULL AND e."ended" < %(bound)s) THEN 0 ELSE 1 END = 1
GROUP BY 1;

-- tasks: all, where no page is read
SELECT CASE WHEN (e."run" IS NULL AND e."request" IS NULL) THEN CASE WHEN ((CAST(e."status" AS TEXT) COLLATE
"C") IN ('ok', 'failed')) THEN CASE WHEN ((CAST(e."status" AS TEXT) COLLATE "C") = 'ok') THEN CASE WHEN (CASE
WHEN (e."ended" IS NULL) THEN NULL WHEN (e."ended" >= 946684800000) THEN CAST(least(e."ended",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END > 0 AND CASE WHEN (e."ended" IS
NULL) THEN NULL WHEN (e."ended" >= 946684800000) THEN CAST(least(e."ended", 253402300799000) * CAST(1000 AS
BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END < %(cutoff)s::BIGINT) THEN CASE WHEN (EXISTS (SELECT * FROM
"public"."waits" AS r WHERE r."task" = e."id" AND (CASE WHEN (r."until" IS NULL) THEN NULL WHEN (r."until" >=
946684800000) THEN CAST(least(r."until", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS
BIGINT) END > %(now)s::BIGINT OR CASE WHEN (r."until" IS NULL) THEN NULL WHEN (r."until" >= 946684800000) THEN
CAST(least(r."until", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END = -1)))
THEN 1 ELSE 0 END WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (e."ended" >= 946684800000) THEN
CAST(least(e."ended", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END IS NULL)
THEN 2 WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (e."ended" >= 946684800000) THEN
CAST(least(e."ended", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END = -1)
THEN 3 WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (e."ended" >= 946684800000) THEN
CAST(least(e."ended", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END >
%(latest)s::BIGINT) THEN 4 ELSE 5 END ELSE 6 END ELSE 7 END ELSE 8 END AS verdict, count(*) AS count_1 FROM
"public"."tasks" AS e GROUP BY 1;

-- tasks: newest kept
SELECT ranked.key0, ranked.instant FROM (SELECT row_number() OVER (ORDER BY CASE WHEN (e."ended" IS NULL) THEN
NULL WHEN (e."ended" >= 946684800000) THEN CAST(least(e."ended", 253402300799000) * CAST(1000 AS BIGINT) AS
BIGINT) ELSE CAST(-1 AS BIGINT) END DESC, CAST(e."id" AS TEXT) COLLATE "C" DESC) AS position, e."id" AS key0,
CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (e."ended" >= 946684800000) THEN CAST(least(e."ended",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END AS instant FROM
"public"."tasks" AS e WHERE CASE WHEN (e."run" IS NULL AND e."request" IS NULL) THEN CASE WHEN
((CAST(e."status" AS TEXT) COLLATE "C") IN ('ok', 'failed')) THEN CASE WHEN ((CAST(e."status" AS TEXT) COLLATE
"C") = 'ok') THEN CASE WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (e."ended" >= 946684800000) THEN
CAST(least(e."ended", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END > 0 AND
CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (e."ended" >= 946684800000) THEN CAST(least(e."ended",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END <= %(latest)s::BIGINT) THEN 0
ELSE 1 END ELSE 6 END ELSE 7 END ELSE 8 END = 0) AS ranked WHERE ranked.position = %(count)s;

-- tasks: candidates
SELECT count(*) AS count_1 FROM (SELECT 1 FROM "public"."tasks" AS e WHERE e."ended" IS NOT NULL AND e."ended"
< %(bound)s LIMIT %(most)s) AS "some";

-- tasks: backlog
SELECT count(*) AS count_1 FROM "public"."tasks" AS e WHERE e."ended" IS NOT NULL AND e."ended" < %(bound)s;

-- tasks: backlog after a place
SELECT count(*) AS count_1 FROM "public"."tasks" AS e WHERE e."ended" IS NOT NULL AND e."ended" < %(bound)s
AND e."ended" >= %(place0)s;

-- tasks: check
SELECT e."id" AS key0, CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (e."ended" >= 946684800000) THEN
CAST(least(e."ended", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END AS
instant FROM "public"."tasks" AS e WHERE e."id" = any(CAST(%(keys)s AS TEXT[])) AND CASE WHEN (e."run" IS NULL
AND e."request" IS NULL) THEN CASE WHEN ((CAST(e."status" AS TEXT) COLLATE "C") IN ('ok', 'failed')) THEN CASE
WHEN ((CAST(e."status" AS TEXT) COLLATE "C") = 'ok') THEN CASE WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL
WHEN (e."ended" >= 946684800000) THEN CAST(least(e."ended", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT)
ELSE CAST(-1 AS BIGINT) END > 0 AND CASE WHEN (e."ended" IS NULL) THEN NULL WHEN (e."ended" >= 946684800000)
THEN CAST(least(e."ended", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END <
%(cutoff)s::BIGINT) THEN CASE WHEN (EXISTS (SELECT * FROM "public"."waits" AS r WHERE r."task" = e."id" AND
(CASE WHEN (r."until" IS NULL) THEN NULL WHEN (r."until" >= 946684800000) THEN CAST(least(r."until",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END > %(now)s::BIGINT OR CASE WHEN
(r."until" IS NULL) THEN NULL WHEN (r."until" >= 946684800000) THEN CAST(least(r."until", 253402300799000) *
CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END = -1))) THEN 1 ELSE 0 END WHEN (CASE WHEN
(e."ended" IS NULL) THEN NULL WHEN (e."ended" >= 946684800000) THEN CAST(least(e."ended", 253402300799000) *
CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END IS NULL) THEN 2 WHEN (CASE WHEN (e."ended" IS
NULL) THEN NULL WHEN (e."ended" >= 946684800000) THEN CAST(least(e."ended", 253402300799000) * CAST(1000 AS
BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END = -1) THEN 3 WHEN (CASE WHEN (e."ended" IS NULL) THEN NULL WHEN
(e."ended" >= 946684800000) THEN CAST(least(e."ended", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END > %(latest)s::BIGINT) THEN 4 ELSE 5 END ELSE 6 END ELSE 7 END ELSE 8 END = 0 ORDER BY
e."id" FOR UPDATE OF e SKIP LOCKED;

-- tasks: count task_states
SELECT count(*) AS count_1 FROM "public"."task_states" WHERE "public"."task_states"."task" = any(CAST(%(keys)s
AS TEXT[]));

-- tasks: measure 0
SELECT coalesce(sum(CAST(coalesce(pg_column_size("public"."tasks"."id"), %(coalesce_2)s::INTEGER) +
coalesce(pg_column_size("public"."tasks"."status"), %(coalesce_3)s::INTEGER) +
coalesce(pg_column_size("public"."tasks"."ended"), %(coalesce_4)s::INTEGER) +
coalesce(pg_column_size("public"."tasks"."run"), %(coalesce_5)s::INTEGER) +
coalesce(pg_column_size("public"."tasks"."request"), %(coalesce_6)s::INTEGER) AS BIGINT)),
%(coalesce_7)s::INTEGER) AS coalesce_1, count(*) AS count_1 FROM "public"."tasks" WHERE "public"."tasks"."id"
= any(CAST(%(keys)s AS TEXT[]));

-- tasks: measure 1
SELECT coalesce(sum(CAST(coalesce(pg_column_size("public"."task_states"."id"), %(coalesce_2)s::INTEGER) +
coalesce(pg_column_size("public"."task_states"."task"), %(coalesce_3)s::INTEGER) AS BIGINT)),
%(coalesce_4)s::INTEGER) AS coalesce_1, count(*) AS count_1 FROM "public"."task_states" WHERE
"public"."task_states"."task" = any(CAST(%(keys)s AS TEXT[]));

-- tasks: delete task_states
DELETE FROM "public"."task_states" WHERE "public"."task_states"."task" = any(CAST(%(keys)s AS TEXT[]));

-- tasks: delete tasks
DELETE FROM "public"."tasks" WHERE "public"."tasks"."id" = any(CAST(%(keys)s AS TEXT[])) AND CASE WHEN
("public"."tasks"."run" IS NULL AND "public"."tasks"."request" IS NULL) THEN CASE WHEN
((CAST("public"."tasks"."status" AS TEXT) COLLATE "C") IN ('ok', 'failed')) THEN CASE WHEN
((CAST("public"."tasks"."status" AS TEXT) COLLATE "C") = 'ok') THEN CASE WHEN (CASE WHEN
("public"."tasks"."ended" IS NULL) THEN NULL WHEN ("public"."tasks"."ended" >= 946684800000) THEN
CAST(least("public"."tasks"."ended", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS
BIGINT) END > 0 AND CASE WHEN ("public"."tasks"."ended" IS NULL) THEN NULL WHEN ("public"."tasks"."ended" >=
946684800000) THEN CAST(least("public"."tasks"."ended", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT)
ELSE CAST(-1 AS BIGINT) END < %(cutoff)s::BIGINT) THEN CASE WHEN (EXISTS (SELECT * FROM "public"."waits" AS r
WHERE r."task" = "public"."tasks"."id" AND (CASE WHEN (r."until" IS NULL) THEN NULL WHEN (r."until" >=
946684800000) THEN CAST(least(r."until", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS
BIGINT) END > %(now)s::BIGINT OR CASE WHEN (r."until" IS NULL) THEN NULL WHEN (r."until" >= 946684800000) THEN
CAST(least(r."until", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END = -1)))
THEN 1 ELSE 0 END WHEN (CASE WHEN ("public"."tasks"."ended" IS NULL) THEN NULL WHEN ("public"."tasks"."ended"
>= 946684800000) THEN CAST(least("public"."tasks"."ended", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT)
ELSE CAST(-1 AS BIGINT) END IS NULL) THEN 2 WHEN (CASE WHEN ("public"."tasks"."ended" IS NULL) THEN NULL WHEN
("public"."tasks"."ended" >= 946684800000) THEN CAST(least("public"."tasks"."ended", 253402300799000) *
CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END = -1) THEN 3 WHEN (CASE WHEN
("public"."tasks"."ended" IS NULL) THEN NULL WHEN ("public"."tasks"."ended" >= 946684800000) THEN
CAST(least("public"."tasks"."ended", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS
BIGINT) END > %(latest)s::BIGINT) THEN 4 ELSE 5 END ELSE 6 END ELSE 7 END ELSE 8 END = 0;

-- results: first page
SELECT e."id" AS key0, CASE WHEN (e."made" IS NULL) THEN NULL WHEN (e."made" >= 946684800000) THEN
CAST(least(e."made", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END AS
instant, CAST(e."name" AS TEXT) COLLATE "C" AS part0, CASE WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN
(e."made" >= 946684800000) THEN CAST(least(e."made", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END > 0 AND CASE WHEN (e."made" IS NULL) THEN NULL WHEN (e."made" >= 946684800000) THEN
CAST(least(e."made", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END <
%(cutoff)s::BIGINT) THEN CASE WHEN (EXISTS (SELECT * FROM "public"."heads" AS r WHERE r."result" = e."id"))
THEN 1 ELSE 0 END WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN (e."made" >= 946684800000) THEN
CAST(least(e."made", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END IS NULL)
THEN 2 WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN (e."made" >= 946684800000) THEN CAST(least(e."made",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END = -1) THEN 3 WHEN (CASE WHEN
(e."made" IS NULL) THEN NULL WHEN (e."made" >= 946684800000) THEN CAST(least(e."made", 253402300799000) *
CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END > %(latest)s::BIGINT) THEN 4 ELSE 5 END AS
verdict, e."id" AS place0 FROM "public"."results" AS e ORDER BY e."id" LIMIT %(most)s;

-- results: next page 0
SELECT e."id" AS key0, CASE WHEN (e."made" IS NULL) THEN NULL WHEN (e."made" >= 946684800000) THEN
CAST(least(e."made", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END AS
instant, CAST(e."name" AS TEXT) COLLATE "C" AS part0, CASE WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN
(e."made" >= 946684800000) THEN CAST(least(e."made", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END > 0 AND CASE WHEN (e."made" IS NULL) THEN NULL WHEN (e."made" >= 946684800000) THEN
CAST(least(e."made", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END <
%(cutoff)s::BIGINT) THEN CASE WHEN (EXISTS (SELECT * FROM "public"."heads" AS r WHERE r."result" = e."id"))
THEN 1 ELSE 0 END WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN (e."made" >= 946684800000) THEN
CAST(least(e."made", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END IS NULL)
THEN 2 WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN (e."made" >= 946684800000) THEN CAST(least(e."made",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END = -1) THEN 3 WHEN (CASE WHEN
(e."made" IS NULL) THEN NULL WHEN (e."made" >= 946684800000) THEN CAST(least(e."made", 253402300799000) *
CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END > %(latest)s::BIGINT) THEN 4 ELSE 5 END AS
verdict, e."id" AS place0 FROM "public"."results" AS e WHERE e."id" > %(place0)s ORDER BY e."id" LIMIT
%(most)s;

-- results: all, where no page is read
SELECT CASE WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN (e."made" >= 946684800000) THEN
CAST(least(e."made", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END > 0 AND
CASE WHEN (e."made" IS NULL) THEN NULL WHEN (e."made" >= 946684800000) THEN CAST(least(e."made",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END < %(cutoff)s::BIGINT) THEN CASE
WHEN (EXISTS (SELECT * FROM "public"."heads" AS r WHERE r."result" = e."id")) THEN 1 ELSE 0 END WHEN (CASE
WHEN (e."made" IS NULL) THEN NULL WHEN (e."made" >= 946684800000) THEN CAST(least(e."made", 253402300799000) *
CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END IS NULL) THEN 2 WHEN (CASE WHEN (e."made" IS NULL)
THEN NULL WHEN (e."made" >= 946684800000) THEN CAST(least(e."made", 253402300799000) * CAST(1000 AS BIGINT) AS
BIGINT) ELSE CAST(-1 AS BIGINT) END = -1) THEN 3 WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN (e."made"
>= 946684800000) THEN CAST(least(e."made", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS
BIGINT) END > %(latest)s::BIGINT) THEN 4 ELSE 5 END AS verdict, count(*) AS count_1 FROM "public"."results" AS
e GROUP BY 1;

-- results: newest kept
SELECT ranked.key0, ranked.instant, ranked.part0 FROM (SELECT row_number() OVER (PARTITION BY CAST(e."name" AS
TEXT) COLLATE "C" ORDER BY CASE WHEN (e."made" IS NULL) THEN NULL WHEN (e."made" >= 946684800000) THEN
CAST(least(e."made", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END DESC,
e."id" DESC) AS position, e."id" AS key0, CASE WHEN (e."made" IS NULL) THEN NULL WHEN (e."made" >=
946684800000) THEN CAST(least(e."made", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS
BIGINT) END AS instant, CAST(e."name" AS TEXT) COLLATE "C" AS part0 FROM "public"."results" AS e WHERE CASE
WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN (e."made" >= 946684800000) THEN CAST(least(e."made",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END > 0 AND CASE WHEN (e."made" IS
NULL) THEN NULL WHEN (e."made" >= 946684800000) THEN CAST(least(e."made", 253402300799000) * CAST(1000 AS
BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END <= %(latest)s::BIGINT) THEN 0 ELSE 1 END = 0) AS ranked WHERE
ranked.position = %(count)s;

-- results: candidates
SELECT count(*) AS count_1 FROM (SELECT 1 FROM "public"."results" AS e LIMIT %(most)s) AS "some";

-- results: backlog
SELECT count(*) AS count_1 FROM "public"."results" AS e WHERE CASE WHEN (CASE WHEN (e."made" IS NULL) THEN
NULL WHEN (e."made" >= 946684800000) THEN CAST(least(e."made", 253402300799000) * CAST(1000 AS BIGINT) AS
BIGINT) ELSE CAST(-1 AS BIGINT) END > 0 AND CASE WHEN (e."made" IS NULL) THEN NULL WHEN (e."made" >=
946684800000) THEN CAST(least(e."made", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS
BIGINT) END < %(cutoff)s::BIGINT) THEN 0 WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN (e."made" >=
946684800000) THEN CAST(least(e."made", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS
BIGINT) END IS NULL) THEN 2 WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN (e."made" >= 946684800000) THEN
CAST(least(e."made", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END = -1) THEN
3 WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN (e."made" >= 946684800000) THEN CAST(least(e."made",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END > %(latest)s::BIGINT) THEN 4
ELSE 5 END = 0;

-- results: backlog after a place
SELECT count(*) AS count_1 FROM "public"."results" AS e WHERE CASE WHEN (CASE WHEN (e."made" IS NULL) THEN
NULL WHEN (e."made" >= 946684800000) THEN CAST(least(e."made", 253402300799000) * CAST(1000 AS BIGINT) AS
BIGINT) ELSE CAST(-1 AS BIGINT) END > 0 AND CASE WHEN (e."made" IS NULL) THEN NULL WHEN (e."made" >=
946684800000) THEN CAST(least(e."made", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS
BIGINT) END < %(cutoff)s::BIGINT) THEN 0 WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN (e."made" >=
946684800000) THEN CAST(least(e."made", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS
BIGINT) END IS NULL) THEN 2 WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN (e."made" >= 946684800000) THEN
CAST(least(e."made", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END = -1) THEN
3 WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN (e."made" >= 946684800000) THEN CAST(least(e."made",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END > %(latest)s::BIGINT) THEN 4
ELSE 5 END = 0 AND e."id" > %(place0)s;

-- results: check
SELECT e."id" AS key0, CASE WHEN (e."made" IS NULL) THEN NULL WHEN (e."made" >= 946684800000) THEN
CAST(least(e."made", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END AS
instant, CAST(e."name" AS TEXT) COLLATE "C" AS part0 FROM "public"."results" AS e WHERE e."id" =
any(CAST((SELECT CASE WHEN (CAST(given.keys AS TEXT) ~ '^{(-?[0-9]{1,18}[,}])+$') THEN CAST(given.keys AS
BIGINT[]) ELSE array((SELECT CASE WHEN (anon_3.each ~ '^-?[0-9]{1,19}$') THEN CASE WHEN (CAST(anon_3.each AS
numeric) BETWEEN -9223372036854775808 AND 9223372036854775807) THEN CAST(anon_3.each AS BIGINT) END END AS
anon_2 FROM unnest(given.keys) AS anon_3(each))) END AS anon_1 FROM (SELECT CAST(%(keys)s AS TEXT[]) AS keys
LIMIT ALL OFFSET 0) AS given) AS BIGINT[])) AND CASE WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN
(e."made" >= 946684800000) THEN CAST(least(e."made", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END > 0 AND CASE WHEN (e."made" IS NULL) THEN NULL WHEN (e."made" >= 946684800000) THEN
CAST(least(e."made", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END <
%(cutoff)s::BIGINT) THEN CASE WHEN (EXISTS (SELECT * FROM "public"."heads" AS r WHERE r."result" = e."id"))
THEN 1 ELSE 0 END WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN (e."made" >= 946684800000) THEN
CAST(least(e."made", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END IS NULL)
THEN 2 WHEN (CASE WHEN (e."made" IS NULL) THEN NULL WHEN (e."made" >= 946684800000) THEN CAST(least(e."made",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END = -1) THEN 3 WHEN (CASE WHEN
(e."made" IS NULL) THEN NULL WHEN (e."made" >= 946684800000) THEN CAST(least(e."made", 253402300799000) *
CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END > %(latest)s::BIGINT) THEN 4 ELSE 5 END = 0 ORDER
BY e."id" FOR UPDATE OF e SKIP LOCKED;

-- results: measure 0
SELECT coalesce(sum(CAST(coalesce(pg_column_size("public"."results"."id"), %(coalesce_2)s::INTEGER) +
coalesce(pg_column_size("public"."results"."name"), %(coalesce_3)s::INTEGER) +
coalesce(pg_column_size("public"."results"."made"), %(coalesce_4)s::INTEGER) AS BIGINT)),
%(coalesce_5)s::INTEGER) AS coalesce_1, count(*) AS count_1 FROM "public"."results" WHERE
"public"."results"."id" = any(CAST((SELECT CASE WHEN (CAST(given.keys AS TEXT) ~ '^{(-?[0-9]{1,18}[,}])+$')
THEN CAST(given.keys AS BIGINT[]) ELSE array((SELECT CASE WHEN (anon_3.each ~ '^-?[0-9]{1,19}$') THEN CASE
WHEN (CAST(anon_3.each AS numeric) BETWEEN -9223372036854775808 AND 9223372036854775807) THEN CAST(anon_3.each
AS BIGINT) END END AS anon_2 FROM unnest(given.keys) AS anon_3(each))) END AS anon_1 FROM (SELECT
CAST(%(keys)s AS TEXT[]) AS keys LIMIT ALL OFFSET 0) AS given) AS BIGINT[]));

-- results: delete results
DELETE FROM "public"."results" WHERE "public"."results"."id" = any(CAST((SELECT CASE WHEN (CAST(given.keys AS
TEXT) ~ '^{(-?[0-9]{1,18}[,}])+$') THEN CAST(given.keys AS BIGINT[]) ELSE array((SELECT CASE WHEN (anon_3.each
~ '^-?[0-9]{1,19}$') THEN CASE WHEN (CAST(anon_3.each AS numeric) BETWEEN -9223372036854775808 AND
9223372036854775807) THEN CAST(anon_3.each AS BIGINT) END END AS anon_2 FROM unnest(given.keys) AS
anon_3(each))) END AS anon_1 FROM (SELECT CAST(%(keys)s AS TEXT[]) AS keys LIMIT ALL OFFSET 0) AS given) AS
BIGINT[])) AND CASE WHEN (CASE WHEN ("public"."results"."made" IS NULL) THEN NULL WHEN
("public"."results"."made" >= 946684800000) THEN CAST(least("public"."results"."made", 253402300799000) *
CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END > 0 AND CASE WHEN ("public"."results"."made" IS
NULL) THEN NULL WHEN ("public"."results"."made" >= 946684800000) THEN CAST(least("public"."results"."made",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END < %(cutoff)s::BIGINT) THEN CASE
WHEN (EXISTS (SELECT * FROM "public"."heads" AS r WHERE r."result" = "public"."results"."id")) THEN 1 ELSE 0
END WHEN (CASE WHEN ("public"."results"."made" IS NULL) THEN NULL WHEN ("public"."results"."made" >=
946684800000) THEN CAST(least("public"."results"."made", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT)
ELSE CAST(-1 AS BIGINT) END IS NULL) THEN 2 WHEN (CASE WHEN ("public"."results"."made" IS NULL) THEN NULL WHEN
("public"."results"."made" >= 946684800000) THEN CAST(least("public"."results"."made", 253402300799000) *
CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END = -1) THEN 3 WHEN (CASE WHEN
("public"."results"."made" IS NULL) THEN NULL WHEN ("public"."results"."made" >= 946684800000) THEN
CAST(least("public"."results"."made", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS
BIGINT) END > %(latest)s::BIGINT) THEN 4 ELSE 5 END = 0;

-- marks: first page
SELECT e."run" AS key0, e."number" AS key1, CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000)
THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END AS
instant, CASE WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN CAST(least(e."at",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END > 0 AND CASE WHEN (e."at" IS
NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT)
AS BIGINT) ELSE CAST(-1 AS BIGINT) END < %(cutoff)s::BIGINT) THEN 0 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL
WHEN (e."at" >= 946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END IS NULL) THEN 1 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >=
946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS
BIGINT) END = -1) THEN 2 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN
CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END >
%(latest)s::BIGINT) THEN 3 ELSE 4 END AS verdict, e."at" AS place0, e."run" AS place1, e."number" AS place2
FROM "public"."marks" AS e WHERE e."at" IS NOT NULL AND e."at" < %(bound)s ORDER BY e."at", e."run",
e."number" LIMIT %(most)s;

-- marks: next page 0
SELECT e."run" AS key0, e."number" AS key1, CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000)
THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END AS
instant, CASE WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN CAST(least(e."at",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END > 0 AND CASE WHEN (e."at" IS
NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT)
AS BIGINT) ELSE CAST(-1 AS BIGINT) END < %(cutoff)s::BIGINT) THEN 0 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL
WHEN (e."at" >= 946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END IS NULL) THEN 1 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >=
946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS
BIGINT) END = -1) THEN 2 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN
CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END >
%(latest)s::BIGINT) THEN 3 ELSE 4 END AS verdict, e."at" AS place0, e."run" AS place1, e."number" AS place2
FROM "public"."marks" AS e WHERE e."at" IS NOT NULL AND e."at" < %(bound)s AND e."at" = %(place0)s AND
(e."run", e."number") > (%(place1)s, %(place2)s) ORDER BY e."run", e."number" LIMIT %(most)s;

-- marks: next page 1
SELECT e."run" AS key0, e."number" AS key1, CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000)
THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END AS
instant, CASE WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN CAST(least(e."at",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END > 0 AND CASE WHEN (e."at" IS
NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT)
AS BIGINT) ELSE CAST(-1 AS BIGINT) END < %(cutoff)s::BIGINT) THEN 0 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL
WHEN (e."at" >= 946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END IS NULL) THEN 1 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >=
946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS
BIGINT) END = -1) THEN 2 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN
CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END >
%(latest)s::BIGINT) THEN 3 ELSE 4 END AS verdict, e."at" AS place0, e."run" AS place1, e."number" AS place2
FROM "public"."marks" AS e WHERE e."at" IS NOT NULL AND e."at" < %(bound)s AND e."at" > %(place0)s ORDER BY
e."at", e."run", e."number" LIMIT %(most)s;

-- marks: beyond pages
SELECT CASE WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN CAST(least(e."at",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END > 0 AND CASE WHEN (e."at" IS
NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT)
AS BIGINT) ELSE CAST(-1 AS BIGINT) END < %(cutoff)s::BIGINT) THEN 0 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL
WHEN (e."at" >= 946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END IS NULL) THEN 1 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >=
946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS
BIGINT) END = -1) THEN 2 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN
CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END >
%(latest)s::BIGINT) THEN 3 ELSE 4 END AS verdict, count(*) AS count_1 FROM "public"."marks" AS e WHERE CASE
WHEN (e."at" IS NOT NULL AND e."at" < %(bound)s) THEN 0 ELSE 1 END = 1 GROUP BY 1;

-- marks: all, where no page is read
SELECT CASE WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN CAST(least(e."at",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END > 0 AND CASE WHEN (e."at" IS
NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT)
AS BIGINT) ELSE CAST(-1 AS BIGINT) END < %(cutoff)s::BIGINT) THEN 0 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL
WHEN (e."at" >= 946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END IS NULL) THEN 1 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >=
946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS
BIGINT) END = -1) THEN 2 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN
CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END >
%(latest)s::BIGINT) THEN 3 ELSE 4 END AS verdict, count(*) AS count_1 FROM "public"."marks" AS e GROUP BY 1;

-- marks: newest kept
SELECT ranked.key0, ranked.key1, ranked.instant FROM (SELECT row_number() OVER (ORDER BY CASE WHEN (e."at" IS
NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT)
AS BIGINT) ELSE CAST(-1 AS BIGINT) END DESC, CAST(e."run" AS TEXT) COLLATE "C" DESC, e."number" DESC) AS
position, e."run" AS key0, e."number" AS key1, CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >=
946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS
BIGINT) END AS instant FROM "public"."marks" AS e WHERE CASE WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN
(e."at" >= 946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END > 0 AND CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN
CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END <=
%(latest)s::BIGINT) THEN 0 ELSE 1 END = 0) AS ranked WHERE ranked.position = %(count)s;

-- marks: candidates
SELECT count(*) AS count_1 FROM (SELECT 1 FROM "public"."marks" AS e WHERE e."at" IS NOT NULL AND e."at" <
%(bound)s LIMIT %(most)s) AS "some";

-- marks: backlog
SELECT count(*) AS count_1 FROM "public"."marks" AS e WHERE e."at" IS NOT NULL AND e."at" < %(bound)s;

-- marks: backlog after a place
SELECT count(*) AS count_1 FROM "public"."marks" AS e WHERE e."at" IS NOT NULL AND e."at" < %(bound)s AND
e."at" >= %(place0)s;

-- marks: check
SELECT e."run" AS key0, e."number" AS key1, CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000)
THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END AS
instant FROM "public"."marks" AS e WHERE (e."run", e."number") IN (SELECT CAST(anon_2.each ->> 0 AS text) AS
anon_1, CAST(anon_2.each ->> 1 AS bigint) AS anon_3 FROM jsonb_array_elements(CAST(%(keys)s AS JSONB)) AS
anon_2(each)) AND CASE WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN
CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END > 0 AND CASE
WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN CAST(least(e."at", 253402300799000) *
CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END < %(cutoff)s::BIGINT) THEN 0 WHEN (CASE WHEN
(e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000
AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END IS NULL) THEN 1 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL
WHEN (e."at" >= 946684800000) THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE
CAST(-1 AS BIGINT) END = -1) THEN 2 WHEN (CASE WHEN (e."at" IS NULL) THEN NULL WHEN (e."at" >= 946684800000)
THEN CAST(least(e."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END >
%(latest)s::BIGINT) THEN 3 ELSE 4 END = 0 ORDER BY e."run", e."number" FOR UPDATE OF e SKIP LOCKED;

-- marks: measure 0
SELECT coalesce(sum(CAST(coalesce(pg_column_size("public"."marks"."run"), %(coalesce_2)s::INTEGER) +
coalesce(pg_column_size("public"."marks"."number"), %(coalesce_3)s::INTEGER) +
coalesce(pg_column_size("public"."marks"."at"), %(coalesce_4)s::INTEGER) AS BIGINT)), %(coalesce_5)s::INTEGER)
AS coalesce_1, count(*) AS count_1 FROM "public"."marks" WHERE ("public"."marks"."run",
"public"."marks"."number") IN (SELECT CAST(anon_2.each ->> 0 AS text) AS anon_1, CAST(anon_2.each ->> 1 AS
bigint) AS anon_3 FROM jsonb_array_elements(CAST(%(keys)s AS JSONB)) AS anon_2(each));

-- marks: delete marks
DELETE FROM "public"."marks" WHERE ("public"."marks"."run", "public"."marks"."number") IN (SELECT
CAST(anon_2.each ->> 0 AS text) AS anon_1, CAST(anon_2.each ->> 1 AS bigint) AS anon_3 FROM
jsonb_array_elements(CAST(%(keys)s AS JSONB)) AS anon_2(each)) AND CASE WHEN (CASE WHEN ("public"."marks"."at"
IS NULL) THEN NULL WHEN ("public"."marks"."at" >= 946684800000) THEN CAST(least("public"."marks"."at",
253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END > 0 AND CASE WHEN
("public"."marks"."at" IS NULL) THEN NULL WHEN ("public"."marks"."at" >= 946684800000) THEN
CAST(least("public"."marks"."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT)
END < %(cutoff)s::BIGINT) THEN 0 WHEN (CASE WHEN ("public"."marks"."at" IS NULL) THEN NULL WHEN
("public"."marks"."at" >= 946684800000) THEN CAST(least("public"."marks"."at", 253402300799000) * CAST(1000 AS
BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END IS NULL) THEN 1 WHEN (CASE WHEN ("public"."marks"."at" IS NULL)
THEN NULL WHEN ("public"."marks"."at" >= 946684800000) THEN CAST(least("public"."marks"."at", 253402300799000)
* CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT) END = -1) THEN 2 WHEN (CASE WHEN
("public"."marks"."at" IS NULL) THEN NULL WHEN ("public"."marks"."at" >= 946684800000) THEN
CAST(least("public"."marks"."at", 253402300799000) * CAST(1000 AS BIGINT) AS BIGINT) ELSE CAST(-1 AS BIGINT)
END > %(latest)s::BIGINT) THEN 3 ELSE 4 END = 0;
