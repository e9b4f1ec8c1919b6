#include "table.h"
bool table_run(const bench_options *o, json *j)
{
    (void)o, (void)j;
    return true;
}
