/* IdempotencyService: its methods are known and answer UNIMPLEMENTED. */
#include "lockstock/v1/idempotency.lks.h"
#include "services/service.h"

static const service_method methods[] = {LKS_IDEMPOTENCY_METHODS(SERVICE_ROW_UNIMPLEMENTED)};

const service idempotency_service = {.n_methods = sizeof methods / sizeof methods[0], .methods = methods};
