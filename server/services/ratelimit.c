/* RateLimitService: its methods are known and answer UNIMPLEMENTED. */
#include "lockstock/v1/ratelimit.lks.h"
#include "services/service.h"

static const service_method methods[] = {LKS_RATE_LIMIT_METHODS(SERVICE_ROW_UNIMPLEMENTED)};

const service ratelimit_service = {.n_methods = sizeof methods / sizeof methods[0], .methods = methods};
