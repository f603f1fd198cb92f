// A Triton backend that answers every request with nothing, so that loading a model takes no longer than what
// Triton's own core does with it. Built by plain_server.py; the declarations are those of core's tritonbackend.h.

#include <stddef.h>
#include <stdint.h>

struct error;
struct instance;
struct request;
struct response;

enum { FINAL = 1, RELEASE_ALL = 1 };

struct error *TRITONBACKEND_ResponseNew(struct response **response, struct request *request);
struct error *TRITONBACKEND_ResponseSend(struct response *response, uint32_t flags, struct error *error);
struct error *TRITONBACKEND_RequestRelease(struct request *request, uint32_t flags);

struct error *TRITONBACKEND_ModelInstanceExecute(struct instance *instance, struct request **requests,
                                                 const uint32_t count) {
  (void)instance;
  for (uint32_t each = 0; each < count; ++each) {
    struct response *response = NULL;
    TRITONBACKEND_ResponseNew(&response, requests[each]);
    TRITONBACKEND_ResponseSend(response, FINAL, NULL);
    TRITONBACKEND_RequestRelease(requests[each], RELEASE_ALL);
  }
  return NULL;
}
