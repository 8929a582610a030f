/* relay SOCKET ADDRESS PORT: passes every connection to a unix socket on to a TCP server.
 * It returns when the socket can be connected to, and goes on in the background. */

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void copy(int from, int to)
{
	char data[65536];
	ssize_t size;

	while ((size = read(from, data, sizeof data)) > 0)
		for (ssize_t done = 0, now; done < size; done += now)
			if ((now = write(to, data + done, size - done)) <= 0)
				_exit(1);
	shutdown(to, SHUT_WR);
	_exit(0);
}

int main(int count, char **words)
{
	struct sockaddr_un here = {.sun_family = AF_UNIX};
	struct sockaddr_in there = {.sin_family = AF_INET};
	int listener = socket(AF_UNIX, SOCK_STREAM, 0);

	if (count != 4 || strlen(words[1]) >= sizeof here.sun_path)
		return 2;
	strcpy(here.sun_path, words[1]);
	there.sin_addr.s_addr = inet_addr(words[2]);
	there.sin_port = htons(atoi(words[3]));
	if (bind(listener, (struct sockaddr *)&here, sizeof here) || listen(listener, 8))
		return 1;
	if (fork())
		return 0;
	for (;;) {
		int client = accept(listener, 0, 0), server = socket(AF_INET, SOCK_STREAM, 0);

		if (connect(server, (struct sockaddr *)&there, sizeof there))
			return 1;
		if (!fork())
			copy(client, server);
		if (!fork())
			copy(server, client);
		close(client);
		close(server);
	}
}
