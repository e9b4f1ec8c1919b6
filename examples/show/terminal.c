#include "terminal.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static const char enter[] = "\033[?1049h\033[?25l\033[2J";
static const char leave[] = "\033[0m\033[?25h\033[?1049l";

static volatile sig_atomic_t is_entered, has_keys;
static struct termios before;

static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
enum { N_CRASHES = sizeof crashes / sizeof *crashes };
static struct sigaction crash_actions[N_CRASHES];

bool terminal_is_live(void)
{
    const char *kind = getenv("TERM");

    return isatty(STDOUT_FILENO) && kind && kind[0] != '\0' && strcmp(kind, "dumb") != 0;
}

void terminal_write(const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t written = write(STDOUT_FILENO, bytes, n);
        if (written < 0 && errno != EINTR)
            return;
        bytes += written > 0 ? written : 0;
        n -= written > 0 ? (size_t)written : 0;
    }
}

/* Only what a signal handler may do. */
void terminal_leave(void)
{
    if (has_keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
    has_keys = 0;
    if (is_entered)
        terminal_write(leave, sizeof leave - 1);
    is_entered = 0;
}

/* As if this had not been here: a sanitizer's handler may be the one before. */
static void crash(int number)
{
    terminal_leave();
    for (size_t i = 0; i < N_CRASHES; i++)
        if (crashes[i] == number)
            sigaction(number, &crash_actions[i], NULL);
    raise(number);
}

void terminal_enter(void)
{
    struct sigaction action = {.sa_handler = crash};
    struct termios mode;

    for (size_t i = 0; i < N_CRASHES; i++)
        sigaction(crashes[i], &action, &crash_actions[i]);
    atexit(terminal_leave);
    if (isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &before) == 0) {
        mode = before;
        mode.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        mode.c_cc[VMIN] = 1;
        mode.c_cc[VTIME] = 0;
        mode.c_cc[VSUSP] = _POSIX_VDISABLE; /* nobody would take the screen back */
        has_keys = tcsetattr(STDIN_FILENO, TCSANOW, &mode) == 0;
    }
    is_entered = 1;
    terminal_write(enter, sizeof enter - 1);
}

bool terminal_has_keys(void)
{
    return has_keys != 0;
}

void terminal_size(size_t *rows, size_t *columns)
{
    struct winsize size = {0};

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
        size = (struct winsize){0};
    *rows = size.ws_row > 0 ? size.ws_row : 24;
    *columns = size.ws_col > 0 ? size.ws_col : 80;
}
