#include "services/service.h"

const service *const all_services[SERVICES] = {
    &lock_service, &stock_service, &idempotency_service, &ratelimit_service,
    &id_service,   &guard_service, &admin_service,
};
