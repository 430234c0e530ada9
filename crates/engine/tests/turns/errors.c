// Calls on descriptors that are not for them, and of no bytes: they return at once.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

static void tell(const char *what, long result) {
    printf("%s: %ld %s\n", what, result, result < 0 ? strerrorname_np(errno) : "");
}

int main(void) {
    alarm(20);
    int ends[2];
    if (pipe(ends)) return 1;
    char bytes[64] = "x";
    struct iovec part = {bytes, 1};
    tell("write to the reading end", write(ends[0], bytes, 1));
    tell("writev to the reading end", writev(ends[0], &part, 1));
    static char many[100000];
    tell("write of much to the reading end", write(ends[0], many, sizeof many));
    tell("read of the writing end", read(ends[1], bytes, 1));
    tell("readv of the writing end", readv(ends[1], &part, 1));
    tell("read of nothing", read(ends[0], bytes, 0));
    tell("recv of a pipe", recv(ends[0], bytes, 1, 0));
    tell("send to a pipe", send(ends[1], bytes, 1, 0));
    tell("accept of a pipe", accept(ends[0], 0, 0));
    int path = open("/", O_PATH);
    tell("read of a path", read(path, bytes, 1));
    int listening = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    tell("bind", bind(listening, (void *)&name, sizeof(sa_family_t)));
    tell("accept before listen", accept(listening, 0, 0));
    tell("listen", listen(listening, 1));
    tell("read of a listening socket", read(listening, bytes, 1));
    tell("write to a listening socket", write(listening, bytes, 1));
    int datagrams[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, datagrams)) return 1;
    tell("accept of datagrams", accept(datagrams[0], 0, 0));
    while (write(ends[1], many, 4096) == 4096) {
        if (fcntl(ends[1], F_SETFL, O_NONBLOCK)) return 1;
    }
    if (fcntl(ends[1], F_SETFL, 0)) return 1;
    tell("write of nothing to a full pipe", write(ends[1], bytes, 0));
    return 0;
}
