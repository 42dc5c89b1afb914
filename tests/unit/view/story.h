/* A hand-made turn: records as the core writes them, for tests of what is shown of them. */
#ifndef TEST_VIEW_STORY_H
#define TEST_VIEW_STORY_H

#include "core/record.h"

#define RECORD(seq_, kind_, turn_, step_, body_)                                                   \
    {                                                                                              \
        .seq = (seq_), .at_ms = 1700000000000 + (int64_t)(seq_)*1000, .kind = PW_RECORD_##kind_,   \
        .turn = PW_STR_INIT(turn_), .step = PW_STR_INIT(step_), .body = PW_STR_INIT(body_)         \
    }

#define STORY_USAGE                                                                                \
    "{\"input_tokens\":3000,\"output_tokens\":50,\"cached_tokens\":300,\"reasoning_tokens\":0,"    \
    "\"cost_micros\":12300,\"unpriced_calls\":0,\"lost_calls\":0,\"iterations\":2,"                \
    "\"tool_calls\":2,\"retries\":1,\"fallbacks\":0,\"protocol_failures\":0}"

#define STORY_OPENED                                                                               \
    RECORD(1, TURN_OPENED, "t1", "",                                                               \
           "{\"v\":1,\"turn\":\"t1\",\"run\":\"run-1\",\"agent\":\"ops\",\"definition\":\"d\","    \
           "\"requests\":[{\"id\":\"r1\",\"n\":1,\"at\":1700000000500,\"role\":\"user\","          \
           "\"source\":\"http\",\"user\":{\"id\":\"U1\",\"attested\":true},"                       \
           "\"content\":[{\"type\":\"text\",\"text\":\"two orders\"}]}],\"n\":1,\"budget\":{},"    \
           "\"deadline_at\":1700001800000,\"first_seq\":1,\"before\":{},\"generation\":0,"         \
           "\"initiator\":null}")
#define STORY_DISCARDED                                                                            \
    RECORD(2, MODEL_DISCARDED, "t1", "model:2",                                                    \
           "{\"v\":1,\"try\":1,\"code\":\"cut_off\",\"shown\":9,"                                  \
           "\"usage\":{\"in_uncached\":10,\"in_cache_read\":-1,\"in_cache_write\":-1,\"out\":2,"   \
           "\"reasoning\":-1,\"cost_micros\":-1}}")
#define STORY_RETRYING                                                                             \
    RECORD(3, MODEL_RETRYING, "t1", "model:2",                                                     \
           "{\"v\":1,\"try\":1,\"class\":\"retry\",\"code\":\"cut_off\",\"message\":\"the stream " \
           "broke\",\"until\":1700000004000}")
#define STORY_CALLS                                                                                \
    RECORD(                                                                                        \
        4, MODEL_COMPLETED, "t1", "model:2",                                                       \
        "{\"v\":1,\"n\":2,\"provider\":\"scripted\",\"model\":\"m-1\",\"response_id\":\"x\","      \
        "\"parts\":[{\"type\":\"thinking\",\"text\":\"hm\",\"raw\":{\"signature\":\"S3CRET\"}},"   \
        "{\"type\":\"text\",\"text\":\"On it.\"},"                                                 \
        "{\"type\":\"tool_call\",\"call\":\"a\",\"id\":\"a\",\"name\":\"create_order\","           \
        "\"arguments\":{\"item\":  1.50}},"                                                        \
        "{\"type\":\"tool_call\",\"call\":\"b\",\"id\":\"b\",\"name\":\"refund\","                 \
        "\"arguments\":{\"order\":12345678901234567890}}],"                                        \
        "\"stop\":\"tool_calls\",\"stop_detail\":\"\",\"usage\":{\"in_uncached\":700,"             \
        "\"in_cache_read\":300,\"in_cache_write\":-1,\"out\":20,\"reasoning\":5,"                  \
        "\"cost_micros\":12000},\"started_at\":1700000003100,\"tries\":2}")
#define STORY_STARTED                                                                              \
    RECORD(5, TOOL_STARTED, "t1", "tool:2:b",                                                      \
           "{\"v\":1,\"call\":\"b\",\"name\":\"refund\",\"execution\":1,\"limit_at\":"             \
           "1700000065000}")
#define STORY_ATTEMPT                                                                              \
    RECORD(6, ATTEMPT_STARTED, "t1", "",                                                           \
           "{\"v\":1,\"attempt\":2,\"run\":\"run-2\",\"cause\":\"recovery\",\"lost\":1}")
#define STORY_UNKNOWN                                                                              \
    RECORD(7, TOOL_COMPLETED, "t1", "tool:2:b",                                                    \
           "{\"v\":1,\"call\":\"b\",\"name\":\"refund\",\"effects\":\"once\","                     \
           "\"outcome\":\"unknown\",\"result\":{\"outcome\":\"unknown\"},\"is_error\":true,"       \
           "\"started_at\":1700000005000,\"executions\":1}")
#define STORY_DONE                                                                                 \
    RECORD(8, TOOL_COMPLETED, "t1", "tool:2:a",                                                    \
           "{\"v\":1,\"call\":\"a\",\"name\":\"create_order\",\"effects\":\"transactional\","      \
           "\"outcome\":\"done\",\"result\":[{\"id\":1}],\"is_error\":false,"                      \
           "\"started_at\":1700000007500,\"executions\":1}")
#define STORY_REPLY                                                                                \
    RECORD(9, MODEL_COMPLETED, "t1", "model:5",                                                    \
           "{\"v\":1,\"n\":5,\"provider\":\"scripted\",\"model\":\"m-1\",\"response_id\":\"y\","   \
           "\"parts\":[{\"type\":\"text\",\"text\":\"Done.\"}],\"stop\":\"done\","                 \
           "\"stop_detail\":\"\",\"usage\":{\"in_uncached\":2000,\"in_cache_read\":-1,"            \
           "\"in_cache_write\":-1,\"out\":30,\"reasoning\":-1,\"cost_micros\":300},"               \
           "\"started_at\":1700000008100,\"tries\":1}")
#define STORY_ENDED                                                                                \
    RECORD(10, TURN_ENDED, "t1", "",                                                               \
           "{\"v\":1,\"state\":\"completed\",\"reason\":null,\"detail\":null,\"actor\":null,"      \
           "\"text\":\"Done.\",\"stop\":\"done\",\"requests\":[\"r1\"],\"agent\":\"ops\","         \
           "\"model\":\"m-1\",\"attempts\":2,\"started_at\":1700000001000,"                        \
           "\"usage\":" STORY_USAGE ",\"operations\":[{\"step\":\"tool:2:a\","                     \
           "\"name\":\"create_order\",\"effects\":\"transactional\",\"outcome\":\"done\"}],"       \
           "\"code\":null}")

#define STORY                                                                                      \
    STORY_OPENED, STORY_DISCARDED, STORY_RETRYING, STORY_CALLS, STORY_STARTED, STORY_ATTEMPT,      \
        STORY_UNKNOWN, STORY_DONE, STORY_REPLY, STORY_ENDED
enum { STORY_COUNT = 10, STORY_EVENTS = 12 };

#endif
