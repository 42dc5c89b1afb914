/*
 * The statements and the schema, as constants. They must stay within what SQLite and PostgreSQL
 * both understand: no dialect functions outside VERIFY, REBUILD and the views, upserts by ON
 * CONFLICT, LIKE for lists.
 *
 * A list parameter is text, ",a,b,": `list like '%,' || x || ',%'` asks whether x is in it (x is a
 * number or a UUID, so it holds no wildcard). A session's free state (J2) is the same three lines
 * wherever it is asked.
 */
#include "store/sql.h"

#define SESSION_COLUMNS                                                                            \
    "s.id, s.uid, s.principal, s.name, s.agent, s.generation, s.epoch, s.owner, s.turn, "          \
    "s.status, s.reason, s.base_seq, "                                                             \
    "(select max(j.seq) from pawl_journal j where j.session = s.id), "                             \
    "s.wake_at, s.admitted, s.crashes, s.quarantined, s.created_at, s.since_at"

/* Is this name among those of the list, each between two newlines (which no name holds)? The empty
 * list is of any. */
#define OF_AGENTS(name, list)                                                                      \
    "(" list " = '' or replace(" list ", '\n' || " name " || '\n', '') <> " list ") "

#define MESSAGE_COLUMNS                                                                            \
    "s.id, s.agent, i.n, i.request_id, i.digest, i.body, i.at, i.disposition, i.turn, "            \
    "t.ended_seq, case when i.disposition = 0 then (select count(*) from pawl_inbox p "            \
    "where p.session = i.session and p.kind = 0 and p.disposition = 0 and p.n <= i.n) else 0 end "

/* The owner of s is another process, and its row does not say that it lives: `list` holds the dead
 * as "id:beat". */
#define OWNER_ALIVE(list)                                                                          \
    "exists (select 1 from pawl_owners o where o.id = s.owner "                                    \
    "and not (" list " like '%,' || o.id || ':' || o.beat || ',%'))"

/* A7: admission only lowers it. */
#define WAKE_LOWERED(at)                                                                           \
    "case when " at " is null then wake_at when wake_at is null or wake_at > " at " then " at      \
    " else wake_at end"
/* The owner's word: taken as it is only when it has looked at every admitted row. */
#define WAKE_SET(at, looked)                                                                       \
    "case when admitted > " looked " then " WAKE_LOWERED(at) " else " at " end"

#define APPEND_INTO                                                                                \
    "insert into pawl_journal(session, seq, epoch, at, kind, turn, step, body) "                   \
    "select ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8 where "
/* A statement that inserts into a table it also reads from has its rows copied aside by SQLite,
 * which doubles what an append costs: so the plain one asks nothing of pawl_journal. */
#define APPEND_EPOCH                                                                               \
    "exists (select 1 from pawl_sessions where id = ?1 and epoch = ?3 and owner <> '') "
#define APPEND_GUARD                                                                               \
    APPEND_EPOCH                                                                                   \
    "and (?2 = 1 or exists (select 1 from pawl_journal where session = ?1 and seq = ?2 - 1)) "
/* All named rows are still waiting. */
#define APPEND_NAMED                                                                               \
    "and (select count(*) from pawl_inbox where session = ?1 "                                     \
    "and n between ?10 and ?11 and disposition = 0 and ?9 like '%,' || n || ',%') = ?12 "
/* The append's first row is there: ?1 session, ?2 first seq, ?3 epoch. */
#define APPEND_DONE                                                                                \
    "exists (select 1 from pawl_journal where session = ?1 and seq = ?2 and epoch = ?3)"

/* A row that breaks it ends its statement there and is not undone alone: whatever fails, the whole
 * transaction goes. A statement that might have to undo itself alone first copies every page it
 * touches aside (SQLite's statement journal), which makes an append's insert three times as dear.
 */
#define NOT_NULL "not null on conflict fail"

const char *const pw_sql_text[PW_SQL_COUNT] = {
    [PW_SQL_ADMIT_SESSION] =
        /* asks first: SQLite writes a page (and syncs) for an id that a conflict then drops */
    "insert into pawl_sessions(uid, principal, name, agent, created_at, since_at) "
    "select ?1, ?2, ?3, ?4, ?5, ?5 where not exists (select 1 from pawl_sessions "
    "where principal = ?2 and name = ?3) on conflict do nothing",
    [PW_SQL_ADMIT_INSERT] =
        "insert into pawl_inbox(session, n, kind, request_id, digest, body, at, due_at) "
        "select s.id, s.admitted + 1, 0, ?3, ?4, ?5, ?6, ?7 from pawl_sessions s "
        "where s.principal = ?1 and s.name = ?2 and (?8 = 0 or s.agent = ?9) "
        "and (?10 = 0 or (s.turn = '' and not exists (select 1 from pawl_inbox p "
        "where p.session = s.id and p.kind = 0 and p.disposition = 0))) on conflict do nothing",
    [PW_SQL_ADMIT_COUNT] =
        "update pawl_sessions set admitted = admitted + 1, wake_at = " WAKE_LOWERED(
            "?3") " "
                  "where principal = ?1 and name = ?2 and exists (select 1 from pawl_inbox i "
                  "where i.session = pawl_sessions.id and i.n = pawl_sessions.admitted + 1)",
    [PW_SQL_ADMIT_RESULT] = "select " MESSAGE_COLUMNS "from pawl_sessions s left join pawl_inbox i "
                            "on i.session = s.id and i.kind = 0 and i.request_id = ?3 "
                            "left join pawl_turns t on t.session = i.session and t.turn = i.turn "
                            "where s.principal = ?1 and s.name = ?2",
    [PW_SQL_WITHDRAW] =
        "update pawl_inbox set disposition = 4 where session = (select id from pawl_sessions "
        "where principal = ?1 and name = ?2) and kind = 0 and request_id = ?3 and disposition = 0",
    [PW_SQL_WITHDRAW_RESULT] =
        "select i.disposition, i.turn, t.ended_seq from pawl_sessions s join pawl_inbox i "
        "on i.session = s.id and i.kind = 0 and i.request_id = ?3 "
        "left join pawl_turns t on t.session = i.session and t.turn = i.turn "
        "where s.principal = ?1 and s.name = ?2",
    [PW_SQL_CANCEL_INSERT] =
        "insert into pawl_inbox(session, n, kind, request_id, digest, body, at, due_at) "
        "select s.id, s.admitted + 1, 1, ?3, '', ?4, ?5, ?5 from pawl_sessions s "
        "join pawl_turns t on t.session = s.id and t.turn = ?3 "
        "where s.principal = ?1 and s.name = ?2 and t.ended_seq is null "
        "on conflict(session, kind, request_id) do update set n = excluded.n, "
        "body = excluded.body, at = excluded.at, due_at = excluded.due_at, disposition = 0 "
        "where pawl_inbox.disposition <> 0",
    [PW_SQL_CANCEL_RESULT] =
        "select s.id, t.ended_seq, t.state from pawl_sessions s left join pawl_turns t "
        "on t.session = s.id and t.turn = ?3 where s.principal = ?1 and s.name = ?2",
    [PW_SQL_JOIN] = "insert into pawl_owners(id, beat, address, at) values(?1, 1, ?2, ?3) on "
                    "conflict do nothing",
    [PW_SQL_BEAT] = "update pawl_owners set beat = beat + 1, at = ?2 where id = ?1",
    [PW_SQL_LEAVE] = "delete from pawl_owners where id = ?1",
    [PW_SQL_OWNERS_IDLE] =
        "select id from pawl_owners where id <> ?1 and not exists (select 1 from pawl_sessions s "
        "where s.owner <> '' and s.owner = pawl_owners.id)",
    [PW_SQL_TAKE_BEFORE] = "select " SESSION_COLUMNS ", case when " OWNER_ALIVE(
        "?2") " then 1 else 0 end, "
              "case when exists (select 1 from pawl_owners where id = ?3) then 1 else 0 end "
              "from pawl_sessions s where s.id = ?1",
    /* ?1 session ?2 dead ?3 me ?4 take_over ?5 reload ?6 only_due ?7 max_attempts ?8
       refuse_suspect_from ?9 now */
    [PW_SQL_TAKE_UPDATE] =
        "with b as (select s.id, s.owner = '' as nobody, s.owner = ?3 as mine, "
        "s.owner <> '' and s.owner <> ?3 and not " OWNER_ALIVE(
            "?2") " as dead "
                  "from pawl_sessions s where s.id = ?1), "
                  "d as (select b.id, b.nobody, b.dead, ?5 = 1 and (b.nobody or b.mine) as again, "
                  "b.dead and s.turn <> '' and s.status <> 'suspended' and ?4 = 0 as hit "
                  "from b join pawl_sessions s on s.id = b.id) "
                  "update pawl_sessions set epoch = epoch + 1, "
                  "owner = case when d.hit and crashes + 1 > ?7 then '' else ?3 end, "
                  "since_at = case when d.hit and crashes + 1 > ?7 then ?9 else since_at end, "
                  "crashes = case when d.hit and crashes + 1 <= ?7 then crashes + 1 "
                  "when quarantined = 1 then 0 else crashes end, "
                  "quarantined = case when d.hit and crashes + 1 > ?7 then 1 else 0 end "
                  "from d where pawl_sessions.id = d.id and (quarantined = 0 or ?4 = 1) "
                  "and (?4 = 1 or d.nobody or d.dead or d.again) "
                  "and (?6 = 0 or d.again or wake_at <= ?9) "
                  "and not (d.hit and crashes + 1 <= ?7 and ?8 >= 0 and crashes + 1 >= ?8) "
                  "and exists (select 1 from pawl_owners where id = ?3)",
    [PW_SQL_TAKE_AFTER] = "select " SESSION_COLUMNS " from pawl_sessions s where s.id = ?1",
    [PW_SQL_BURY] = "delete from pawl_owners where ?1 like '%,' || id || ':' || beat || ',%' "
                    "and not exists (select 1 from pawl_sessions s where s.owner <> '' and s.owner "
                    "= pawl_owners.id)",
    [PW_SQL_RELEASE] = "update pawl_sessions set owner = '', wake_at = " WAKE_SET(
        "?3", "?4") " "
                    "where id = ?1 and epoch = ?2 and owner <> ''",
    [PW_SQL_APPEND_FIRST] = APPEND_INTO APPEND_GUARD "on conflict do nothing",
    [PW_SQL_APPEND_FIRST_FOLLOWS] = APPEND_INTO APPEND_EPOCH "on conflict do nothing",
    /* ?9 named rows as a list, ?10 lowest, ?11 highest, ?12 how many */
    [PW_SQL_APPEND_FIRST_CONSUMES] = APPEND_INTO APPEND_GUARD APPEND_NAMED "on conflict do nothing",
    [PW_SQL_APPEND_FIRST_CONSUMES_FOLLOWS] =
        APPEND_INTO APPEND_EPOCH APPEND_NAMED "on conflict do nothing",
    [PW_SQL_APPEND_MORE] = APPEND_INTO APPEND_EPOCH "on conflict do nothing",
    [PW_SQL_APPEND_MORE_BLIND] =
        APPEND_INTO "exists (select 1 from pawl_journal where session = ?1 and seq = ?9 "
                    "and epoch = ?3) on conflict do nothing",
    [PW_SQL_APPEND_CONSUME] =
        "update pawl_inbox set disposition = ?7, turn = ?8, "
        "body = case when ?7 = 1 then '' else body end where session = ?1 "
        "and n between ?5 and ?6 and disposition = 0 and ?4 like '%,' || n || ',%' "
        "and " APPEND_DONE,
    [PW_SQL_APPEND_CANCELS] =
        "update pawl_inbox set disposition = 5 where session = ?1 and kind = 1 "
        "and request_id = ?4 and disposition = 0 and " APPEND_DONE,
    [PW_SQL_APPEND_TURN_OPENED] =
        "insert into pawl_turns(session, turn, opened_seq, ended_seq, state) "
        "select ?1, ?4, ?5, ?6, ?7 where " APPEND_DONE " on conflict do nothing",
    [PW_SQL_APPEND_TURN] = "update pawl_turns set ended_seq = coalesce(?5, ended_seq), state = ?6 "
                           "where session = ?1 and turn = ?4 and " APPEND_DONE,
    [PW_SQL_APPEND_BLOB] = "insert into pawl_blobs(hash, size, bytes) select ?4, ?5, ?6 "
                           "where " APPEND_DONE " on conflict do nothing",
    /* ?4 turn ?5 status ?6 reason ?7 base_seq ?8 wake_at ?9 looked_n ?10 release ?11 receipt ?12 at
     */
    [PW_SQL_APPEND_HEAD] =
        "update pawl_sessions set turn = ?4, status = ?5, reason = ?6, "
        "base_seq = case when ?7 < 0 then base_seq else ?7 end, "
        "wake_at = " WAKE_SET("?8", "?9") ", owner = case when ?10 = 1 then '' else owner end, "
                                          "crashes = case when ?11 = 1 then 0 else crashes end, "
                                          "since_at = case when turn = ?4 and status = ?5 and "
                                          "reason = ?6 then since_at else ?12 end "
                                          "where id = ?1 and epoch = ?3 and " APPEND_DONE,
    [PW_SQL_APPEND_RECEIPT] =
        "update pawl_sessions set crashes = 0 where id = ?1 and epoch = ?3 and crashes <> 0 "
        "and " APPEND_DONE,
    [PW_SQL_APPEND_WHY] =
        "select s.epoch, s.owner, (select max(j.seq) from pawl_journal j where j.session = s.id), "
        "(select count(*) from pawl_inbox where session = s.id and n between ?3 and ?4 "
        "and disposition = 0 and ?2 like '%,' || n || ',%'), (select j.epoch from pawl_journal j "
        "where j.session = s.id and j.seq = ?5) from pawl_sessions s where s.id = ?1",
    [PW_SQL_OWNERS] = "select id, beat, address, at from pawl_owners order by at, id",
    [PW_SQL_DUE] =
        "select " SESSION_COLUMNS " from pawl_sessions s where s.wake_at <= ?1 "
        "and s.quarantined = 0 and s.owner <> ?2 and (s.owner = '' or not " OWNER_ALIVE(
            "?3") ") and " OF_AGENTS("s.agent", "?5") "order by s.wake_at, s.id limit ?4",
    [PW_SQL_DUE_ONE] =
        "select " SESSION_COLUMNS " from pawl_sessions s where s.id = ?4 and s.wake_at <= ?1 "
        "and s.quarantined = 0 and s.owner <> ?2 and (s.owner = '' or not " OWNER_ALIVE("?3") ")",
    [PW_SQL_DUE_NEXT] = "select wake_at from pawl_sessions where wake_at > ?1 and quarantined = 0 "
                        "and owner <> ?2 and " OF_AGENTS("agent", "?3") "order by wake_at limit 1",
    [PW_SQL_DUE_NEXT_ONE] =
        "select wake_at from pawl_sessions where id = ?3 and wake_at > ?1 and quarantined = 0 "
        "and owner <> ?2",
    [PW_SQL_SESSION_BY_ID] = "select " SESSION_COLUMNS " from pawl_sessions s where s.id = ?1",
    [PW_SQL_SESSION_BY_NAME] =
        "select " SESSION_COLUMNS " from pawl_sessions s where s.principal = ?1 and s.name = ?2",
    [PW_SQL_SESSION_EXISTS] = "select id from pawl_sessions where id = ?1",
    [PW_SQL_SESSIONS] =
        "select " SESSION_COLUMNS " from pawl_sessions s where s.principal = ?1 and s.name > ?2 "
        "and (?3 = '' or s.agent = ?3) and (?4 = '' or ?4 = case when s.quarantined = 1 "
        "then 'quarantined' when s.turn <> '' then s.status when exists (select 1 "
        "from pawl_inbox p where p.session = s.id and p.kind = 0 and p.disposition = 0) "
        "then 'queued' else 'idle' end) order by s.name limit ?5",
    [PW_SQL_RECORDS] =
        "select seq, at, kind, turn, step, body from pawl_journal where session = ?1 "
        "and seq between ?2 and ?3 and (?4 = '' or turn = ?4) order by seq limit ?5",
    [PW_SQL_INBOX_LOOKED] = "select admitted from pawl_sessions where id = ?1",
    [PW_SQL_INBOX_CANCELS] = "select n, kind, request_id, body, at, disposition from pawl_inbox "
                             "where session = ?1 and kind = 1 and disposition = 0 order by n",
    [PW_SQL_INBOX_MESSAGES] =
        "select n, kind, request_id, body, at, disposition from pawl_inbox "
        "where session = ?1 and kind = 0 and disposition = 0 order by n limit ?2",
    [PW_SQL_MESSAGE] =
        "select " MESSAGE_COLUMNS "from pawl_sessions s join pawl_inbox i "
        "on i.session = s.id and i.kind = 0 and i.request_id = ?2 "
        "left join pawl_turns t on t.session = i.session and t.turn = i.turn where s.id = ?1",
    [PW_SQL_TURN] = "select turn, opened_seq, ended_seq, state from pawl_turns where session = ?1 "
                    "and turn = ?2",
    [PW_SQL_TURNS] = "select turn, opened_seq, ended_seq, state from pawl_turns where session = ?1 "
                     "and opened_seq > ?2 order by opened_seq limit ?3",
    [PW_SQL_BLOB] = "select bytes from pawl_blobs where hash = ?1",
    [PW_SQL_REBUILD_CLEAR] = "delete from pawl_turns",
    [PW_SQL_REBUILD_TURNS] =
        "insert into pawl_turns(session, turn, opened_seq, ended_seq, state) "
        "select o.session, o.turn, o.seq, e.seq, coalesce(e.state, "
        "case when s.turn = o.turn then s.status else 'running' end) "
        "from pawl_journal o join pawl_sessions s on s.id = o.session "
        "left join (select session, turn, max(seq) as seq, "
        "case when json_valid(body) then json_extract(body, '$.state') end as state "
        "from pawl_journal where kind = 'turn.ended' group by session, turn) e "
        "on e.session = o.session and e.turn = o.turn where o.kind = 'turn.opened' "
        "on conflict do nothing",

    /* VERIFY: each row is one fault, as text. */
    [PW_SQL_VERIFY_ORDER] =
        "select 'session ' || session || ': record ' || seq || ' follows ' || coalesce(last, 0) "
        "from (select session, seq, lag(seq) over (partition by session order by pos) as last "
        "from pawl_journal) where seq <> coalesce(last, 0) + 1 limit 100",
    [PW_SQL_VERIFY_EPOCH] =
        "select 'session ' || j.session || ': record ' || j.seq || ' has epoch ' || j.epoch || "
        "' after ' || coalesce(j.last, 0) || ', the row ' || coalesce(s.epoch, 'is gone') "
        "from (select session, seq, epoch, lag(epoch) over (partition by session order by pos) "
        "as last from pawl_journal) j left join pawl_sessions s on s.id = j.session "
        "where j.epoch < coalesce(j.last, 0) or s.epoch is null or j.epoch > s.epoch limit 100",
    [PW_SQL_VERIFY_BODY] =
        "select 'session ' || session || ': the body of record ' || seq || ' is not JSON' "
        "from pawl_journal where not json_valid(body) limit 100",
    [PW_SQL_VERIFY_TURN_ROWS] =
        "select 'session ' || t.session || ': turn ' || t.turn || ' disagrees with its records' "
        "from pawl_turns t left join pawl_journal o on o.session = t.session "
        "and o.seq = t.opened_seq left join pawl_journal e on e.session = t.session "
        "and e.seq = t.ended_seq where o.kind is not 'turn.opened' or o.turn <> t.turn "
        "or (t.ended_seq is not null and (e.kind is not 'turn.ended' or e.turn <> t.turn)) "
        "or (t.ended_seq is null) <> (t.state in ('running', 'waiting', 'suspended')) limit 100",
    [PW_SQL_VERIFY_TURN_RECORDS] =
        "select 'session ' || j.session || ': record ' || j.seq || ' (' || j.kind || "
        "') is missing from pawl_turns' from pawl_journal j left join pawl_turns t "
        "on t.session = j.session and t.turn = j.turn where j.kind in ('turn.opened', "
        "'turn.ended') and j.seq is not case j.kind when 'turn.opened' then t.opened_seq "
        "else t.ended_seq end limit 100",
    [PW_SQL_VERIFY_OPEN] =
        "select 'session ' || s.id || ': its open turn is not open in pawl_turns' "
        "from pawl_sessions s left join pawl_turns t on t.session = s.id and t.turn = s.turn "
        "where s.turn <> '' and (t.turn is null or t.ended_seq is not null) limit 100",
    [PW_SQL_VERIFY_CLAIMED] =
        "select 'session ' || i.session || ': message ' || i.n || ' is claimed by no turn' "
        "from pawl_inbox i left join pawl_turns t on t.session = i.session and t.turn = i.turn "
        "where i.disposition = 1 and t.turn is null limit 100",
    [PW_SQL_VERIFY_REQUESTS] =
        "select 'session ' || j.session || ': turn ' || j.turn || ' names message ' || "
        "coalesce(r.value ->> '$.n', '?') || ' which it has not claimed' "
        "from pawl_journal j, json_each(j.body, '$.requests') r left join pawl_inbox i "
        "on i.session = j.session and i.kind = 0 and i.request_id = r.value ->> '$.id' "
        "where j.kind = 'turn.opened' and json_valid(j.body) "
        "and (i.disposition is not 1 or i.turn <> j.turn) limit 100",
    [PW_SQL_VERIFY_DEFINITIONS] =
        "select 'session ' || session || ': the definition of turn ' || turn || ' is not kept' "
        "from pawl_journal where kind = 'turn.opened' and json_valid(body) "
        "and body ->> '$.definition' is not null "
        "and body ->> '$.definition' not in (select hash from pawl_blobs) limit 100",
    [PW_SQL_VERIFY_BLOBS] = "select hash, size, bytes from pawl_blobs",
    [PW_SQL_VERIFY_ADMITTED] =
        "select 'session ' || s.id || ': ' || s.admitted || ' admitted, but the last row is ' || "
        "coalesce(max(i.n), 0) from pawl_sessions s left join pawl_inbox i on i.session = s.id "
        "group by s.id having s.admitted < coalesce(max(i.n), 0) limit 100",
};

const char *const pw_sql_schema[] = {
    "create table pawl_meta(key text primary key, value text " NOT_NULL ") without rowid",
    "insert into pawl_meta(key, value) values('schema', '1')",
    "create table pawl_sessions(id integer primary key autoincrement, uid text " NOT_NULL
    " unique, "
    "principal text " NOT_NULL ", name text " NOT_NULL ", agent text " NOT_NULL ", "
    "generation integer " NOT_NULL " default 0, epoch integer " NOT_NULL " default 0, "
    "owner text " NOT_NULL " default '', status text " NOT_NULL " default 'idle', "
    "turn text " NOT_NULL " default '', reason text " NOT_NULL " default '', "
    "base_seq integer " NOT_NULL " default 0, wake_at integer, admitted integer " NOT_NULL
    " default 0, "
    "crashes integer " NOT_NULL " default 0, quarantined integer " NOT_NULL " default 0, "
    "created_at integer " NOT_NULL ", since_at integer " NOT_NULL ", unique(principal, name))",
    "create index pawl_sessions_wake on pawl_sessions(wake_at, owner) where wake_at is not null",
    "create index pawl_sessions_owner on pawl_sessions(owner) where owner <> ''",
    "create table pawl_owners(id text primary key, beat integer " NOT_NULL ", "
    "address text " NOT_NULL ", at integer " NOT_NULL ") without rowid",
    "create table pawl_inbox(id integer primary key, session integer " NOT_NULL ", "
    "n integer " NOT_NULL ", kind integer " NOT_NULL ", request_id text " NOT_NULL
    ", digest text " NOT_NULL ", "
    "body text " NOT_NULL ", at integer " NOT_NULL ", due_at integer " NOT_NULL ", "
    "disposition integer " NOT_NULL " default 0, turn text " NOT_NULL " default '', "
    "unique(session, kind, request_id), unique(session, n))",
    "create index pawl_inbox_pending on pawl_inbox(session, kind, n) where disposition = 0",
    "create table pawl_journal(pos integer primary key, session integer " NOT_NULL ", "
    "seq integer " NOT_NULL ", epoch integer " NOT_NULL ", at integer " NOT_NULL
    ", kind text " NOT_NULL ", "
    "turn text " NOT_NULL ", step text " NOT_NULL ", body text " NOT_NULL ")",
    "create unique index pawl_journal_seq on pawl_journal(session, seq)",
    "create table pawl_turns(session integer " NOT_NULL ", turn text " NOT_NULL ", "
    "opened_seq integer " NOT_NULL ", ended_seq integer, state text " NOT_NULL ", "
    "primary key(session, opened_seq), unique(session, turn)) without rowid",
    "create table pawl_blobs(hash text primary key, size integer " NOT_NULL ", bytes blob " NOT_NULL
    ")",
    "create view pawl_view_messages as "
    "select s.principal, s.name as session, j.seq, "
    "datetime((r.value ->> '$.at') / 1000, 'unixepoch') as at, j.turn, '' as step, "
    "r.value ->> '$.role' as role, (select group_concat(p.value ->> '$.text', '') "
    "from json_each(r.value, '$.content') p where p.value ->> '$.type' = 'text') as text "
    "from pawl_journal j join pawl_sessions s on s.id = j.session, "
    "json_each(j.body, '$.requests') r where j.kind = 'turn.opened' "
    "union all select s.principal, s.name, j.seq, datetime(j.at / 1000, 'unixepoch'), j.turn, "
    "j.step, 'assistant', "
    "(select group_concat(p.value ->> '$.text', '') from json_each(j.body, '$.parts') p "
    "where p.value ->> '$.type' = 'text') "
    "from pawl_journal j join pawl_sessions s on s.id = j.session "
    "where j.kind = 'model.completed' "
    "union all select s.principal, s.name, j.seq, datetime(j.at / 1000, 'unixepoch'), j.turn, "
    "j.step, 'tool', "
    "j.body ->> '$.result' from pawl_journal j join pawl_sessions s on s.id = j.session "
    "where j.kind = 'tool.completed'",
    "create view pawl_view_steps as select s.principal, s.name as session, j.seq, "
    "datetime(j.at / 1000, 'unixepoch') as at, j.turn, j.step, j.kind, "
    "j.body ->> '$.name' as tool, j.body ->> '$.model' as model, "
    "j.body ->> '$.outcome' as outcome, j.at - (j.body ->> '$.started_at') as duration_ms, "
    "j.body from pawl_journal j join pawl_sessions s on s.id = j.session where j.step <> ''",
    "create view pawl_view_turns as select s.principal, s.name as session, t.turn, t.state, "
    "datetime(o.at / 1000, 'unixepoch') as opened_at, "
    "datetime(e.at / 1000, 'unixepoch') as ended_at, t.opened_seq, t.ended_seq, "
    "e.body ->> '$.reason' as reason, e.body ->> '$.text' as text "
    "from pawl_turns t join pawl_sessions s on s.id = t.session "
    "left join pawl_journal o on o.session = t.session and o.seq = t.opened_seq "
    "left join pawl_journal e on e.session = t.session and e.seq = t.ended_seq",
    NULL,
};
