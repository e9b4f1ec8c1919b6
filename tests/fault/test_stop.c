/* A server that stops while a peer of gRPC takes no answers. */

#include <signal.h>

#include "support/h2_peer.h"
#include "support/server_fixture.h"
#include "test.h"

enum { CALLS = 100, LIMIT_MS = 60000 };

/* NextRequest{kind: UUID_V7, count: 10000}, which are 36 bytes each. */
static const uint8_t next[] = {0, 0, 0, 0, 5, 0x08, 2, 0x18, 0x90, 0x4e};

/* The peer's calls queue until it takes answers, and it takes none. A stop that waited for them would last until the
 * connection is closed for taking none. That is longer than the whole stop may take. */
/* promise W15 */
TEST(stop_does_not_wait_for_answers_that_the_peer_does_not_read)
{
    static const char *const args[] = {"--drain-ms", "100", "--log-level", "debug", NULL};
    server_fixture *stopping = server_fixture_start(&(server_fixture_options){.scheme = "grpc", .args = args});
    assert_non_null(stopping);
    h2_peer *peer = h2_peer_open(server_fixture_port(stopping), 1);
    assert_non_null(peer);
    for (size_t n = 0; n < CALLS; n++)
        h2_peer_call(peer, "/lockstock.v1.IdService/Next", NULL, next, sizeof next, false);
    while (h2_peer_answer(peer, 0)->blocks == 0)
        assert_true(h2_peer_turn(peer));
    process *program = server_fixture_process(stopping);
    process_signal(program, SIGTERM);
    assert_true(process_exited_with(program, 0, LIMIT_MS));
    const char *output = process_output(program);
    assert_null(strstr(output, "the peer did not read answers in time"));
    assert_non_null(strstr(output, "the server is stopping"));
    h2_peer_free(peer);
    server_fixture_free(stopping);
}

TEST_MAIN()
