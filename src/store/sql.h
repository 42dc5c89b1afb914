/*
 * What every SQL host shares: an operation becomes statements, rows become its result. Pure: no
 * database, no clock, no memory but the arenas it is given. Any host that runs a list of statements
 * atomically is enough.
 *
 * All conditions live in the statements and none is an error, so a refused operation changes
 * nothing and disturbs no neighbour in the same transaction: an append's first insert carries every
 * condition, each later statement asks whether that row is there, and the reason of a refusal is
 * read only then. A host says after each statement how many rows it changed, which spares the rest
 * of a refused operation. Appends, which are nearly everything, may also be run by a host that
 * cannot look between statements (`blind`): it asks for all of them first, and the last one reads
 * what became of them.
 *
 * Parameters are text or integers (a host that only has text prints them); they are numbered ?1, ?2
 * … in the texts, which are constants named by id, so that a host prepares each once.
 *
 *     pw_sql_start(&run, op, scratch);
 *     while (pw_sql_next(&run, &statement)) {
 *         execute; for each row: pw_sql_row(&run, cells, count);
 *         pw_sql_did(&run, rows changed);
 *     }
 *     pw_sql_end(&run);            // the op's status and results are set
 */
#ifndef PW_STORE_SQL_H
#define PW_STORE_SQL_H

#include "store/backend.h"

#define PW_SQL_SCHEMA_VERSION 1
#define PW_SQL_MAX_PARAMS 20
#define PW_SQL_MAX_CELLS 24

typedef enum pw_sql_id {
    PW_SQL_ADMIT_SESSION,
    PW_SQL_ADMIT_INSERT,
    PW_SQL_ADMIT_COUNT,
    PW_SQL_ADMIT_RESULT,
    PW_SQL_WITHDRAW,
    PW_SQL_WITHDRAW_RESULT,
    PW_SQL_CANCEL_INSERT,
    PW_SQL_CANCEL_RESULT,
    PW_SQL_JOIN,
    PW_SQL_BEAT,
    PW_SQL_LEAVE,
    PW_SQL_OWNERS_IDLE, /* for hosts that can tell by themselves who is dead */
    PW_SQL_TAKE_BEFORE,
    PW_SQL_TAKE_UPDATE,
    PW_SQL_TAKE_AFTER,
    PW_SQL_BURY,
    PW_SQL_RELEASE,
    PW_SQL_APPEND_FIRST,
    PW_SQL_APPEND_FIRST_FOLLOWS,
    PW_SQL_APPEND_FIRST_CONSUMES,
    PW_SQL_APPEND_FIRST_CONSUMES_FOLLOWS,
    PW_SQL_APPEND_MORE,
    PW_SQL_APPEND_MORE_BLIND,
    PW_SQL_APPEND_CONSUME,
    PW_SQL_APPEND_CANCELS,
    PW_SQL_APPEND_TURN_OPENED,
    PW_SQL_APPEND_TURN,
    PW_SQL_APPEND_BLOB,
    PW_SQL_APPEND_HEAD,
    PW_SQL_APPEND_RECEIPT,
    PW_SQL_APPEND_WHY,
    PW_SQL_OWNERS,
    PW_SQL_DUE,
    PW_SQL_DUE_ONE,
    PW_SQL_DUE_NEXT,
    PW_SQL_DUE_NEXT_ONE,
    PW_SQL_SESSION_BY_ID,
    PW_SQL_SESSION_BY_NAME,
    PW_SQL_SESSION_EXISTS,
    PW_SQL_SESSIONS,
    PW_SQL_RECORDS,
    PW_SQL_INBOX_LOOKED,
    PW_SQL_INBOX_CANCELS,
    PW_SQL_INBOX_MESSAGES,
    PW_SQL_MESSAGE,
    PW_SQL_TURN,
    PW_SQL_TURNS,
    PW_SQL_BLOB,
    PW_SQL_REBUILD_CLEAR,
    PW_SQL_REBUILD_TURNS,
    PW_SQL_VERIFY_FIRST,
    PW_SQL_VERIFY_ORDER = PW_SQL_VERIFY_FIRST,
    PW_SQL_VERIFY_EPOCH,
    PW_SQL_VERIFY_BODY,
    PW_SQL_VERIFY_TURN_ROWS,
    PW_SQL_VERIFY_TURN_RECORDS,
    PW_SQL_VERIFY_OPEN,
    PW_SQL_VERIFY_CLAIMED,
    PW_SQL_VERIFY_REQUESTS,
    PW_SQL_VERIFY_DEFINITIONS,
    PW_SQL_VERIFY_BLOBS,
    PW_SQL_VERIFY_ADMITTED,
    PW_SQL_COUNT
} pw_sql_id;

extern const char *const pw_sql_text[PW_SQL_COUNT];
/* The schema, one statement each, NULL ends; run in one transaction on a store that has no
 * pawl_meta. */
extern const char *const pw_sql_schema[];

typedef enum pw_sql_type { PW_SQL_NULL, PW_SQL_INTEGER, PW_SQL_TEXT, PW_SQL_BYTES } pw_sql_type;

typedef struct pw_sql_value {
    pw_sql_type type;
    int64_t number;
    pw_str text;
} pw_sql_value;

typedef struct pw_sql_statement {
    pw_sql_id id;
    const pw_sql_value *params; /* until the next pw_sql_next */
    size_t count;
} pw_sql_statement;

typedef struct pw_sql_run {
    pw_op *op;
    pw_arena *scratch;
    size_t step, index;
    bool again; /* the same step once more */
    /* What a host may know and set after pw_sql_start. */
    bool blind; /* APPEND: it cannot say how many rows a statement changed before it asks for the
                   next */
    bool
        calm; /* this session's crash count is 0 under this epoch: spares a statement per receipt */
    bool follows;    /* the append's first seq is the last one + 1: spares looking for a gap */
    pw_sql_id id;    /* of the statement under way */
    int64_t changed; /* rows changed by the last one */
    bool refused;    /* its conditions did not hold */
    bool found;      /* a row came */
    size_t param_count;
    pw_sql_value params[PW_SQL_MAX_PARAMS];
    pw_str list; /* named rows or dead owners as ",a,b," */
    void *rows;  /* results so far */
    size_t row_count, row_capacity;
    pw_status failed; /* a row that could not be kept */
    pw_take_before before;
    uint64_t epoch_before;
    bool joined;      /* TAKE: my own row is there */
    pw_buffer report; /* VERIFY */
} pw_sql_run;

void pw_sql_start(pw_sql_run *, pw_op *, pw_arena *scratch);
bool pw_sql_next(pw_sql_run *, pw_sql_statement *ret);
/* Cells are borrowed for the call. */
void pw_sql_row(pw_sql_run *, const pw_sql_value *cells, size_t count);
static inline void pw_sql_did(pw_sql_run *run, int64_t changed)
{
    run->changed = changed;
}
void pw_sql_end(pw_sql_run *);
/* VERIFY: one more line, found by the host itself. */
void pw_sql_fault(pw_sql_run *, pw_str line);

/* --- Between sql.c (programs), sql_row.c (results) and nobody else. */
void pw_sql_result(pw_sql_run *);
pw_status pw_sql_row_keep(pw_sql_run *, const pw_sql_value *cells);

#endif
