/* Looks for a file in a directory and passes those before it: `position DIRECTORY NAME`. docs/determinism.md */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    DIR *directory = argc == 3 ? opendir(argv[1]) : 0;
    if (!directory)
        return 2;
    int position = 0;
    for (struct dirent *entry; (entry = readdir(directory)) && strcmp(entry->d_name, argv[2]);)
        for (const char *at = entry->d_name; *at; at++)
            position += *at != '.';
    return position < 0;
}
