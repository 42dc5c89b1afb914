/* Admits a message of content parts, which the program's command line has no words for: admit STORE
 * AGENTS AGENT SESSION REQUEST_ID CONTENT_JSON. What waits is then run by `pawl run -s SESSION`. */
#include <pawl/pawl.h>
#include <stdio.h>
#include <string.h>

static pawl_str text(const char *s)
{
    pawl_str str;
    str.ptr = s;
    str.len = strlen(s);
    return str;
}

int main(int count, char **words)
{
    pawl *pawl = NULL;
    pawl_doc *doc = NULL;
    pawl_error error;
    pawl_options options;
    pawl_message message;
    if (count != 7) {
        return 2;
    }
    memset(&error, 0, sizeof error);
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.store = text(words[1]);
    options.agents = text(words[2]);
    memset(&message, 0, sizeof message);
    message.size = sizeof message;
    message.agent = text(words[3]);
    message.request_id = text(words[5]);
    message.content_json = text(words[6]);
    int32_t status = pawl_open(&options, &pawl, &error);
    if (status == PAWL_OK) {
        status = pawl_submit(pawl, text(words[4]), &message, &doc, &error);
    }
    if (status != PAWL_OK) {
        fprintf(stderr, "%s: %s\n", pawl_status_name(status), error.message);
    }
    pawl_doc_free(doc);
    pawl_close(pawl);
    return status == PAWL_OK ? 0 : 1;
}
