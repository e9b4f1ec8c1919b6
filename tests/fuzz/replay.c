/* A fuzz target as a test: runs every file of the given directories once. Fails
 * when there are no files. */
#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#include "fuzz.h"

static size_t n_inputs;

static int run_file(const char *path)
{
    struct stat status;
    FILE *file = fopen(path, "rb");

    if (!file || fstat(fileno(file), &status) != 0 || !S_ISREG(status.st_mode)) {
        fprintf(stderr, "%s: %s\n", path, file ? "not a file" : strerror(errno));
        if (file)
            fclose(file);
        return 1;
    }
    size_t len = (size_t)status.st_size;
    uint8_t *data = malloc(len + 1);
    fuzz_expect(data && fread(data, 1, len, file) == len);
    fclose(file);
    fprintf(stderr, "%s\n", path);
    uint8_t *exact = realloc(data, len > 0 ? len : 1);
    LLVMFuzzerTestOneInput(exact, len);
    free(exact);
    n_inputs++;
    return 0;
}

static int run_directory(const char *path)
{
    DIR *directory = opendir(path);
    const struct dirent *entry;
    char name[4096];
    int failed = 0;

    if (!directory) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return 1;
    }
    while ((entry = readdir(directory))) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        failed |= run_file(name);
    }
    closedir(directory);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;

    for (int i = 1; i < argc; i++)
        failed |= run_directory(argv[i]);
    return failed || n_inputs == 0;
}
