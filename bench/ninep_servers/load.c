/* A client that asks a 9P2000 server as fast as it answers, and prints how long that took.
 *
 *     load [-n COUNT] [-d DEPTH] [-k CONNECTIONS] [-f FIDS] [-c BYTES] [-p PAUSE_US] SOCKET JOB PATH [PATH]
 *
 * SOCKET is the path of a unix socket. A job prints one number, microseconds for each operation, and `wake` its median:
 *
 *     read, stat    of one fid, DEPTH of them in flight
 *     cat           walk, open, read and clunk, DEPTH such chains in flight
 *     stream        a file from its start to its end, COUNT times, DEPTH reads of BYTES ahead
 *     crowd         CONNECTIONS with one read in flight each
 *     wake          a read of the first path is blocked, a write to the second path answers it: from write to answer
 *     hold          CONNECTIONS with FIDS open fids each, and with a second path a blocked read of that on each;
 *                   prints `held` and ends with its standard input
 */
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { VERSION = 100, ATTACH = 104, ERROR = 107, WALK = 110, OPEN = 112, READ = 116, WRITE = 118, CLUNK = 120, STAT = 124 };
enum { MSIZE = 65536, ROOM = 1 << 20, CHAINS = 1024, HEADER = 7 };

typedef struct {
	int fd;
	uint8_t *in; /* what has come: in[done..got) is still to be looked at */
	size_t done, got, room;
} Line;

typedef struct {
	int type, tag;
	uint32_t size;
	const uint8_t *body;
} Message;

static long count = 1000, connections = 1, fids = 1, pause_us = 1000;
static int depth = 1;
static uint32_t bytes = 8192;
static const char *socket_path, *path, *second;
static uint8_t out[ROOM];
static size_t out_size;

static void fail(const char *what)
{
	fprintf(stderr, "load: %s%s%s\n", what, errno ? ": " : "", errno ? strerror(errno) : "");
	exit(1);
}

static double now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}

static uint32_t number(const uint8_t *at, int width)
{
	uint32_t value = 0;
	while (width--)
		value = value << 8 | at[width];
	return value;
}

static void add(uint64_t value, int width)
{
	for (; width--; value >>= 8)
		out[out_size++] = value & 255;
}

static void add_text(const char *text, size_t length)
{
	add(length, 2);
	memcpy(out + out_size, text, length);
	out_size += length;
}

/* Queue a message. Each letter of `fields` is one: its width in bytes, `s` for text, `p` for the names of a path. */
static void ask(int type, int tag, const char *fields, ...)
{
	size_t start = out_size;
	va_list values;
	if (out_size + 4096 > ROOM)
		fail("too much to send at once");
	add(0, 4);
	add(type, 1);
	add(tag, 2);
	va_start(values, fields);
	for (; *fields; fields++) {
		if (*fields == 's') {
			const char *text = va_arg(values, const char *);
			add_text(text, strlen(text));
		} else if (*fields == 'p') {
			size_t mark = out_size;
			int names = 0;
			const char *rest = va_arg(values, const char *);
			add(0, 2);
			while (*rest) {
				size_t length = strcspn(rest, "/");
				add_text(rest, length);
				names++;
				rest += length + (rest[length] == '/');
			}
			out[mark] = names;
		} else {
			add(va_arg(values, uint64_t), *fields - '0');
		}
	}
	va_end(values);
	size_t end = out_size;
	out_size = start;
	add(end - start, 4);
	out_size = end;
}

static void deliver(Line *line)
{
	for (size_t at = 0; at < out_size;) {
		ssize_t sent = send(line->fd, out + at, out_size - at, MSG_NOSIGNAL);
		if (sent < 0 && errno != EINTR)
			fail("send");
		at += sent > 0 ? sent : 0;
	}
	out_size = 0;
}

/* The next whole message that is here, or 0. */
static int here(Line *line, Message *message)
{
	size_t left = line->got - line->done;
	const uint8_t *at = line->in + line->done;
	if (left < HEADER || left < number(at, 4))
		return 0;
	message->size = number(at, 4);
	message->type = at[4];
	message->tag = number(at + 5, 2);
	message->body = at + HEADER;
	line->done += message->size;
	if (message->type == ERROR) {
		fprintf(stderr, "load: the server says: %.*s\n", (int)number(at + 7, 2), (const char *)at + 9);
		exit(1);
	}
	return 1;
}

static void receive(Line *line)
{
	if (line->done) {
		memmove(line->in, line->in + line->done, line->got - line->done);
		line->got -= line->done;
		line->done = 0;
	}
	if (line->room - line->got < bytes + 24) { /* connections that only hold fids stay small */
		line->room = line->room ? 2 * (MSIZE + bytes) : 2048;
		line->in = realloc(line->in, line->room);
	}
	ssize_t size = recv(line->fd, line->in + line->got, line->room - line->got, 0);
	errno = size ? errno : 0;
	if (size <= 0)
		fail("the connection ended");
	line->got += size;
}

static Message await(Line *line, int type)
{
	Message message;
	while (!here(line, &message))
		receive(line);
	if (message.type != type) {
		fprintf(stderr, "load: a reply of type %d instead of %d\n", message.type, type);
		exit(1);
	}
	return message;
}

static Message call(Line *line, int type)
{
	deliver(line);
	return await(line, type + 1);
}

static Line *dial(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	Line *line = calloc(1, sizeof *line);
	snprintf(address.sun_path, sizeof address.sun_path, "%s", socket_path);
	line->fd = socket(AF_UNIX, SOCK_STREAM, 0);
	while (connect(line->fd, (struct sockaddr *)&address, sizeof address)) {
		if (errno != EAGAIN)
			fail(socket_path);
		usleep(100);
	}
	ask(VERSION, 0xffff, "4s", (uint64_t)MSIZE, "9P2000");
	call(line, VERSION);
	ask(ATTACH, 0, "44ss", (uint64_t)0, (uint64_t)UINT32_MAX, "glenda", "");
	call(line, ATTACH);
	return line;
}

static void check_walk(const Message *message, const char *to)
{
	int names = *to != 0;
	for (; *to; to++)
		names += *to == '/';
	if ((int)number(message->body, 2) != names)
		fail("a walk was short");
}

static void open_at(Line *line, uint64_t fid, const char *to, uint64_t mode)
{
	ask(WALK, 0, "44p", (uint64_t)0, fid, to);
	Message walked = call(line, WALK);
	check_walk(&walked, to);
	ask(OPEN, 0, "41", fid, mode);
	call(line, OPEN);
}

/* One operation is a word of steps: w(alk) o(pen) r(ead) c(lunk) s(tat). A chain works on a fid of its own where it
 * walks, else on fid 1. */
static int queue_step(char step, int chain, int own)
{
	uint64_t fid = own ? 10 + chain : 1;
	switch (step) {
	case 'w': ask(WALK, chain, "44p", (uint64_t)0, fid, path); return WALK;
	case 'o': ask(OPEN, chain, "41", fid, (uint64_t)0); return OPEN;
	case 'r': ask(READ, chain, "484", fid, (uint64_t)0, (uint64_t)bytes); return READ;
	case 's': ask(STAT, chain, "4", fid); return STAT;
	default: ask(CLUNK, chain, "4", fid); return CLUNK;
	}
}

static double chains(Line *line, const char *word)
{
	int at[CHAINS] = {0}, expected[CHAINS], own = *word == 'w';
	long begun = 0, ended = 0;
	double start = now_us();
	for (; begun < depth && begun < count; begun++)
		expected[begun] = queue_step(word[0], begun, own);
	deliver(line);
	while (ended < count) {
		Message message;
		while (here(line, &message)) {
			int chain = message.tag;
			if (chain >= depth || message.type != expected[chain] + 1)
				fail("a reply to nothing that was asked");
			if (message.type == WALK + 1)
				check_walk(&message, path);
			if (!word[++at[chain]]) {
				ended++;
				at[chain] = 0;
				if (begun == count)
					continue;
				begun++;
			}
			expected[chain] = queue_step(word[at[chain]], chain, own);
		}
		deliver(line);
		if (ended < count)
			receive(line);
	}
	return (now_us() - start) / count;
}

static double stream(Line *line)
{
	long reads = 0;
	double start = now_us();
	for (long pass = 0; pass < count; pass++) {
		uint64_t offset = 0;
		int flying = 0, ended = 0;
		do {
			while (!ended && flying < depth) {
				ask(READ, flying++, "484", (uint64_t)1, offset, (uint64_t)bytes);
				offset += bytes;
			}
			deliver(line);
			Message message = await(line, READ + 1);
			ended |= number(message.body, 4) < bytes;
			flying--;
			reads++;
		} while (flying || !ended);
	}
	return (now_us() - start) / reads;
}

static Line **dial_many(void)
{
	Line **lines = calloc(connections, sizeof *lines);
	for (long i = 0; i < connections; i++) {
		lines[i] = dial();
		for (long fid = 1; fid <= fids; fid++)
			open_at(lines[i], fid, path, 0);
	}
	return lines;
}

static double crowd(void)
{
	Line **lines = dial_many();
	struct epoll_event events[256];
	int poll = epoll_create1(0);
	long begun = 0, ended = 0;
	for (long i = 0; i < connections; i++) {
		struct epoll_event event = {EPOLLIN, {.ptr = lines[i]}};
		epoll_ctl(poll, EPOLL_CTL_ADD, lines[i]->fd, &event);
	}
	double start = now_us();
	for (; begun < connections && begun < count; begun++) {
		queue_step('r', 0, 0);
		deliver(lines[begun]);
	}
	while (ended < count) {
		int ready = epoll_wait(poll, events, 256, 30000);
		if (ready <= 0)
			fail("no answer");
		for (int i = 0; i < ready; i++) {
			Line *line = events[i].data.ptr;
			Message message;
			receive(line);
			while (here(line, &message)) {
				ended++;
				if (begun < count) {
					begun++;
					queue_step('r', 0, 0);
					deliver(line);
				}
			}
		}
	}
	return (now_us() - start) / count;
}

static int ascending(const void *left, const void *right)
{
	double difference = *(const double *)left - *(const double *)right;
	return difference < 0 ? -1 : difference > 0;
}

static double wake(Line *reader)
{
	Line *writer = dial();
	double *took = calloc(count, sizeof *took);
	open_at(writer, 1, second, 1);
	for (long i = 0; i < count; i++) {
		open_at(reader, 1, path, 0);
		queue_step('r', 0, 0);
		deliver(reader);
		usleep(pause_us);
		ask(WRITE, 0, "4848", (uint64_t)1, (uint64_t)0, (uint64_t)8, (uint64_t)0x21656b6177ULL);
		double start = now_us();
		deliver(writer);
		await(reader, READ + 1);
		took[i] = now_us() - start;
		await(writer, WRITE + 1);
		queue_step('c', 0, 0);
		call(reader, CLUNK);
	}
	qsort(took, count, sizeof *took, ascending);
	return took[count / 2];
}

static void hold(void)
{
	Line **lines = dial_many();
	for (long i = 0; second && i < connections; i++) {
		open_at(lines[i], 1000, second, 0);
		ask(READ, 1, "484", (uint64_t)1000, (uint64_t)0, (uint64_t)bytes);
		deliver(lines[i]);
	}
	puts("held");
	fflush(stdout);
	while (getchar() != EOF)
		;
}

static double job(const char *name)
{
	if (!strcmp(name, "crowd"))
		return crowd();
	Line *line = dial();
	if (!strcmp(name, "wake"))
		return wake(line);
	if (!strcmp(name, "cat"))
		return chains(line, "worc");
	open_at(line, 1, path, 0);
	if (!strcmp(name, "stat"))
		return chains(line, "s");
	return !strcmp(name, "stream") ? stream(line) : chains(line, "r");
}

int main(int argc, char **argv)
{
	struct rlimit files;
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	for (int option; (option = getopt(argc, argv, "n:d:k:f:c:p:")) != -1;) {
		long value = option == '?' ? 0 : atol(optarg);
		switch (option) {
		case 'n': count = value; break;
		case 'd': depth = value > CHAINS ? CHAINS : value; break;
		case 'k': connections = value; break;
		case 'f': fids = value; break;
		case 'c': bytes = value > MSIZE - 24 ? MSIZE - 24 : value; break;
		case 'p': pause_us = value; break;
		default: return 2;
		}
	}
	if (argc - optind < 3) {
		fprintf(stderr, "usage: load [options] SOCKET JOB PATH [PATH]; see the head of load.c\n");
		return 2;
	}
	socket_path = argv[optind];
	path = argv[optind + 2];
	second = argv[optind + 3];
	if (!strcmp(argv[optind + 1], "hold"))
		hold();
	else
		printf("%.3f\n", job(argv[optind + 1]));
	return 0;
}
