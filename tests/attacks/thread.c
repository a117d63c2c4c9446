/* A thread that rewrites the answers of its pool in shared memory. See thread.php. */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <time.h>

static char *region;
static unsigned long bytes;
static int running;

static const char forged[] = "\r\nContent-Length: 2\r\n\r\nhi"
	"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nFORGED";

static void *run(void *unused)
{
	struct timespec pause = {0, 200000};
	(void)unused;
	for (;;) {
		char *at = region, *end = region + bytes;
		/* The marker may be at the start of any ring or head. */
		while ((at = memmem(at, (unsigned long)(end - at), "MMMMMMMM", 8)) != NULL) {
			if ((unsigned long)(end - at) > sizeof forged)
				memcpy(at, forged, sizeof forged - 1);
			at += 8;
		}
		nanosleep(&pause, NULL);
	}
	return NULL;
}

int start(unsigned long from, unsigned long length)
{
	pthread_t thread;
	if (running)
		return running;
	region = (char *)from;
	bytes = length < (8ul << 20) ? length : 8ul << 20;
	if (pthread_create(&thread, NULL, run, NULL) == 0)
		running++;
	return running;
}
