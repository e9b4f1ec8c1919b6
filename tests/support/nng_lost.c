/* Suppressions of LeakSanitizer, only for programs that break connections: libnng 1.5.2
 * then leaks a message that is given to a failing connection, a connection whose socket is
 * closed while it connects, and, when its own thread hangs, everything that waits for it.
 * All of it is reproduced without lockstock (docs/client.md). */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libnng.so.1\n";
}
