/* fenced_register: a resource that many take for theirs. Reads lines "OWNER FENCE",
 * answers "OK", or "STALE" when the fence is lower than the highest it has seen. Ends
 * with 0 when its input ends; with 1 at once when one fence has two owners. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    char owner[64], highest_owner[64] = "";
    uint64_t fence, highest = 0;

    while (scanf("%63s %" SCNu64, owner, &fence) == 2) {
        if (fence == highest && strcmp(owner, highest_owner) != 0) {
            fprintf(stderr, "fence %" PRIu64 " has two owners, %s and %s\n", fence, highest_owner, owner);
            return 1;
        }
        if (fence > highest) {
            highest = fence;
            memcpy(highest_owner, owner, sizeof owner);
        }
        puts(fence < highest ? "STALE" : "OK");
        fflush(stdout);
    }
    return 0;
}
