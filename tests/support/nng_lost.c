/* LeakSanitizer, only for programs whose connections are made to break: libnng 1.5.2
 * then loses a message that a failing connection is given, a connection whose socket is
 * closed while it connects, and, where its own thread hangs, all that waits for that.
 * All of it is reproduced without lockstock (docs/client.md). */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libnng.so.1\n";
}
