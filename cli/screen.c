#include "screen.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "words.h"

/* The alternate screen without a cursor. Lines do not wrap, because a character may be wider than counted. */
static const char enter[] = "\033[?1049h\033[?25l\033[?7l";
static const char leave[] = "\033[0m\033[?7h\033[?25h\033[?1049l";
static const int caught[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGWINCH};
enum { N_CAUGHT = sizeof caught / sizeof *caught };

static volatile sig_atomic_t ending, resized;
static bool has_screen, has_keys, is_over;
static struct termios before;
static struct sigaction actions[N_CAUGHT];
static size_t rows, columns, drawn;

static void on_signal(int number)
{
    if (number == SIGWINCH)
        resized = 1;
    else
        ending = number;
}

bool screen_is_there(void)
{
    const char *kind = getenv("TERM");

    return isatty(STDOUT_FILENO) && kind && *kind && strcmp(kind, "dumb") != 0;
}

static void give_back(void)
{
    if (has_keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
    if (has_screen) {
        fputs(leave, stdout);
        fflush(stdout);
    }
    has_keys = has_screen = false;
}

void screen_enter(void)
{
    struct sigaction action = {.sa_handler = on_signal};

    for (size_t i = 0; i < N_CAUGHT; i++) {
        action.sa_flags = caught[i] == SIGWINCH ? SA_RESTART : 0; /* a new size must not interrupt a write */
        sigaction(caught[i], &action, &actions[i]);
    }
    atexit(give_back);
    if (isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &before) == 0) {
        struct termios mode = before;
        mode.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        mode.c_cc[VMIN] = 0; /* a read never blocks */
        mode.c_cc[VTIME] = 0;
        mode.c_cc[VSUSP] = _POSIX_VDISABLE; /* a stopped program would not restore the screen */
        has_keys = tcsetattr(STDIN_FILENO, TCSANOW, &mode) == 0;
    }
    has_screen = true;
    fputs(enter, stdout);
    fflush(stdout);
}

void screen_leave(void)
{
    give_back();
    for (size_t i = 0; i < N_CAUGHT; i++)
        sigaction(caught[i], &actions[i], NULL);
    if (ending && ending != SIGINT)
        raise(ending);
}

bool screen_is_over(void)
{
    char key;

    while (has_keys && !is_over && read(STDIN_FILENO, &key, 1) == 1)
        is_over = key == 'q' || key == 'Q';
    return is_over || ending;
}

/* Signals are blocked except during ppoll, so that none is missed between the check and the wait. */
void screen_wait(int64_t ms)
{
    struct pollfd keys = {.fd = has_keys ? STDIN_FILENO : -1, .events = POLLIN};
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    sigset_t blocked, usual;

    sigemptyset(&blocked);
    for (size_t i = 0; i < N_CAUGHT; i++)
        sigaddset(&blocked, caught[i]);
    sigprocmask(SIG_BLOCK, &blocked, &usual);
    if (!screen_is_over() && !resized)
        ppoll(&keys, 1, &pause, &usual);
    sigprocmask(SIG_SETMASK, &usual, NULL);
    resized = 0;
}

void screen_size(size_t *ret_rows, size_t *ret_columns)
{
    struct winsize size = {0};

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
        size = (struct winsize){0};
    *ret_rows = size.ws_row > 0 ? size.ws_row : 24;
    *ret_columns = size.ws_col > 0 ? size.ws_col : 80;
}

/* ---- drawing ------------------------------------------------------------------------- */

void screen_begin(void)
{
    screen_size(&rows, &columns);
    drawn = 0;
    fputs("\033[H", stdout);
}

static void draw(const char *before_line, const char *line)
{
    if (drawn == rows)
        return;
    printf("%s%s%.*s\033[0m\033[K", drawn++ > 0 ? "\n" : "", before_line, (int)words_fitting(line, columns), line);
}

void screen_line(const char *line)
{
    draw("", line);
}

void screen_heading(const char *line)
{
    draw("\033[1m", line);
}

void screen_end(void)
{
    fputs("\033[J", stdout);
    fflush(stdout);
}
