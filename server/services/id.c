/* IdService: its methods are known and answer UNIMPLEMENTED. */
#include "lockstock/v1/id.lks.h"
#include "services/service.h"

static const service_method methods[] = {LKS_ID_METHODS(SERVICE_ROW_UNIMPLEMENTED)};

const service id_service = {.n_methods = sizeof methods / sizeof methods[0], .methods = methods};
